// Which thread the kernel lets have a core first. All clients wait for the thread that serves; scan threads, the database and V8's helpers
// compute for longer, and wake up because of what that one does: without this they take its core in the middle of it.
import { processAddon } from './process-addon.js';

/**
 * The shortest that Linux knows, from 6.12 on: a thread with a shorter slice than the one that runs need not wait for the end of that one's.
 * Older kernels have one slice for all.
 */
const SLICE_MICROSECONDS = 100;

/** To be called by the serving thread. Where the system forbids it (a container may), nothing is lost but time. */
export function comeFirst(): void {
  quietly(() => processAddon()?.comesFirst(SLICE_MICROSECONDS));
}

/** To be called by threads that compute, or by a process before it starts those that do (`SCHED_BATCH`). Likewise. */
export function waitOnWaking(): void {
  quietly(() => processAddon()?.waitsOnWaking());
}

function quietly(act: () => void): void {
  try {
    act();
  } catch {
    // Speed only: the threads have the urgency that the system gives them.
  }
}
