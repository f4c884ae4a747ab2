// `sluice signatures check`: loads folders in this process, tries the engine, and says what it was made of.

import { resolve } from 'node:path';
import { readConfig } from '../config/config.js';
import type { EngineChoice } from '../config/variables.js';
import type { Engine } from '../engine/engine.js';
import { presentFolders } from '../engine/folders.js';
import { loadSignatures } from '../engine/signatures.js';
import { messageOfError } from '../error-text.js';
import { EXIT_CLEAN, EXIT_FAILED } from '../exit-codes.js';
import { wireTime } from '../wire-time.js';
import { escapeText } from './escape.js';
import { createProgress } from './progress.js';

/** For the two scans of the self-test. */
const SELF_TEST_TIMEOUT_MS = 60_000;

/** Resolves with the exit code. */
export async function signaturesCheck(folders: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const config = readConfig(env);
  const directories =
    folders.length > 0 ? folders.map((folder) => resolve(folder)) : presentFolders(config.signatureFolders);
  const tried = await tryToLoad(directories, { engine: config.engine, mayStandIn: true });
  if (tried.kind === 'failed') {
    process.stderr.write(`sluice: ${escapeText(tried.message)}\n`);
    return EXIT_FAILED;
  }
  process.stdout.write(`${describeLoad(tried.engine)}\n`);
  // The warnings have said what is wrong; here it decides.
  const { rules, standsInFor } = tried.engine;
  return standsInFor === null && (rules?.refusedFiles ?? 0) === 0 ? EXIT_CLEAN : EXIT_FAILED;
}

export type Tried =
  | { readonly kind: 'loaded'; readonly engine: Engine }
  | { readonly kind: 'failed'; readonly message: string };

interface Wanted {
  readonly engine: EngineChoice;
  /** False: it fails where another engine would stand in. */
  readonly mayStandIn: boolean;
}

/** Shows the progress and passes the engine's complaints on. */
export async function tryToLoad(directories: readonly string[], wanted: Wanted): Promise<Tried> {
  const progress = createProgress(process.stderr);
  const signatures = loadSignatures({
    directories,
    ...wanted,
    scanTimeoutMs: SELF_TEST_TIMEOUT_MS,
    onProgress: progress.loading,
    onEvent(event) {
      if (event.kind !== 'warning') return;
      progress.hide();
      process.stderr.write(`sluice: ${event.message}\n`);
    },
  });
  try {
    return { kind: 'loaded', engine: await signatures.ready() };
  } catch (error) {
    return { kind: 'failed', message: messageOfError(error) };
  } finally {
    progress.stop();
    await signatures.stop();
  }
}

export function describeLoad(engine: Engine): string {
  const { signatureVersion, signaturesBuiltAt, loadMillis, contents, standsInFor } = engine;
  const built = wireTime(new Date(signaturesBuiltAt * 1000));
  const facts = `version ${signatureVersion}, built ${built}, loaded in ${(loadMillis / 1000).toFixed(1)} s, self-test passed`;
  return `${standsInFor === null ? 'OK' : `Without ${standsInFor.name}`}: ${contents}, ${facts}`;
}
