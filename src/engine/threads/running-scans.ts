// The scans that threads are at: their counts, the watch over each, and the wait for their end.
import type { Turn } from './dispatcher.js';
import { watchScan } from './hang-watch.js';
import { type Job, postJob, watchScanTime } from './job.js';

export interface RunningScans {
  readonly size: number;
  /** Not back long after the deadline. */
  readonly late: number;
  /** Those of them that won't come back, whatever the machine does. */
  readonly hung: number;
  /** The turn of the scan. */
  start(job: Job, turn: Turn, waitedMs: number): void;
  /** Resolves when all have ended, but for those that are late. */
  ended(): Promise<void>;
}

export interface RunningScansOptions {
  readonly scanTimeoutMs: number;
  readonly graceMs: number;
  readonly onHung: (sha256: string | null) => void;
}

export function createRunningScans(options: RunningScansOptions): RunningScans {
  const waiters = new Set<() => void>();
  let running = 0;
  let late = 0;
  let hung = 0;

  const isEnded = (): boolean => running <= late;
  function changed(): void {
    if (waiters.size === 0 || !isEnded()) return;
    for (const resolve of waiters) resolve();
    waiters.clear();
  }

  /** Returns what ends it. */
  function watch(job: Job, turn: Turn): () => void {
    let isLate = false;
    let isHung = false;
    const end = watchScan({
      scanTimeoutMs: options.scanTimeoutMs,
      graceMs: options.graceMs,
      threadId: turn.thread.id,
      onGivenUp: turn.giveUp,
      onLate() {
        isLate = true;
        late += 1;
        changed();
      },
      onHung() {
        isHung = true;
        hung += 1;
        options.onHung(job.isAgain ? null : job.sha256);
      },
    });
    return () => {
      end();
      if (isLate) late -= 1;
      if (isHung) hung -= 1;
    };
  }

  return {
    get size() {
      return running;
    },
    get late() {
      return late;
    },
    get hung() {
      return hung;
    },
    start(job, turn, waitedMs) {
      running += 1;
      const endWatch = watch(job, turn);
      job.release();
      const letGo = watchScanTime(job, waitedMs);
      job.again = () => {
        job.isAgain = true;
        turn.again();
      };
      job.onBack = () => {
        endWatch();
        letGo();
        running -= 1;
        turn.end();
        changed();
      };
      if (job.postedTo !== turn.thread) postJob(job, turn.thread);
    },
    ended() {
      if (isEnded()) return Promise.resolve();
      return new Promise((resolve) => void waiters.add(resolve));
    },
  };
}
