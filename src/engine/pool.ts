// The pool of scan threads: a turn for each scan, a deadline, a watch over those that don't come back, and the content's way there and back.
import { performance } from 'node:perf_hooks';
import { Failure } from '../errors.js';
import type { Origin } from './fair-queue.js';
import { watchScan } from './hang-watch.js';
import { type Looked, lookAt } from './look.js';
import type { SandboxMode } from './task.js';
import { startTurns, type Turn, type TurnKind } from './turns.js';
import type { EncryptedPolicy, Verdict } from './verdict.js';

export interface PoolOptions {
  readonly threads: number;
  /** Threads beside those, at most, for accounts that have none while others hold them all. Default: as many again. */
  readonly standIns?: number;
  /** Scans that may wait; the next one is refused with 503. An account alone may have three quarters of them. */
  readonly queueLimit: number;
  /** From the call to the verdict, waiting included. */
  readonly scanTimeoutMs: number;
  readonly encryptedArchives?: EncryptedPolicy;
  /** Told what a thread begins to scan; calls back what it returns when the thread comes back. */
  readonly onBegin?: (sha256: string) => () => void;
  /** A thread doesn't come back from this content, long after the engine's own limit, and not because the machine has no time for it. */
  readonly onHung?: (sha256: string | null) => void;
  /** Beyond the deadline, before a thread is late. Default 5 s. */
  readonly graceMs?: number;
  /** Why nothing is scanned for now; null: all is well. */
  readonly refusal?: () => string | null;
  /** Default: auto. */
  readonly sandbox?: SandboxMode;
}

export type ScanOutcome =
  | Looked
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
   * queue is full or the account has its share of it, the deadline passes in the queue, or the pool stops; with the signal's reason when it aborts before
   * a thread is at it.
   */
  scan(content: ArrayBuffer, sizeBytes: number, options?: ScanOptions): Promise<ScanOutcome>;
  /** Scans that wait for a thread. */
  readonly waiting: number;
  /** Accounts that they are of. */
  readonly accountsWaiting: number;
  /** Scans that a thread is at. */
  readonly running: number;
  readonly threads: number;
  /** Threads at scans beside those. */
  readonly standIns: number;
  /** Threads that are not back long after the deadline; each has another one in its place, up to a second set of them. */
  readonly late: number;
  /** Those of them that won't come back, whatever the machine does. */
  readonly hung: number;
  /** Says from now on how long each scan has waited for its thread. One listener. */
  onTurn(listener: (kind: TurnKind, waitedMs: number) => void): void;
  /** From now on scans wait in the queue, those at a thread go on. */
  pause(): Pause;
  /** Refuses what waits, lets what runs end, ends the threads. Those that are late stay: only the end of the process ends them. */
  stop(): Promise<void>;
}

