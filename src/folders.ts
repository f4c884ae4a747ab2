// Folders that are made with those above them. Node's own `recursive` never ends where the kernel denies that a folder is there, as below /proc.
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { codeOf } from './error-text.js';

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
