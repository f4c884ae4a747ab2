// `sluice signatures check`: loads folders in this process, tries the engine, and says what it was made of.
import { resolve } from 'node:path';
import { readConfig } from '../config.js';
import type { EngineChoice, ServingEngine } from '../engine/build.js';
import { problemsOf } from '../engine/rules.js';
import { loadSignatures } from '../engine/signatures.js';
import { escapeText } from './escape.js';
import { EXIT_CLEAN, EXIT_FAILED } from './exit-codes.js';
import { createProgress } from './progress.js';

/** For the two scans of the self-test. */
const SELF_TEST_TIMEOUT_MS = 60_000;

/** Resolves with the exit code. */
export async function signaturesCheck(folders: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const config = readConfig(env);
  const directories = folders.length > 0 ? folders.map((folder) => resolve(folder)) : config.signatureDirectories;
  const tried = await tryToLoad(directories, config.engine);
  if (tried.kind === 'failed') {
    process.stderr.write(`sluice: ${escapeText(tried.message)}\n`);
    return EXIT_FAILED;
  }
  process.stdout.write(`${describeLoad(tried.info)}\n`);
  // It has been said on the way; here it decides.
  const { rules, standsInFor } = tried.info;
  return standsInFor === null && problemsOf(rules?.files ?? []).length === 0 ? EXIT_CLEAN : EXIT_FAILED;
}

export type Tried =
  | { readonly kind: 'loaded'; readonly info: ServingEngine }
  | { readonly kind: 'failed'; readonly message: string };

/** Shows the progress and passes the engine's complaints on. */
export async function tryToLoad(directories: readonly string[], engine: EngineChoice): Promise<Tried> {
  const progress = createProgress(process.stderr);
  const signatures = loadSignatures({
    directories,
    engine,
    scanTimeoutMs: SELF_TEST_TIMEOUT_MS,
    onProgress: progress.loading,
    onEvent(event) {
      if (event.kind !== 'warning') return;
      progress.hide();
      process.stderr.write(`sluice: ${event.message}\n`);
    },
  });
  try {
    return { kind: 'loaded', info: await signatures.ready() };
  } catch (error) {
    return { kind: 'failed', message: error instanceof Error ? error.message : String(error) };
  } finally {
    progress.stop();
    await signatures.stop();
  }
}

export function describeLoad(info: ServingEngine): string {
  const { signatureCount, signatureVersion, signaturesBuiltAt, loadMillis, name, rules, standsInFor } = info;
  const built = new Date(signaturesBuiltAt * 1000).toISOString().slice(0, 19);
  const facts = `version ${signatureVersion}, built ${built}, loaded in ${(loadMillis / 1000).toFixed(1)} s, self-test passed`;
  if (name === 'clamav') {
    const beside = rules === null ? '' : ` and ${rules.ruleCount} YARA rules beside them`;
    return `OK: ${signatureCount} signatures${beside}, ${facts}`;
  }
  return `${standsInFor === null ? 'OK' : 'Without ClamAV'}: ${signatureCount} YARA rules, ${facts}`;
}
