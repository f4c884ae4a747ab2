// Threads for scans, sole importer of piscina but for the threads' entry: a set of them, another one for each that is lost in native code, and a few beside them when they are all taken.
import { constants, getPriority, setPriority } from 'node:os';
import { Piscina } from 'piscina';
import { scanWorkerPath } from '../paths.js';
import type { ScanTask, ScanTaskResult, ThreadSettings } from './task.js';

export interface Threads {
  /** So many of the set can be taken now. */
  readonly free: number;
  /** Beside the set one can be taken now. */
  readonly hasStandIn: boolean;
  /** Threads taken beside the set. */
  readonly standIns: number;
  /** Only when one is free or can stand in; until it is released nobody else gets it. */
  take(): Thread;
  /** One beside the set may soon be wanted: it takes a while to start. Calls back with `onFree`. */
  prepareStandIn(): void;
  /** Ends the threads, but for those that are lost: native code can't be stopped from outside. */
  stop(): Promise<void>;
}

export interface Thread {
  /** The kernel's number of it; undefined: it has not said it yet, since it starts; null: there is no /proc to know it from. */
  readonly id: number | null | undefined;
  /** One task at a time. */
  run(task: ScanTask): Promise<ScanTaskResult>;
  /** It has had its time: from now on it gets what the others leave of the processor, and another one takes its place in the set. */
  lose(): void;
  release(): void;
}

export interface ThreadsOptions {
  /** Threads of the set. */
  readonly count: number;
  /** Threads beside it, at most. */
  readonly standIns: number;
  readonly settings: ThreadSettings;
  /** A thread can be taken that could not be taken before, other than by a release or a loss. */
  readonly onFree: () => void;
}

/** A Piscina of one thread: of several it doesn't say which one has the task. */
interface Seat {
  readonly piscina: Piscina<ScanTask | undefined, ScanTaskResult>;
  state: 'starting' | 'idle' | 'taken' | 'lost';
  /** As of Thread. */
  id: number | null | undefined;
}

/**
 * So many steps down the kernel gives a thread a tenth of what the others get, where they want all there is: a thread that
 * spins would otherwise cost those that stand in, and the one that serves, as much as itself.
 */
const LOST_NICE = 10;
/** Between a thread that couldn't be started and the next try. */
const RETRY_MS = 500;
/** A thread beside the set is kept idle for so long: it takes 85 to 100 ms of a core to start, and 11 MB while it is there. */
const SPARE_MS = 60_000;

