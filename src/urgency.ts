// Which thread the kernel lets have a core first. All clients wait for the thread that serves. Scan threads and V8's helpers compute for
// longer, and wake up because of what that one does: without this they take its core in the middle of it.
import { processAddon } from './process-addon.js';

/** To be called by the serving thread. Where the system forbids it (a container may), nothing is lost but time. */
export function comeFirst(): void {
  quietly(() => processAddon()?.comesFirst());
}

/** To be called by threads that compute (`SCHED_BATCH`). Likewise. */
export function waitOnWaking(): void {
  quietly(() => processAddon()?.waitsOnWaking());
}

/** All threads of the process that is started here wait likewise, but for those that say otherwise. */
export function startWaiting<Started>(start: () => Started): Started {
  waitOnWaking();
  try {
    return start();
  } finally {
    comeFirst();
  }
}

function quietly(act: () => void): void {
  try {
    act();
  } catch {
    // Speed only: the threads have the urgency that the system gives them.
  }
}
