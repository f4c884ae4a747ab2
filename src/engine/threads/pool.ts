// The pool of scan threads: it gives each scan its turn and its deadline, and watches scans that don't come back.
import { performance } from 'node:perf_hooks';
import { Unavailable } from '../../errors.js';
import type { EncryptedPolicy } from '../verdict.js';
import { startTurns, type TurnKind } from './dispatcher.js';
import { createJob, type Job, type Leaving, postJob, type ScanOutcome, watchWait } from './job.js';
import { createRunningScans } from './running-scans.js';
import type { SandboxMode } from './task.js';

export interface PoolOptions {
  readonly threads: number;
  /** Threads beside those, at most, for accounts that have none while others hold them all. Default: as many again. */
  readonly standIns?: number;
  /** Scans that may wait; the next one is refused with 503. An account alone may have three quarters of them. */
  readonly queueLimit: number;
  /** From the call to the verdict, waiting included. */
  readonly scanTimeoutMs: number;
  readonly encryptedArchives?: EncryptedPolicy;
  /** Descriptor of the file in which threads say what they are at (in-flight.ts). */
  readonly inFlight?: number;
  /** A thread hangs in this content: it is at it long after the engine's own limit, and not because the machine is busy. */
  readonly onHung?: (sha256: string | null) => void;
  /** Beyond the deadline, before a thread is late. Default 5 s. */
  readonly graceMs?: number;
  /** Why nothing can be scanned at the moment; null: all is well. */
  readonly refusal?: () => string | null;
  /** Default: auto. */
  readonly sandbox?: SandboxMode;
}

export interface ScanPool {
  /**
   * Scans the first `sizeBytes` of the content, in place: nobody writes to it until it is back. Rejects with Failure `unavailable` when the
   * queue is full, the account has its share of it, the deadline passes in the queue, or the pool stops. Rejects with the client's reason
   * when it leaves before a thread is at the scan.
   */
  scan(content: Uint8Array<SharedArrayBuffer>, sizeBytes: number, options?: ScanOptions): Promise<ScanOutcome>;
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
  /** Refuses what waits, lets what runs end, ends the threads. Those that are late stay: only the end of the process ends them. */
  stop(): Promise<void>;
}

export interface ScanOptions {
  /** Whose scan it is. Default: all scans without an account belong to one. */
  readonly account?: string;
  /** Default: one that stays. */
  readonly client?: Leaving;
  /** Of the content: it names what is being scanned, if that crashes or hangs. */
  readonly sha256?: string;
}

const REFUSALS = { full: 'queueFull', beyondShare: 'queueShareFull' } as const;
/** A thread that comes back so long after the deadline is slow, not late. */
const GRACE_MS = 5_000;

export function startPool(options: PoolOptions): ScanPool {
  const { scanTimeoutMs, encryptedArchives: policy = 'allow', graceMs = GRACE_MS } = options;
  const running = createRunningScans({ scanTimeoutMs, graceMs, onHung: (sha256) => options.onHung?.(sha256) });
  const turns = startTurns<Job>({
    queueLimit: options.queueLimit,
    threads: threadsOf(options),
    onWait: waitInQueue,
    onAhead: postJob,
    onTurn(job, turn) {
      const waitedMs = performance.now() - job.startedMs;
      observe(turn.kind, waitedMs);
      running.start(job, turn, waitedMs);
    },
  });
  let observe: (kind: TurnKind, waitedMs: number) => void = () => undefined;
  let stopping = false;

  function waitInQueue(job: Job): void {
    const leave = (reason: unknown): void => {
      if (!turns.leave(job)) return;
      job.release();
      job.refuse(reason);
    };
    watchWait(job, () => leave(new Unavailable('queueSlow')), leave);
  }

  /** Null: it has a thread, or waits for one. */
  function ask(job: Job): unknown {
    const refusal = options.refusal?.() ?? null;
    if (refusal !== null) return new Unavailable('engineMemory', { text: refusal });
    if (stopping) return new Unavailable('stopping');
    if (job.client?.isGone()) return new Error('The client has left');
    const answer = turns.ask(job);
    return answer === null ? null : new Unavailable(REFUSALS[answer]);
  }

  return {
    scan(content, sizeBytes, { account = '', client, sha256 = null } = {}) {
      const startedMs = performance.now();
      const timeoutMs = scanTimeoutMs;
      return new Promise((settle, refuse) => {
        const refusal = ask(
          createJob({ account, content, sizeBytes, sha256, policy, client, startedMs, timeoutMs, settle, refuse }),
        );
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
      return running.size;
    },
    threads: options.threads,
    get standIns() {
      return turns.standIns;
    },
    get late() {
      return running.late;
    },
    get hung() {
      return running.hung;
    },
    onTurn(listener) {
      observe = listener;
    },
    async stop() {
      stopping = true;
      for (const job of turns.clear()) {
        job.release();
        job.refuse(new Unavailable('stopping'));
      }
      await running.ended();
      await turns.stop();
    },
  };
}

function threadsOf({ threads, standIns, sandbox, inFlight }: PoolOptions) {
  const settings = { sandbox: sandbox ?? 'auto', inFlight: inFlight ?? null };
  return { count: threads, standIns: standIns ?? threads, settings };
}
