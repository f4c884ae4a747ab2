// The scan threads: one queue before them, a deadline for each scan, a watch over those that don't come back, and the content's way there and back.
import { performance } from 'node:perf_hooks';
import { Failure } from '../errors.js';
import { createScanQueue } from './queue.js';
import { type Serving, servingNow, servingWith } from './serving.js';
import type { SandboxMode, ScanTaskResult } from './task.js';
import { startThreads, type Thread } from './threads.js';
import { type EncryptedPolicy, readAnswer, type Verdict } from './verdict.js';

export interface PoolOptions {
  readonly threads: number;
  /** Scans that may wait; the next one is refused with 503. */
  readonly queueLimit: number;
  /** From the call to the verdict, waiting included. */
  readonly scanTimeoutMs: number;
  readonly encryptedArchives?: EncryptedPolicy;
  /** Told what a thread begins to scan; calls back what it returns when the thread comes back. */
  readonly onBegin?: (sha256: string) => () => void;
  /** A thread has been at this content for `scanTimeoutMs` and the grace: the engine has its own limit below that. */
  readonly onHung?: (sha256: string | null) => void;
  /** Default 5 s. */
  readonly hungGraceMs?: number;
  /** Why nothing is scanned for now; null: all is well. */
  readonly refusal?: () => string | null;
  /** Default: auto. */
  readonly sandbox?: SandboxMode;
}

export type ScanOutcome =
  | {
      readonly verdict: Verdict;
      /** The epoch of the engine that looked; null when none did. */
      readonly epoch: number | null;
      /** Time inside the engine. */
      readonly durationMs: number;
      /** The buffer that was handed in, for the next content. */
      readonly content: ArrayBuffer;
    }
  | {
      /** The deadline passed while a thread was at it. */
      readonly verdict: Verdict;
      /** Most of its time went by in the queue: that says nothing of the content. */
      readonly starved: boolean;
      readonly epoch: null;
      readonly durationMs: number;
      readonly content: null;
      /** Resolves when the thread lets go of the buffer; until then its memory is in use. */
      readonly returned: Promise<ArrayBuffer | null>;
    };

export interface ScanPool {
  /**
   * Scans the first `sizeBytes` of the buffer and owns the buffer meanwhile. Rejects with Failure `unavailable` when the
   * queue is full, the deadline passes in the queue, or the pool stops; with the signal's reason when it aborts before
   * a thread is at it.
   */
  scan(content: ArrayBuffer, sizeBytes: number, options?: ScanOptions): Promise<ScanOutcome>;
  /** Scans that wait for a thread. */
  readonly waiting: number;
  /** Scans that a thread is at. */
  readonly running: number;
  readonly threads: number;
  /** Threads that don't come back from a scan; each has another one in its place, up to a second set of them. */
  readonly hung: number;
  /** From now on scans wait in the queue, those at a thread go on. */
  pause(): Pause;
  /** Refuses what waits, lets what runs end, ends the threads. Those that hang stay: only the end of the process ends them. */
  stop(): Promise<void>;
}

export interface ScanOptions {
  /** Whose scan it is. */
  readonly account?: string;
  readonly signal?: AbortSignal;
  /** Of the content, for whoever has to say what was being scanned. */
  readonly sha256?: string;
}

export interface Pause {
  /** Resolves when no thread is at a scan any more: a thread that hangs may stay at it for ever. */
  readonly drained: Promise<void>;
  readonly resume: () => void;
}

interface Job {
  readonly content: ArrayBuffer;
  readonly sizeBytes: number;
  readonly sha256: string | null;
  readonly settle: (outcome: ScanOutcome) => void;
  readonly refuse: (reason: unknown) => void;
  readonly startedMs: number;
  /** Ends the deadline's timer and the listening to the signal. */
  release: () => void;
}

/** What came of handing a content to a thread. */
interface Look {
  readonly content: ArrayBuffer;
  readonly outcome: ScanOutcome;
}

const RETRY_SECONDS = 2;
/**
 * Another thread stands in for one that has been at a scan for this share of the deadline: with all of them held by content
 * that hangs, what waits would miss its own deadline before theirs is over. libclamav gives up by itself before that.
 */
const STAND_IN_SHARE = 0.5;
/** Who waited for more than this share of its deadline had too little left for anybody to blame the content. */
const WAITED_SHARE = 0.3;
/** A thread that comes back so long after the deadline is slow, not hung. */
const HUNG_GRACE_MS = 5_000;

/** Null when nothing has looked. */
function lookedWith(result: ScanTaskResult, asked: Serving | null): Serving | null {
  if (result.kind === 'failed') return null;
  return result.nativeEpoch === null ? asked : servingWith(result.nativeEpoch);
}

