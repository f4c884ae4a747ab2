// The bell of a pool: what scan threads ring when there is an answer, and how the serving thread hears it, once for all that rang in a turn.

export interface Bell {
  readonly word: Int32Array;
  /** Nothing is heard any more. */
  stop(): void;
}

/** `onRing` is called at least once after each time that the word was counted up and notified. */
export function startBell(onRing: () => void): Bell {
  const word = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  let isStopped = false;

  /** Looks first and waits for what comes after the look: nothing is missed between the two. */
  function listen(): void {
    for (;;) {
      if (isStopped) return;
      const heard = Atomics.load(word, 0);
      onRing();
      const waiting = Atomics.waitAsync(word, 0, heard);
      if (!waiting.async) continue;
      void waiting.value.then(listen);
      return;
    }
  }
  listen();

  return {
    word,
    stop() {
      isStopped = true;
      Atomics.add(word, 0, 1);
      Atomics.notify(word, 0);
    },
  };
}
