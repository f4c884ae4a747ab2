// The scan threads that there are: opened until there are as many as are wanted, and tried again where one could not be started.
import { startBell } from './bell.js';
import type { ThreadSettings } from './task.js';
import { openThreadSlot, type ThreadSlot } from './thread-slot.js';

export interface ThreadSlots {
  /** Also those that start, and those that are given up. */
  readonly size: number;
  readonly idle: number;
  all(): Iterable<ThreadSlot>;
  /** The idle one that had a scan last. */
  takeIdle(): ThreadSlot | undefined;
  /** It is idle again. */
  rest(slot: ThreadSlot): void;
  /** Starts as many as are missing. */
  fill(): void;
  /** Ends idle ones of which there are more than are wanted. */
  trim(): void;
  dismiss(slot: ThreadSlot): void;
  /** Ends all but those that are given up. */
  stop(): Promise<void>;
}

export interface ThreadSlotsOptions {
  /** Open from the beginning. */
  readonly count: number;
  readonly settings: ThreadSettings;
  /** How many there are to be now. */
  readonly wanted: () => number;
  /** One that has started can be taken. */
  readonly onStarted: () => void;
}

/** Between a thread that couldn't be started and the next try. */
const RETRY_MS = 500;

export function openThreadSlots({ count, settings, wanted, onStarted }: ThreadSlotsOptions): ThreadSlots {
  const slots = new Set<ThreadSlot>();
  const idle: ThreadSlot[] = [];
  const places = createPlaces();
  let isStopped = false;
  const bell = startBell(() => {
    for (const slot of slots) slot.collect();
  });

  function rest(slot: ThreadSlot): void {
    slot.state = 'idle';
    idle.push(slot);
  }

  function open(): ThreadSlot {
    const slot = places.open((place) =>
      openThreadSlot({ place, bell: bell.rope, settings, onStarted: join, onStartFailed: replace }),
    );
    slots.add(slot);
    return slot;
  }

  function join(started: ThreadSlot): void {
    rest(started);
    onStarted();
  }

  /** One that failed makes room for the next try. */
  function replace(failed: ThreadSlot): void {
    dismiss(failed);
    tryLater();
  }

  /** There may be no other thread left whose return would lead to a next try. */
  const tryLater = (): void => void setTimeout(fill, RETRY_MS).unref();

  function fill(): void {
    while (slots.size < wanted() && !isStopped) {
      try {
        open();
      } catch {
        tryLater();
        return;
      }
    }
  }

  function dismiss(slot: ThreadSlot): void {
    slots.delete(slot);
    void slot.close().then(() => places.giveBack(slot.place));
  }

  for (let index = 0; index < count; index += 1) rest(open());

  return {
    get size() {
      return slots.size;
    },
    get idle() {
      return idle.length;
    },
    all: () => slots,
    takeIdle: () => idle.pop(),
    rest,
    fill,
    trim() {
      while (slots.size > wanted()) {
        const slot = idle.pop();
        if (slot === undefined) return;
        dismiss(slot);
      }
    },
    dismiss,
    async stop() {
      isStopped = true;
      if (await closeAll(slots)) bell.stop();
    },
  };
}

/** Closes all but those that are given up. True: none was. */
async function closeAll(slots: ReadonlySet<ThreadSlot>): Promise<boolean> {
  for (const slot of slots) slot.abandon();
  const ending = [...slots].filter(({ state }) => state !== 'givenUp');
  await Promise.all(ending.map((slot) => slot.close()));
  return ending.length === slots.size;
}

/** Numbers of places, each of one thread at a time; the smallest that was never given, where none has come back. */
function createPlaces() {
  const free: number[] = [];
  let count = 0;
  return {
    /** A place stays free where the opening fails. */
    open<T>(openAt: (place: number) => T): T {
      const place = free.pop() ?? count++;
      try {
        return openAt(place);
      } catch (error) {
        free.push(place);
        throw error;
      }
    },
    giveBack: (place: number): void => void free.push(place),
  };
}
