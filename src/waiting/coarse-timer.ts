// Timers for deadlines that are hardly ever reached: one timer of Node stands for all of them, and beginning and ending one costs next to nothing.
import { performance } from 'node:perf_hooks';

export interface CoarseTimer {
  /** It doesn't call back any more. */
  stop(): void;
}

interface Entry extends CoarseTimer {
  readonly dueMs: number;
  readonly act: () => void;
}

/** How late one may be. */
const TICK_MS = 20;

const entries = new Set<Entry>();
let ticking: NodeJS.Timeout | null = null;

/** Calls back after so long, up to 20 ms later, and never before. */
export function startCoarseTimer(delayMs: number, act: () => void): CoarseTimer {
  const entry: Entry = { dueMs: performance.now() + delayMs, act, stop };
  entries.add(entry);
  ticking ??= setInterval(tick, TICK_MS);
  return entry;
}

function stop(this: Entry): void {
  entries.delete(this);
}

/** One that is begun meanwhile is looked at by the next tick; one that is stopped by another one doesn't call back. */
function tick(): void {
  const nowMs = performance.now();
  const due = [];
  for (const entry of entries) if (entry.dueMs <= nowMs) due.push(entry);
  for (const entry of due) if (entries.delete(entry)) entry.act();
  if (entries.size > 0 || ticking === null) return;
  clearInterval(ticking);
  ticking = null;
}
