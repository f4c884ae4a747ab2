// The bell of a pool: what scan threads ring when there is an answer, and how the serving thread hears it, once for all that rang in a turn.
import { type ProcessAddon, processAddon } from '../../process-addon.js';

export interface Bell {
  readonly rope: BellRope;
  /**
   * Something is about to ring: for a moment the event loop doesn't sleep, and the thread need not wake it. On a machine with several cores that costs both sides less than
   * sleeping and waking do. Without the addon, nothing changes.
   */
  attend(): void;
  /** Nothing is. */
  leave(): void;
  stop(): void;
}

export interface BellRope {
  readonly word: Int32Array;
  /** Of the addon; null: it is not there, and threads notify the word instead. */
  readonly number: number | null;
}

type BellAddon = Pick<ProcessAddon, 'openBell' | 'attendBell' | 'ringBell' | 'closeBell'>;

/** Of the word, as native/bell.cc has it. */
const RUNG = 1;
const SILENT = 0;
/** A little more than a scan of a few kilobytes takes, with ClamAV's signatures. */
const ATTENDED_US = 100;

/**
 * `onRing` is called at least once after each ring. `addon` null: by Atomics.waitAsync, which costs the serving thread 15 us for each time,
 * and a scan thread 6.
 */
export function startBell(onRing: () => void, addon: BellAddon | null = processAddon()): Bell {
  const word = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  return addon === null ? startWaiting(word, onRing) : openBell(word, addon, onRing);
}

function openBell(word: Int32Array, addon: BellAddon, onRing: () => void): Bell {
  const number = addon.openBell(word, onRing);
  return {
    rope: { word, number },
    // Bound, since they are called for each scan.
    attend: addon.attendBell.bind(addon, number, ATTENDED_US),
    leave: addon.attendBell.bind(addon, number, 0),
    stop: () => addon.closeBell(number),
  };
}

function startWaiting(word: Int32Array, onRing: () => void): Bell {
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
  // Not within the call: its listener is still being made.
  queueMicrotask(listen);

  return {
    rope: { word, number: null },
    attend: () => undefined,
    leave: () => undefined,
    stop() {
      isStopped = true;
      notify(word);
    },
  };
}

function notify(word: Int32Array): void {
  Atomics.add(word, 0, 1);
  Atomics.notify(word, 0);
}

/** Returns what rings. To be called before the thread is confined: it may load the addon. */
export function takeRope({ word, number }: BellRope): () => void {
  if (number === null) return () => notify(word);
  const addon = processAddon();
  if (addon === null) throw new Error('The addon that the bell was opened by is gone');
  return () => {
    if (Atomics.exchange(word, 0, RUNG) === SILENT) addon.ringBell(number);
  };
}
