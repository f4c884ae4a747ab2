// Threads for scans, sole importer of piscina but for the threads' entry: a set of them, and another one for each that is lost in native code.
import { constants, getPriority, setPriority } from 'node:os';
import { Piscina } from 'piscina';
import { scanWorkerPath } from '../paths.js';
import type { ScanTask, ScanTaskResult, ThreadSettings } from './task.js';

export interface Threads {
  /** Threads that have nothing to do. */
  readonly idle: number;
  /** Only when one is idle; until it is released nobody else gets it. */
  take(): Thread;
  /** Ends the threads, but for those that are lost: native code can't be stopped from outside. */
  stop(): Promise<void>;
}

export interface Thread {
  /** One task at a time. */
  run(task: ScanTask): Promise<ScanTaskResult>;
  /** It has had its time: from now on it gets what the others leave of the processor, and another thread stands in for it. */
  lose(): void;
  release(): void;
}

/** A Piscina of one thread: of several it doesn't say which one has the task. */
interface Seat {
  readonly piscina: Piscina<ScanTask | undefined, ScanTaskResult>;
  state: 'starting' | 'idle' | 'taken' | 'lost';
  /** The kernel's number of the thread; null: not known. */
  id: number | null;
}

/**
 * So many steps down the kernel gives a thread a tenth of what the others get, where they want all there is: a thread that
 * spins would otherwise cost those that stand in, and the one that serves, as much as itself.
 */
const LOST_NICE = 10;
/** Between a thread that couldn't be started and the next try. */
const RETRY_MS = 500;

/** `onIdle`: a thread that stands in can be taken now. */
export function startThreads(count: number, settings: ThreadSettings, onIdle: () => void): Threads {
  const seats = new Set<Seat>();
  let isStopped = false;

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
    const seat: Seat = { piscina, state, id: null };
    seats.add(seat);
    // A thread that ends before it has loaded what it needs. Its task, if it has one, is told by the task's own rejection.
    piscina.on('error', () => giveUp(seat));
    void identify(seat).then((isThere) => {
      // It was given a task before it had said its number, and has used up its time already.
      if (seat.state === 'lost' && seat.id !== null) lower(seat.id);
      if (!isThere) giveUp(seat);
      if (seat.state !== 'starting' || !isThere || isStopped) return;
      seat.state = 'idle';
      onIdle();
    });
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

  /** At most as many again as were wanted stand in, since each that hangs costs a core. */
  function fill(): void {
    const useful = [...seats].filter(({ state }) => state !== 'lost').length;
    if (useful >= count || seats.size >= 2 * count || isStopped) return;
    try {
      open('starting');
    } catch {
      // The kernel has refused it at once: for want of memory or of a process number.
      tryLater();
    }
  }

  function firstIdle(): Seat {
    for (const seat of seats) if (seat.state === 'idle') return seat;
    throw new Error('No thread is idle');
  }

  for (let seat = 0; seat < count; seat += 1) open('idle');

  return {
    get idle() {
      let idle = 0;
      for (const { state } of seats) if (state === 'idle') idle += 1;
      return idle;
    },
    take() {
      const seat = firstIdle();
      seat.state = 'taken';
      return {
        run: (task) =>
          seat.piscina.run(task, { transferList: [task.content] }).catch((error: unknown) => {
            // The thread has died, and Piscina has put another one in its place.
            seat.id = null;
            void identify(seat);
            throw error;
          }),
        lose() {
          seat.state = 'lost';
          if (seat.id !== null) lower(seat.id);
          fill();
        },
        release() {
          if (seat.state !== 'lost') {
            seat.state = 'idle';
            return;
          }
          // It can't be given its priority back without rights that the service needn't have. Who stands in stays.
          dismiss(seat);
          fill();
        },
      };
    },
    async stop() {
      isStopped = true;
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
    seat.id = null;
    return false;
  }
}

function lower(id: number): void {
  try {
    // Linux has priorities for threads, under the numbers that it gives them.
    setPriority(id, Math.min(constants.priority.PRIORITY_LOW, getPriority(id) + LOST_NICE));
  } catch {
    // It goes on as it was: the process will be replaced.
  }
}