export function startThreads({ count, standIns, settings, onFree }: ThreadsOptions): Threads {
  const seats = new Set<Seat>();
  const idle: Seat[] = [];
  let taken = 0;
  let lost = 0;
  let isStopped = false;
  /** Runs while a stand-in may be wanted. */
  let spare: NodeJS.Timeout | null = null;
  let isSpareWanted = false;

  /** At most as many again as the set has are replaced, since each that hangs costs a core. */
  const setSize = (): number => Math.max(0, Math.min(count, 2 * count - lost));
  const canStandIn = (): boolean => taken < setSize() + standIns;

  function open(state: 'starting' | 'idle'): void {
    const piscina = new Piscina<ScanTask | undefined, ScanTaskResult>({
      filename: scanWorkerPath,
      name: 'scanTask',
      minThreads: 1,
      maxThreads: 1,
      idleTimeout: Number.POSITIVE_INFINITY,
      // A first task may be handed over while the thread still says its number.
      maxQueue: 1,
      workerData: settings,
    });
    const seat: Seat = { piscina, state, id: undefined };
    seats.add(seat);
    if (state === 'idle') idle.push(seat);
    // A thread that ends before it has loaded what it needs. Its task, if it has one, is told by the task's own rejection.
    piscina.on('error', () => giveUp(seat));
    void identify(seat).then((isThere) => {
      // It was given a task before it had said its number, and has used up its time already.
      if (seat.state === 'lost') lower(seat);
      if (!isThere) giveUp(seat);
      if (seat.state !== 'starting' || !isThere || isStopped) return;
      rest(seat);
      onFree();
    });
  }

  function rest(seat: Seat): void {
    seat.state = 'idle';
    idle.push(seat);
  }

  /** One that nobody waits for yet makes room for the next try. */
  function giveUp(seat: Seat): void {
    if (seat.state !== 'starting' || !seats.has(seat)) return;
    dismiss(seat);
    tryLater();
  }

  /** There may be no other thread left whose return would lead to a next try. */
  function tryLater(): void {
    setTimeout(fill, RETRY_MS).unref();
  }

  function dismiss(seat: Seat): void {
    seats.delete(seat);
    void seat.piscina.destroy();
  }

  /** The set, or what is taken of it and beside it, and one more where that may be wanted. */
  function wanted(): number {
    return Math.min(setSize() + standIns, Math.max(setSize(), taken) + (spare === null ? 0 : 1));
  }

  function fill(): void {
    while (seats.size - lost < wanted() && !isStopped) {
      try {
        open('starting');
      } catch {
        // The kernel has refused it at once: for want of memory or of a process number.
        tryLater();
        return;
      }
    }
  }

  /** Goes on for as long as stand-ins are wanted, and ends those that are idle then. */
  function keepSpare(): void {
    spare = setTimeout(() => {
      spare = null;
      if (isSpareWanted || taken > setSize()) keepSpare();
      isSpareWanted = false;
      while (seats.size - lost > wanted()) {
        const seat = idle.pop();
        if (seat === undefined) return;
        dismiss(seat);
      }
    }, SPARE_MS);
    spare.unref();
  }

  function release(seat: Seat): void {
    if (seat.state !== 'lost') {
      taken -= 1;
      rest(seat);
      return;
    }
    // It can't be given its priority back without rights that the service needn't have. Who took its place stays.
    lost -= 1;
    dismiss(seat);
    fill();
  }

  for (let seat = 0; seat < count; seat += 1) open('idle');

  return {
    get free() {
      return Math.max(0, Math.min(idle.length, setSize() - taken));
    },
    get hasStandIn() {
      return idle.length > 0 && canStandIn();
    },
    get standIns() {
      return Math.max(0, taken - setSize());
    },
    take() {
      const seat = idle.pop();
      if (seat === undefined) throw new Error('No thread is idle');
      seat.state = 'taken';
      taken += 1;
      fill();
      return {
        get id() {
          return seat.id;
        },
        run: (task) =>
          seat.piscina.run(task, { transferList: [task.content] }).catch((error: unknown) => {
            // The thread has died, and Piscina has put another one in its place.
            seat.id = undefined;
            void identify(seat);
            throw error;
          }),
        lose() {
          seat.state = 'lost';
          taken -= 1;
          lost += 1;
          lower(seat);
          fill();
        },
        release: () => release(seat),
      };
    },
    prepareStandIn() {
      if (standIns === 0 || isStopped) return;
      isSpareWanted = true;
      if (spare !== null) return;
      keepSpare();
      fill();
    },
    async stop() {
      isStopped = true;
      if (spare !== null) clearTimeout(spare);
      await Promise.all([...seats].filter(({ state }) => state !== 'lost').map(({ piscina }) => piscina.destroy()));
    },
  };
}

/** Resolves when the thread has loaded all that it needs and has said its number; with false when it is gone. */
async function identify(seat: Seat): Promise<boolean> {
  try {
    const id: unknown = await seat.piscina.run(undefined, { name: 'threadId' });
    seat.id = typeof id === 'number' ? id : null;
    return true;
  } catch {
    seat.id = undefined;
    return false;
  }
}

function lower({ id }: Seat): void {
  if (typeof id !== 'number') return;
  try {
    // Linux has priorities for threads, under the numbers that it gives them.
    setPriority(id, Math.min(constants.priority.PRIORITY_LOW, getPriority(id) + LOST_NICE));
  } catch {
    // It goes on as it was: the process will be replaced.
  }
}
