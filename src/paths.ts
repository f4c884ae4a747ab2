// Where the project's own files lie, relative to this one: everything that is read from disk at run time; and folders that are made, or gone.
import { existsSync, lstatSync, mkdirSync, statSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { codeOf } from './error-text.js';

function fromRoot(path: string): string {
  // This file is dist/src/paths.js when it runs, or a part of one in dist/program/.
  return fileURLToPath(new URL(`../../${path}`, import.meta.url));
}

export const packageJsonPath = fromRoot('package.json');
export const addonPath = fromRoot('native/build/Release/sluice.node');
export const socketsAddonPath = fromRoot('native/build/Release/sockets.node');
export const processAddonPath = fromRoot('native/build/Release/process.node');
/** uWebSockets.js as npm has installed it, from any maker, and the one that the build has fetched for other Nodes. */
export const installedUwsDirectory = fromRoot('node_modules/uWebSockets.js');
export const fetchedUwsDirectory = fromRoot('dist/uwebsockets');
export const freshclamSetupPath = fromRoot('native/freshclam.sh');
export const ownSignaturesDirectory = fromRoot('signatures');
export const marksDirectory = fromRoot('signatures/marks');
/** How common bytes are in clean content; see docs/signatures.md. */
export const priorPath = fromRoot('signatures/prior/windows.bin');
/** The same signatures as rules, and marks of what YARA-X can't look into: for when ClamAV is not there. */
export const ownRulesDirectory = fromRoot('signatures/yara');
export const migrationsDirectory = fromRoot('src/store/migrations');
export const scanWorkerPath = fromRoot('dist/src/engine/threads/worker.js');
export const gatesWorkerPath = fromRoot('dist/src/engine/clamav/gates/prepare-worker.js');
export const ruleValidationPath = fromRoot('dist/src/engine/yara/rule-validation.js');
export const dashboardDirectory = fromRoot('dist/dashboard');
export const bundledProgramPath = fromRoot('dist/program/program.js');
export const mainPath = fromRoot('dist/src/main.js');
/** Where `npm start` keeps its data. */
export const programDataDirectory = fromRoot('data');
/** Made when there is none, and left out where it can't be. */
export const compileCacheDirectory = fromRoot('dist/.compiled');

/** Below the data folder: the journal of the history. */
export const JOURNAL_FOLDER = 'journal';

/** Closed to others, unless `mode` says otherwise. One that is there stays as it is. */
export function makeFolder(path: string, mode = 0o700): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  const above = dirname(path);
  if (!existsSync(above)) makeFolder(above, mode);
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    // Another process may have made it meanwhile.
    if (codeOf(error) !== 'EEXIST' || !statSync(path).isDirectory()) throw error;
  }
}

/**
 * The same for what must not wait for a disk. `mkdir` of Node with `recursive` never ends where a folder is there and takes no other, as /proc:
 * it keeps a thread busy for good.
 */
export async function makeFolderAsync(path: string): Promise<void> {
  const above = dirname(path);
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return;
    if (codeOf(error) !== 'ENOENT' || above === path || (await isThere(above))) throw error;
    await makeFolderAsync(above);
    await mkdir(path, { mode: 0o700 });
  }
}

const isThere = async (path: string): Promise<boolean> => (await stat(path).catch(() => null)) !== null;

/** The path itself, not what a link leads to. Where that can't be found out, it counts as there. */
export function isGone(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) === undefined;
  } catch {
    return false;
  }
}
