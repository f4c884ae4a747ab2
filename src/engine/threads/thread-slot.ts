// The place of one scan thread: a Piscina of one thread, since of several it doesn't say which one has the task, and the link to it. Another thread comes in the place of one that dies.
import { constants, getPriority, setPriority } from 'node:os';
import { Piscina } from 'piscina';
import { scanWorkerPath } from '../../paths.js';
import type { BellRope } from './bell.js';
import { createLink, type Link } from './link.js';
import type { ThreadSettings, ThreadStart } from './task.js';

export interface ThreadSlot {
  /** In the file of what is being scanned. */
  readonly place: number;
  readonly link: Link;
  /** The thread has said its number. */
  readonly isReady: boolean;
  state: 'starting' | 'idle' | 'taken' | 'givenUp';
  /** Scans that have it: the one that it is at, and the next one. */
  scans: number;
  /** Since when it is at the scan, or at the one before. */
  sinceMs: number;
  /** Takes the answers that are there. */
  collect(): void;
  /** It has used up its time: it gets only what the others leave of the processor. */
  giveUp(): void;
  /** Nobody is to follow this thread, however it ends. */
  abandon(): void;
  /** Ends the thread. */
  close(): Promise<void>;
}

export interface ThreadSlotOptions {
  readonly place: number;
  readonly bell: BellRope;
  readonly settings: ThreadSettings;
  /** One that nobody has waited for yet can be taken. */
  readonly onStarted: (slot: ThreadSlot) => void;
  /** The same, but it has ended instead. */
  readonly onStartFailed: (slot: ThreadSlot) => void;
}

/**
 * The kernel gives a thread with this nice value a tenth of what the others get on a busy machine. Otherwise a thread that spins would
 * take as much as each stand-in and as the thread that serves.
 */
const GIVEN_UP_NICE = 10;

/** Throws where the kernel refuses a thread at once: there is no memory or no process number for it. */
export function openThreadSlot(options: ThreadSlotOptions): ThreadSlot {
  const { place, bell, onStarted } = options;
  const piscina = startPiscina(options.settings);
  let link = createLink(bell, place);
  let isReady = false;
  let isAbandoned = false;

  /** Resolves never: it rejects when the thread is gone. Piscina puts another one in its place. */
  function serve(): void {
    const served = link;
    piscina.run(served.start, { transferList: [served.start.port] }).catch(() => {
      if (isAbandoned) return served.end();
      isReady = false;
      link = createLink(bell, place);
      served.end();
      if (slot.state === 'starting') failStart();
      else serve();
    });
  }

  function failStart(): void {
    if (slot.state === 'starting' && !isAbandoned) options.onStartFailed(slot);
  }

  function lookWhetherReady(): void {
    if (link.threadId() === undefined) return;
    isReady = true;
    // It was given a scan before it had said its number, and has used up its time already.
    if (slot.state === 'givenUp') lowerPriority(link);
    if (slot.state === 'starting' && !isAbandoned) onStarted(slot);
  }

  const slot: ThreadSlot = {
    place,
    get link() {
      return link;
    },
    get isReady() {
      return isReady;
    },
    state: 'starting',
    scans: 0,
    sinceMs: 0,
    collect() {
      if (!isReady) lookWhetherReady();
      link.collect();
    },
    giveUp() {
      slot.state = 'givenUp';
      lowerPriority(link);
    },
    abandon() {
      isAbandoned = true;
    },
    close() {
      isAbandoned = true;
      return piscina.destroy();
    },
  };
  // A thread that ends before it has loaded what it needs. The end of its task ends the scans that it has.
  piscina.on('error', failStart);
  serve();
  return slot;
}

function startPiscina(settings: ThreadSettings): Piscina<ThreadStart, never> {
  return new Piscina<ThreadStart, never>({
    filename: scanWorkerPath,
    name: 'serveScans',
    minThreads: 1,
    maxThreads: 1,
    idleTimeout: Number.POSITIVE_INFINITY,
    maxQueue: 1,
    workerData: settings,
    // Piscina tries require() first. In Node 20 a thread that is ended while require() links an ES module ends the process: "IsGraphAsync must
    // be used on an instantiated module". Without it Piscina takes import(), which survives that.
    execArgv: ['--no-experimental-require-module'],
    // Histograms that nobody asks for: 0.7 MB for each thread.
    recordTiming: false,
  });
}

function lowerPriority(link: Link): void {
  const id = link.threadId();
  if (typeof id !== 'number') return;
  try {
    // Linux has priorities for threads, under the numbers that it gives them.
    setPriority(id, Math.min(constants.priority.PRIORITY_LOW, getPriority(id) + GIVEN_UP_NICE));
  } catch {
    // It goes on as it was: the process will be replaced.
  }
}
