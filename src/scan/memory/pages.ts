// Pages of memory back to the kernel, for which Node has no call.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { processAddonPath } from '../../paths.js';

interface ProcessAddon {
  discardPages(bytes: Uint8Array): void;
}

let loadedAddon: ProcessAddon | null | undefined;

/** Null: it needs a compiler at the installation. */
function addon(): ProcessAddon | null {
  if (loadedAddon === undefined) {
    const exported: ProcessAddon | null = existsSync(processAddonPath)
      ? createRequire(import.meta.url)(processAddonPath)
      : null;
    loadedAddon = exported;
  }
  return loadedAddon;
}

/**
 * The whole pages among the bytes are zeros from now on, and take no memory until something is written to them. Without the addon they
 * stay as they are.
 */
export function discardPages(bytes: Uint8Array): void {
  addon()?.discardPages(bytes);
}
