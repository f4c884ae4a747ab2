// Where `sluice scan` keeps the files of gates, and whether there is so much to scan that making them is worth the time.
import { mkdirSync, realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { isClosedToOthers, isOurs } from '../engine/owned-folder.js';
import { walk } from './walk.js';

/** Gates cost about as much, with ClamAV's signatures and before they are kept, as they spare over so many bytes of documents. */
const WORTH_BYTES = 8 * 1024 * 1024;
/** What a small file costs besides its bytes, as bytes. */
const FILE_BYTES = 8 * 1024;

/** In the user's folder of caches (XDG Base Directory Specification 0.8). Null: there is little to scan, or no folder that is the user's alone. */
export async function gatesFolder(paths: readonly string[], env: NodeJS.ProcessEnv): Promise<string | null> {
  return (await isMuch(paths)) ? ownFolder(env) : null;
}

async function isMuch(paths: readonly string[]): Promise<boolean> {
  let bytes = 0;
  for await (const entry of walk(paths)) {
    if (entry.kind === 'file') bytes += FILE_BYTES + entry.sizeBytes;
    if (bytes >= WORTH_BYTES) return true;
  }
  return false;
}

/** Who writes there, or puts another folder in the place of one above it, decides what is looked at. */
function ownFolder(env: NodeJS.ProcessEnv): string | null {
  const named = env['XDG_CACHE_HOME'] ?? '';
  const folder = join(isAbsolute(named) ? named : join(homedir(), '.cache'), 'sluice', 'gates');
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return isOurs(statSync(folder)) && isClosedToOthers(folder) ? realpathSync(folder) : null;
  } catch {
    // Nothing can be kept there: one engine looks at everything.
    return null;
  }
}
