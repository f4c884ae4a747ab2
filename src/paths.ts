// Where the project's own files lie, relative to this one: everything that is read from disk at run time.
import { fileURLToPath } from 'node:url';

function fromRoot(path: string): string {
  // This file is dist/src/paths.js when it runs.
  return fileURLToPath(new URL(`../../${path}`, import.meta.url));
}

export const packageJsonPath = fromRoot('package.json');
export const addonPath = fromRoot('native/build/Release/sluice.node');
export const socketsAddonPath = fromRoot('native/build/Release/sockets.node');
export const processAddonPath = fromRoot('native/build/Release/process.node');
export const ownSignaturesDirectory = fromRoot('signatures');
export const marksDirectory = fromRoot('signatures/marks');
/** The same signatures as rules, and marks of what YARA-X can't look into: for when ClamAV is not there. */
export const ownRulesDirectory = fromRoot('signatures/yara');
export const migrationsDirectory = fromRoot('src/store/migrations');
export const scanWorkerPath = fromRoot('dist/src/engine/worker.js');
export const gatesWorkerPath = fromRoot('dist/src/engine/clamav/gates/prepare-worker.js');
export const rulesTrialPath = fromRoot('dist/src/engine/rules-trial.js');
export const dashboardDirectory = fromRoot('dist/dashboard');
export const mainPath = fromRoot('dist/src/main.js');
