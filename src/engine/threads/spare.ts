// Whether a thread beside the set is kept ready: from the time that one may be wanted until none was for a while.

/** It takes 85 to 100 ms of a core to start a thread, and 11 MB while it is there. */
const SPARE_MS = 60_000;

export interface Spare {
  readonly isKept: boolean;
  /** One may soon be wanted. True: none was kept until now. */
  want(): boolean;
  stop(): void;
}

export interface SpareOptions {
  /** Threads beside the set are taken. */
  readonly isInUse: () => boolean;
  /** Each time that it was looked whether it is still wanted. */
  readonly onLook: () => void;
}

export function createSpare({ isInUse, onLook }: SpareOptions): Spare {
  let timer: NodeJS.Timeout | null = null;
  let wasWanted = false;

  function look(): void {
    timer = null;
    if (wasWanted || isInUse()) keep();
    wasWanted = false;
    onLook();
  }

  function keep(): void {
    timer = setTimeout(look, SPARE_MS).unref();
  }

  return {
    get isKept() {
      return timer !== null;
    },
    want() {
      wasWanted = true;
      if (timer !== null) return false;
      keep();
      return true;
    },
    stop() {
      if (timer !== null) clearTimeout(timer);
    },
  };
}
