// The bound on this process's resident memory: looked at beside the scans, never on their way.
import { memoryUsage } from 'node:process';

export interface MemoryGuard {
  /** Why nothing may be scanned now; null: there is room. */
  refusal(): string | null;
  stop(): void;
}

export interface MemoryGuardOptions {
  readonly limitBytes: number;
  /** Called at each look that finds too much. */
  readonly onExceeded: (residentBytes: number) => void;
  readonly intervalMs?: number;
  readonly residentBytes?: () => number;
}

/** A look costs some 20 us. In half a second a thread can fill a few hundred MB: the bound must leave room for that. */
const INTERVAL_MS = 500;

export function startMemoryGuard(options: MemoryGuardOptions): MemoryGuard {
  const { limitBytes, onExceeded, intervalMs = INTERVAL_MS, residentBytes = () => memoryUsage.rss() } = options;
  let exceeded = false;
  let resident = 0;
  const timer = setInterval(() => {
    try {
      resident = residentBytes();
    } catch {
      // No descriptor is left to ask with: what was found last holds until one is.
    }
    exceeded = resident > limitBytes;
    if (exceeded) onExceeded(resident);
  }, intervalMs);
  timer.unref();
  return {
    refusal: () => (exceeded ? 'The scan engine is out of memory' : null),
    stop: () => clearInterval(timer),
  };
}

/** What a bound must be above what was found: scans take some, and another load of signatures. */
const MARGIN = 1.25;
const STEP_BYTES = 64 * 1024 * 1024;

/**
 * A bound that would be enough; `share`: how much of what the process will hold is there already, from 0 to 1. The first
 * tenth of a load says nothing about the rest.
 */
export function enoughBytes(residentBytes: number, share: number): number {
  return Math.ceil(((residentBytes / Math.max(0.1, share)) * MARGIN) / STEP_BYTES) * STEP_BYTES;
}
