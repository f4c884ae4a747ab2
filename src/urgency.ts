// Which thread the kernel lets have a core first. All clients wait for the thread that serves. Scan threads and V8's helpers compute for
// longer, and wake up because of what that one does: without this they take its core in the middle of it.
import { processAddon } from './process-addon.js';

const SLICE_MS = 0.3;
/** The kernel's own. */
const USUAL_SLICE_MS = 0;
/**
 * Of threads, by what they are for. `light`: they take no core from the serving thread when it wakes them. `standIn`: what wakes them is a short
 * scan, which need not wait until a long one has used up its slice. `heavy`: where others want a core as well, they get a third of what each of these gets. `background`: nobody
 * waits for it.
 */
const THREADS = {
  light: { isBatch: true, sliceMs: USUAL_SLICE_MS, nicer: 0 },
  standIn: { isBatch: false, sliceMs: SLICE_MS, nicer: 0 },
  heavy: { isBatch: false, sliceMs: SLICE_MS, nicer: 5 },
  background: { isBatch: true, sliceMs: USUAL_SLICE_MS, nicer: 19 },
} as const;
export type ThreadUrgency = keyof typeof THREADS;

/** To be called by the serving thread. Where the system forbids it (a container may), nothing is lost but time. */
export function comeFirst(): void {
  schedule(false, SLICE_MS, 0);
}

/** To be called by a thread, of itself. Likewise. */
export function takeUrgency(urgency: ThreadUrgency): void {
  const { isBatch, sliceMs, nicer } = THREADS[urgency];
  schedule(isBatch, sliceMs, nicer);
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
