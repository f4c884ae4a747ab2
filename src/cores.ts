// Which thread of the service the kernel lets have a core first, and the core that the serving thread has for itself while it is busy.
import { openSync, readdirSync, readSync } from 'node:fs';
import { processAddon } from './process-addon.js';

// All clients wait for the thread that serves. Scan threads and V8's helpers compute for longer, and wake up because of what that one
// does: without what follows they take its core in the middle of it.

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

/** All threads of the process that is started here wait likewise, but for those that say otherwise. `leavesCore`: they don't use the one that the serving thread has for itself at times. */
export function startWaiting<Started>(start: () => Started, { leavesCore = false } = {}): Started {
  const cores = sharedCores();
  schedule(true, USUAL_SLICE_MS, 0);
  if (cores !== null) keepToCores(OF_CALLER, leavesCore ? cores.others : cores.all);
  try {
    return start();
  } finally {
    // The next look puts the serving thread back on its core.
    if (cores !== null) keepToCores(OF_CALLER, cores.all);
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

// Of two cores the serving thread has one for itself while it is busy: otherwise others are woken on it, and it waits for them beside a core that is idle.

/** Shares of a core. A thread that takes as much is what scans wait for; one that takes so little needs none, or doesn't get it, since others want it as well. */
const BUSY = 0.55;
const NOT_BUSY = 0.45;
const LOOK_MS = 100;
/** In a row, before the core is given back. */
const IDLE_LOOKS = 3;
/** Three numbers. */
const SCHEDSTAT_BYTES = 96;

interface SharedCores {
  readonly all: Int32Array;
  readonly own: Int32Array;
  readonly others: Int32Array;
}

let shared: SharedCores | null | undefined;
/** The serving thread is this process's, and has its core for itself now. */
let isKept = false;
/** For the kernel, the thread that calls. */
const OF_CALLER = 0;

/** Null: there are not two, or the system doesn't say which. The second one is the serving thread's, since interrupts are mostly served by the first. */
function sharedCores(): SharedCores | null {
  if (shared === undefined) {
    const all = allowedCores();
    shared = all.length === 2 ? { all, own: all.subarray(1), others: all.subarray(0, 1) } : null;
  }
  return shared;
}

/** To be called by the serving thread, once it serves, where no other process has one. Until the process ends. The bounds are shares of a core. */
export function watchServingThread({ busy = BUSY, notBusy = NOT_BUSY } = {}): void {
  const cores = sharedCores();
  const usedMs = cores === null ? null : openUsed();
  if (cores === null || usedMs === null) return;
  let last = { usedMs: usedMs(), atMs: performance.now() };
  let idleLooks = 0;
  const look = (): void => {
    const now = { usedMs: usedMs(), atMs: performance.now() };
    const share = (now.usedMs - last.usedMs) / (now.atMs - last.atMs);
    last = now;
    idleLooks = share < notBusy ? idleLooks + 1 : 0;
    const isToBeKept = isKept ? idleLooks < IDLE_LOOKS : share >= busy;
    // While it is kept there may be new threads.
    if (isToBeKept || isKept) place(cores, isToBeKept);
  };
  setInterval(look, LOOK_MS).unref();
}

/** Where the threads can't be listed, as while there is no descriptor left, all stays as it is until the next look. */
function place({ all, own, others }: SharedCores, isToBeKept: boolean): void {
  let threads: number[];
  try {
    threads = readdirSync('/proc/self/task').map(Number);
  } catch {
    return;
  }
  isKept = isToBeKept;
  for (const thread of threads) {
    const kept = thread === process.pid ? own : others;
    keepToCores(thread, isKept ? kept : all);
  }
}

function allowedCores(): Int32Array {
  try {
    return processAddon()?.cores() ?? new Int32Array();
  } catch {
    return new Int32Array();
  }
}

function keepToCores(thread: number, cores: Int32Array): void {
  try {
    processAddon()?.keepToCores(thread, cores);
  } catch {
    // The thread has just ended, or the system forbids it: speed only.
  }
}

/** Returns what says the processor time of the serving thread so far; null: the system doesn't say it. It is asked often, so its file stays open. See proc(5), /proc/pid/schedstat. */
function openUsed(): (() => number) | null {
  const text = Buffer.alloc(SCHEDSTAT_BYTES);
  const read = (descriptor: number): number => {
    const bytes = readSync(descriptor, text, 0, text.length, 0);
    return Number(text.toString('latin1', 0, bytes).split(' ')[0]) / 1e6;
  };
  try {
    const descriptor = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r');
    read(descriptor);
    return () => read(descriptor);
  } catch {
    return null;
  }
}
