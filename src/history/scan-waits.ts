// Requests that wait for scans that have not ended: one question to the database for all of them, a few times a second, whichever node has the scans.
import { Unavailable } from '../errors.js';
import type { PendingScans } from './pending-scans.js';

export interface ScanWaits {
  /** Resolves when the scan may have ended, or after so long, or when the client has left. Resolves at once for an account that waits for too many. */
  until(userId: string, id: string, waitMs: number, signal: AbortSignal): Promise<void>;
  /** It has ended, here. */
  ended(id: string): void;
  stop(): void;
}

const ASK_MS = 250;
/** Of one account; and of all, a few hundred bytes each beside the request. */
const WAITS_PER_USER = 64;
const WAITS_MAX = 5_000;

export function createScanWaits(left: PendingScans['left'], onProblem: (error: unknown) => void): ScanWaits {
  const waiting = new Map<string, Set<() => void>>();
  const perUser = new Map<string, number>();
  let all = 0;
  let isAsking = false;

  function ended(id: string): void {
    for (const resolve of waiting.get(id) ?? []) resolve();
  }

  async function ask(): Promise<void> {
    if (waiting.size === 0 || isAsking) return;
    isAsking = true;
    const asked = [...waiting.keys()];
    try {
      const running = new Set((await left(asked)).map(({ id }) => id));
      for (const id of asked) if (!running.has(id)) ended(id);
    } catch (error) {
      onProblem(error);
    } finally {
      isAsking = false;
    }
  }

  const asking = setInterval(() => void ask(), ASK_MS).unref();

  return {
    async until(userId, id, waitMs, signal) {
      const own = perUser.get(userId) ?? 0;
      if (own >= WAITS_PER_USER || signal.aborted) return;
      if (all >= WAITS_MAX) throw new Unavailable('waitsBusy');
      perUser.set(userId, own + 1);
      all += 1;
      await new Promise<void>((resolve) => {
        const resolves = waiting.get(id) ?? new Set();
        const end = (): void => {
          clearTimeout(timer);
          signal.removeEventListener('abort', end);
          resolves.delete(end);
          if (resolves.size === 0) waiting.delete(id);
          resolve();
        };
        const timer = setTimeout(end, waitMs);
        signal.addEventListener('abort', end);
        waiting.set(id, resolves.add(end));
      });
      all -= 1;
      const rest = (perUser.get(userId) ?? 1) - 1;
      if (rest === 0) perUser.delete(userId);
      else perUser.set(userId, rest);
    },
    ended,
    stop: () => clearInterval(asking),
  };
}
