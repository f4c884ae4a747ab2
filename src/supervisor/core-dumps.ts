// No file of this process's memory when it dies: it holds contents of clients and keys. Sole loader of the process addon.

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { messageOfError } from '../error-text.js';
import type { Log } from '../log.js';
import { processAddonPath } from '../paths.js';

interface ProcessAddon {
  forbidCoreDumps(): void;
}

/** For good, and with what the process starts. Where it can't be had the log says so, and the start goes on. */
export function setCoreDumps(wanted: 'on' | 'off', log: Log): void {
  if (wanted === 'on') return;
  if (!existsSync(processAddonPath)) {
    log.warn('core dumps are as the system has them: the addon that forbids them is not built');
    return;
  }
  try {
    const addon: ProcessAddon = createRequire(import.meta.url)(processAddonPath);
    addon.forbidCoreDumps();
  } catch (error) {
    log.warn({ reason: messageOfError(error) }, 'core dumps could not be forbidden');
  }
}