export function startPool(options: PoolOptions): ScanPool {
  const policy = options.encryptedArchives ?? 'allow';
  const queue = createScanQueue<Job>(options.queueLimit);
  const threads = startThreads(options.threads, { sandbox: options.sandbox ?? 'auto' }, dispatch);
  const ended = new Set<() => void>();
  let running = 0;
  let hung = 0;
  let stopping = false;
  let pauses = 0;

  function dispatch(): void {
    while (threads.idle > 0 && pauses === 0) {
      const job = queue.shift();
      if (job === undefined) return;
      start(job);
    }
  }

  function start(job: Job): void {
    running += 1;
    // Before the thread has it: a crash must not be faster.
    const leave = job.sha256 === null ? undefined : options.onBegin?.(job.sha256);
    const thread = threads.take();
    let isHung = false;
    const waitedMs = performance.now() - job.startedMs;
    const standIn = setTimeout(() => thread.lose(), options.scanTimeoutMs * STAND_IN_SHARE);
    const watch = setTimeout(
      () => {
        isHung = true;
        hung += 1;
        told();
        options.onHung?.(job.sha256);
      },
      options.scanTimeoutMs + (options.hungGraceMs ?? HUNG_GRACE_MS),
    );
    const returned = look(job, thread).then(
      ({ content, outcome }): ArrayBuffer | null => {
        job.release();
        job.settle(outcome);
        return content;
      },
      (error: unknown): null => {
        job.release();
        job.refuse(error);
        return null;
      },
    );
    job.release();
    job.release = deadline(job, () => job.settle(overdue(job, returned, waitedMs)));
    void returned.then(() => {
      thread.release();
      clearTimeout(standIn);
      clearTimeout(watch);
      leave?.();
      running -= 1;
      if (isHung) hung -= 1;
      dispatch();
      told();
    });
  }

  /** Once more when another engine came to serve on the way, with other rules: nothing was told by both of one epoch. */
  async function look({ content, sizeBytes, startedMs }: Job, thread: Thread): Promise<Look> {
    for (let buffer = content; ; ) {
      const serving = servingNow();
      const task = { content: buffer, sizeBytes, clamav: serving?.nativeEpoch !== null, rules: serving?.rules ?? null };
      const result = await thread.run(task);
      const looked = lookedWith(result, serving);
      const isOver = performance.now() - startedMs > options.scanTimeoutMs;
      if (isOver || looked === null || looked.rules === task.rules) {
        return { content: result.content, outcome: outcomeOf(result, looked?.epoch ?? null) };
      }
      buffer = result.content;
    }
  }

  /** Tells those who wait for the end of what runs. */
  function told(): void {
    for (const look of [...ended]) look();
  }

  /** Resolves when no more than so many scans run. */
  function untilRunning(most: () => number): Promise<void> {
    return new Promise((resolve) => {
      const look = (): void => {
        if (running > most()) return;
        ended.delete(look);
        resolve();
      };
      ended.add(look);
      look();
    });
  }

  function outcomeOf(result: ScanTaskResult, epoch: number | null): ScanOutcome {
    if (result.kind === 'failed') {
      const verdict: Verdict = { kind: 'incomplete', reason: `engine error: ${result.message}` };
      return { verdict, epoch: null, durationMs: 0, content: result.content };
    }
    const { answer, durationMs, content } = result;
    return { verdict: readAnswer(answer, policy), epoch, durationMs, content };
  }

  function overdue(job: Job, returned: Promise<ArrayBuffer | null>, waitedMs: number): ScanOutcome {
    const verdict: Verdict = { kind: 'incomplete', reason: `scan exceeded ${options.scanTimeoutMs} ms` };
    const starved = waitedMs > options.scanTimeoutMs * WAITED_SHARE;
    return { verdict, starved, epoch: null, durationMs: performance.now() - job.startedMs, content: null, returned };
  }

  function deadline(job: Job, act: () => void): () => void {
    const left = options.scanTimeoutMs - (performance.now() - job.startedMs);
    const timer = setTimeout(act, Math.max(0, left));
    return () => clearTimeout(timer);
  }

  function waitInQueue(job: Job, signal: AbortSignal | undefined): void {
    const leave = (reason: unknown): void => {
      if (queue.remove(job)) {
        job.release();
        job.refuse(reason);
      }
    };
    const onAbort = (): void => leave(signal?.reason);
    const clear = deadline(job, () => leave(new Failure('unavailable', 'The scan queue is too long', RETRY_SECONDS)));
    signal?.addEventListener('abort', onAbort, { once: true });
    job.release = () => {
      clear();
      signal?.removeEventListener('abort', onAbort);
    };
  }

  return {
    scan(content, sizeBytes, { signal, sha256 } = {}) {
      const startedMs = performance.now();
      return new Promise((settle, refuse) => {
        const job: Job = {
          content,
          sizeBytes,
          sha256: sha256 ?? null,
          settle,
          refuse,
          startedMs,
          release: () => undefined,
        };
        const refusal = options.refusal?.() ?? null;
        if (refusal !== null) {
          refuse(new Failure('unavailable', refusal, RETRY_SECONDS));
        } else if (signal?.aborted) {
          refuse(signal.reason);
        } else if (stopping) {
          refuse(new Failure('unavailable', 'The server is stopping', RETRY_SECONDS));
        } else if (threads.idle > 0 && queue.size === 0 && pauses === 0) {
          start(job);
        } else if (queue.push(job, sizeBytes, startedMs)) {
          waitInQueue(job, signal);
        } else {
          refuse(new Failure('unavailable', 'The scan queue is full', RETRY_SECONDS));
        }
      });
    },
    get waiting() {
      return queue.size;
    },
    get running() {
      return running;
    },
    threads: options.threads,
    get hung() {
      return hung;
    },
    pause() {
      pauses += 1;
      let paused = true;
      return {
        drained: untilRunning(() => 0),
        resume() {
          if (!paused) return;
          paused = false;
          pauses -= 1;
          dispatch();
        },
      };
    },
    async stop() {
      stopping = true;
      for (let job = queue.shift(); job !== undefined; job = queue.shift()) {
        job.release();
        job.refuse(new Failure('unavailable', 'The server is stopping', RETRY_SECONDS));
      }
      await untilRunning(() => hung);
      await threads.stop();
    },
  };
}
