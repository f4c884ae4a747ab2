// The next try after a load that failed, at doubling distances: reading a large database that is damaged costs a minute each time.

export interface Retries {
  /** To be called when a load begins. */
  begin(): void;
  /** To be called when a load has ended. `isWell`: there is nothing to try again. */
  end(isWell: boolean): void;
  stop(): void;
}

const LONGEST_MS = 30 * 60_000;

/** What failed may have failed for a reason that isn't in the files: no memory for a second engine, no descriptor, a full disk. */
export function createRetries(firstMs: number, retry: () => void): Retries {
  let timer: NodeJS.Timeout | null = null;
  let failures = 0;
  let isStopped = false;

  function clear(): void {
    if (timer !== null) clearTimeout(timer);
  }

  return {
    begin: clear,
    end(isWell) {
      if (isWell) failures = 0;
      if (isWell || isStopped) return;
      timer = setTimeout(retry, Math.min(LONGEST_MS, firstMs * 2 ** failures));
      timer.unref();
      failures += 1;
    },
    stop() {
      isStopped = true;
      clear();
    },
  };
}
