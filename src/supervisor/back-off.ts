// How long to wait before a server process is started again: not at all the first time, then longer, and shorter after one that had served.

export interface BackOff {
  /** Before the second restart; the first comes at once, and each after the second waits twice as long as the one before it. */
  readonly firstMs: number;
  /** The longest wait after a process that never served, or that had no memory left: each start reads a large database. */
  readonly limitMs: number;
  /** The most that is waited after a crash of one that served: content did it, and waiting would only keep all others out. */
  readonly servedLimitMs: number;
  /** A server that has served for so long makes the next restart the first one again. */
  readonly healthyMs: number;
}

export interface Life {
  /** Since its first load of signatures ended; null: it never did. */
  readonly servedForMs: number | null;
  /** There was no room for it: it would soon be so again. */
  readonly lackedMemory: boolean;
}

/** Called after each end of a process; returns the wait before the next start, in milliseconds. */
export function createDelays({ firstMs, limitMs, servedLimitMs, healthyMs }: BackOff): (life: Life) => number {
  let failures = 0;
  return ({ servedForMs, lackedMemory }) => {
    if (servedForMs !== null && servedForMs >= healthyMs) failures = 0;
    const most = servedForMs === null || lackedMemory ? limitMs : Math.min(servedLimitMs, limitMs);
    const delayMs = failures === 0 ? 0 : Math.min(most, firstMs * 2 ** (failures - 1));
    failures += 1;
    return delayMs;
  };
}
