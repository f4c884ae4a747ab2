// How long a server process that ended is waited with: nothing the first time, then more, and less for one that had served.

export interface BackOff {
  /** Before the second restart; the first comes at once, and each after the second waits twice as long as the one before it. */
  readonly firstMs: number;
  /** The most that is waited after a life that never served, or that ended for want of memory: each start reads a large database. */
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

/** Says after each life what to wait before the next. */
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
