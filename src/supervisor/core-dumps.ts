// No file of this process's memory when it dies: it holds contents of clients and keys.
import { messageOfError } from '../error-text.js';
import type { Log } from '../log.js';
import { processAddon } from '../process-addon.js';

/** For good, and with what the process starts. Where it can't be had the log says so, and the start goes on. */
export function setCoreDumps(wanted: 'on' | 'off', log: Log): void {
  if (wanted === 'on') return;
  try {
    const addon = processAddon();
    if (addon === null) log.warn('core dumps are as the system has them: the addon that forbids them is not built');
    else addon.forbidCoreDumps();
  } catch (error) {
    log.warn({ reason: messageOfError(error) }, 'core dumps could not be forbidden');
  }
}
