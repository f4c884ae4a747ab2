// Work that is done again and again, one round at a time: a store that hangs is not given more and more to do.

/** `work` never rejects but in a round that is asked for. */
export function createRounds(everyMs: number, work: () => Promise<void>, onFailure?: (error: unknown) => void) {
  let running: Promise<void> | null = null;

  function now(): Promise<void> {
    running ??= work().finally(() => {
      running = null;
    });
    return running;
  }

  const timer = setInterval(() => void now().catch(onFailure), everyMs).unref();
  return {
    /** A round at once; calls while one runs share it. */
    now,
    /** Begins no more of them. */
    end: (): void => clearInterval(timer),
    /** The same, and waits for the one that runs. */
    async stop(): Promise<void> {
      clearInterval(timer);
      await running;
    },
  };
}
