// How long the serving thread has a core at once.
import { messageOfError } from '../error-text.js';
import type { Log } from '../log.js';
import { processAddon } from '../process-addon.js';

/**
 * The shortest that Linux knows (from 6.12 on; older kernels have one slice for all). A thread with a shorter slice than the one that runs
 * need not wait for the end of that one's: all clients wait for this thread, and scan threads and the database compute for longer.
 */
const SLICE_MICROSECONDS = 100;

/** To be called by the serving thread. Threads that start later have the kernel's own slice. Where it can't be had, nothing is lost but time. */
export function takeShortTurns(log: Log): void {
  try {
    processAddon()?.shortenTimeSlice(SLICE_MICROSECONDS);
  } catch (error) {
    log.debug({ reason: messageOfError(error) }, 'the serving thread has the usual time slice');
  }
}