export interface ScanOptions {
  /** Whose scan it is. Default: all that name none are of one account. */
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

interface Job extends Origin {
  readonly content: ArrayBuffer;
  readonly sha256: string | null;
  readonly settle: (outcome: ScanOutcome) => void;
  readonly refuse: (reason: unknown) => void;
  readonly signal: AbortSignal | undefined;
  readonly startedMs: number;
  /** Ends the deadline's timer and the listening to the signal. */
  release: () => void;
}

const RETRY_SECONDS = 2;
const REFUSALS = {
  full: 'The scan queue is full',
  beyondShare: 'Too many scans of this account are waiting',
} as const;
/** Who waited for more than this share of its deadline had too little left for anybody to blame the content. */
const WAITED_SHARE = 0.3;
/** A thread that comes back so long after the deadline is slow, not late. */
const GRACE_MS = 5_000;
const STOPPING = 'The server is stopping';

export function startPool(options: PoolOptions): ScanPool {
  const { scanTimeoutMs, encryptedArchives: policy = 'allow' } = options;
  const turns = startTurns<Job>({
    queueLimit: options.queueLimit,
    threads: {
      count: options.threads,
      standIns: options.standIns ?? options.threads,
      settings: { sandbox: options.sandbox ?? 'auto' },
    },
    onWait: waitInQueue,
    onTurn: start,
  });
  const ends = createEnds();
  let observe: (kind: TurnKind, waitedMs: number) => void = () => undefined;
  let running = 0;
  let late = 0;
  let hung = 0;
  let stopping = false;

  function start(job: Job, turn: Turn): void {
    running += 1;
    // Before the thread has it: a crash must not be faster.
    const leave = job.sha256 === null ? undefined : options.onBegin?.(job.sha256);
    const waitedMs = performance.now() - job.startedMs;
    observe(turn.kind, waitedMs);
    const endWatch = watch(job, turn);
    const { content, sizeBytes } = job;
    const sight = { content, sizeBytes, policy, deadlineMs: job.startedMs + scanTimeoutMs };
    const returned = lookAt(sight, turn.thread).then(
      (looked): ArrayBuffer | null => {
        job.release();
        job.settle(looked);
        return looked.content;
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
      endWatch();
      leave?.();
      running -= 1;
      turn.end();
      ends.tell();
    });
  }

  /** Returns what ends it. */
  function watch({ sha256 }: Job, turn: Turn): () => void {
    let isLate = false;
    let isHung = false;
    const end = watchScan({
      scanTimeoutMs,
      graceMs: options.graceMs ?? GRACE_MS,
      threadId: () => turn.thread.id,
      onGivenUp: turn.giveUp,
      onLate() {
        isLate = true;
        late += 1;
        ends.tell();
      },
      onHung() {
        isHung = true;
        hung += 1;
        options.onHung?.(sha256);
      },
    });
    return () => {
      end();
      if (isLate) late -= 1;
      if (isHung) hung -= 1;
    };
  }

  function overdue(job: Job, returned: Promise<ArrayBuffer | null>, waitedMs: number): ScanOutcome {
    const verdict: Verdict = { kind: 'incomplete', reason: `scan exceeded ${scanTimeoutMs} ms` };
    const starved = waitedMs > scanTimeoutMs * WAITED_SHARE;
    return { verdict, starved, epoch: null, durationMs: performance.now() - job.startedMs, content: null, returned };
  }

  function deadline(job: Job, act: () => void): () => void {
    const left = scanTimeoutMs - (performance.now() - job.startedMs);
    const timer = setTimeout(act, Math.max(0, left));
    return () => clearTimeout(timer);
  }

  function waitInQueue(job: Job): void {
    const { signal } = job;
    const leave = (reason: unknown): void => {
      if (turns.leave(job)) {
        job.release();
        job.refuse(reason);
      }
    };
    const onAbort = (): void => leave(signal?.reason);
    const clear = deadline(job, () => leave(unavailable('The scan queue is too long')));
    signal?.addEventListener('abort', onAbort, { once: true });
    job.release = () => {
      clear();
      signal?.removeEventListener('abort', onAbort);
    };
  }

  /** Null: it has a thread, or waits for one. */
  function ask(job: Job): unknown {
    const refusal = options.refusal?.() ?? (stopping ? STOPPING : null);
    if (refusal !== null) return unavailable(refusal);
    if (job.signal?.aborted) return job.signal.reason;
    const answer = turns.ask(job);
    return answer === null ? null : unavailable(REFUSALS[answer]);
  }

  return {
    scan(content, sizeBytes, { account = '', signal, sha256 = null } = {}) {
      const startedMs = performance.now();
      return new Promise((settle, refuse) => {
        const release = (): void => undefined;
        const refusal = ask({ account, content, sizeBytes, sha256, settle, refuse, signal, startedMs, release });
        if (refusal !== null) refuse(refusal);
      });
    },
    get waiting() {
      return turns.waiting;
    },
    get accountsWaiting() {
      return turns.accountsWaiting;
    },
    get running() {
      return running;
    },
    threads: options.threads,
    get standIns() {
      return turns.standIns;
    },
    get late() {
      return late;
    },
    get hung() {
      return hung;
    },
    onTurn(listener) {
      observe = listener;
    },
    pause: () => ({ resume: turns.pause(), drained: ends.until(() => running === 0) }),
    async stop() {
      stopping = true;
      for (const job of turns.clear()) {
        job.release();
        job.refuse(unavailable(STOPPING));
      }
      await ends.until(() => running <= late);
      await turns.stop();
    },
  };
}

function unavailable(reason: string): Failure {
  return new Failure('unavailable', reason, RETRY_SECONDS);
}

/** For what waits until scans have ended. */
function createEnds() {
  const waiters = new Set<() => void>();
  return {
    tell(): void {
      for (const look of [...waiters]) look();
    },
    until(isReached: () => boolean): Promise<void> {
      return new Promise((resolve) => {
        const look = (): void => {
          if (!isReached()) return;
          waiters.delete(look);
          resolve();
        };
        waiters.add(look);
        look();
      });
    },
  };
}
