// Which thread the kernel lets have a core first. All clients wait for the thread that serves. Scan threads and V8's helpers compute for
// longer, and wake up because of what that one does: without this they take its core in the middle of it.
import { processAddon } from './process-addon.js';

const SLICE_MS = 0.3;
/** The kernel's own. */
const USUAL_SLICE_MS = 0;
/**
 * A scan thread gets a third of what the serving thread gets where both want a core. All clients of a node wait for the serving thread, which has much
 * to do while large bodies arrive; what they wait for otherwise is only their own scan.
 */
const SCAN_NICER = 5;

/** To be called by the serving thread. Where the system forbids it (a container may), nothing is lost but time. */
export function comeFirst(): void {
  schedule(false, SLICE_MS, 0);
}

/** To be called by the threads of the set. Likewise. */
export function waitOnWaking(): void {
  schedule(true, SLICE_MS, SCAN_NICER);
}

/** To be called by threads beside the set: what wakes them is a short scan, which need not wait until a long one has used up its slice. Likewise. */
export function comeSoon(): void {
  schedule(false, SLICE_MS, SCAN_NICER);
}

/** All threads of the process that is started here wait likewise, but for those that say otherwise. */
export function startWaiting<Started>(start: () => Started): Started {
  schedule(true, USUAL_SLICE_MS, 0);
  try {
    return start();
  } finally {
    comeFirst();
  }
}

function schedule(isBatch: boolean, sliceMs: number, nicer: number): void {
  try {
    processAddon()?.schedule(isBatch, sliceMs, nicer);
  } catch {
    // Speed only: the threads have the urgency that the system gives them.
  }
}
