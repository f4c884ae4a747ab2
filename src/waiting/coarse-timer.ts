// Timers for deadlines that are hardly ever reached: one timer of Node stands for all of them, and beginning and ending one costs next to nothing.
import { performance } from 'node:perf_hooks';
import { createLine, type InLine } from './line.js';

export interface CoarseTimer {
  /** It doesn't call back any more. */
  stop(): void;
}

interface Entry extends CoarseTimer, InLine<Entry> {
  readonly dueMs: number;
  readonly act: () => void;
}

/** How late one may be. */
const TICK_MS = 20;

const entries = createLine<Entry>();
let ticking: NodeJS.Timeout | null = null;

/** Calls back after so long, up to 20 ms later, and never before. */
export function startCoarseTimer(delayMs: number, act: () => void): CoarseTimer {
  const entry: Entry = { dueMs: performance.now() + delayMs, act, stop, before: null, behind: null };
  entries.add(entry);
  ticking ??= setInterval(tick, TICK_MS);
  return entry;
}

function stop(this: Entry): void {
  entries.remove(this);
}

/** One that is begun meanwhile is looked at by the next tick; one that is stopped by another one doesn't call back. */
function tick(): void {
  const nowMs = performance.now();
  const due = [];
  for (let entry = entries.first(); entry !== null; entry = entry.behind) if (entry.dueMs <= nowMs) due.push(entry);
  for (const entry of due) if (entries.remove(entry)) entry.act();
  if (entries.size > 0 || ticking === null) return;
  clearInterval(ticking);
  ticking = null;
}
