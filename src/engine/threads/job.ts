// One scan in the pool, from the call to the verdict: its deadline, its wait in the queue, and its way to a thread.
import { performance } from 'node:perf_hooks';
import { type CoarseTimer, startCoarseTimer } from '../../waiting/coarse-timer.js';
import type { EncryptedPolicy, Verdict } from '../verdict.js';
import { type Looked, lookAt } from './look.js';
import type { Thread } from './threads.js';
import type { Origin } from './waiting-scans.js';

export type ScanOutcome =
  | (Looked & { readonly returned: null })
  | {
      /** The deadline passed while a thread was at it. */
      readonly verdict: Verdict;
      /** Most of its time went by in the queue: that says nothing of the content. */
      readonly starved: boolean;
      readonly engine: null;
      readonly durationMs: number;
      /** Resolves when the thread lets go of the content; until then its memory is in use. */
      readonly returned: Promise<void>;
    };

/** The client of a scan, as far as it may leave before a thread is at it. */
export interface Leaving {
  isGone(): boolean;
  /** Calls the listener, with the reason, when it leaves, until it is taken off with null. One at a time. */
  onGone(listener: ((reason: Error) => void) | null): void;
}

export interface Job extends Origin<Job> {
  readonly content: Uint8Array<SharedArrayBuffer>;
  readonly sha256: string | null;
  readonly policy: EncryptedPolicy;
  readonly client: Leaving | undefined;
  readonly startedMs: number;
  /** From the call to the verdict. */
  readonly timeoutMs: number;
  readonly settle: (outcome: ScanOutcome) => void;
  readonly refuse: (reason: unknown) => void;
  /** Ends the deadline's timer and the listening to the client. */
  release: () => void;
  /** The thread is back from it. */
  onBack: () => void;
  /** It is posted once more. */
  again: () => void;
  /** The last thread that it was posted to. */
  postedTo: Thread | null;
  /** Another one may be at the thread before it. */
  isAgain: boolean;
}

/** A scan that waited for more than this share of its deadline had too little left for anybody to blame the content. */
const WAITED_SHARE = 0.3;
const NOTHING = (): void => undefined;

export type JobOptions = Omit<Job, 'release' | 'onBack' | 'again' | 'place' | 'postedTo' | 'isAgain'>;

/** One literal with all that is ever in it: a scan of a small content takes tens of microseconds, and a spread would take some of them. */
export function createJob(options: JobOptions): Job {
  return {
    account: options.account,
    sizeBytes: options.sizeBytes,
    content: options.content,
    sha256: options.sha256,
    policy: options.policy,
    client: options.client,
    startedMs: options.startedMs,
    timeoutMs: options.timeoutMs,
    settle: options.settle,
    refuse: options.refuse,
    release: NOTHING,
    onBack: NOTHING,
    again: NOTHING,
    place: null,
    postedTo: null,
    isAgain: false,
  };
}

/** To a thread, which may be at another one yet. */
export function postJob(job: Job, thread: Thread): void {
  job.postedTo = thread;
  const { content, sizeBytes, sha256, policy } = job;
  const sight = { content, sizeBytes, sha256, policy, deadlineMs: job.startedMs + job.timeoutMs };
  lookAt(sight, thread, {
    onAgain: () => job.again(),
    onEnd(looked) {
      job.release();
      if (looked !== null) job.settle(lookedOutcome(looked));
      else job.refuse(new Error('The scan thread has died'));
      job.onBack();
    },
  });
}

/** Until `release`, calls back when the deadline has passed, or when the client has gone away. */
export function watchWait(job: Job, onSlow: () => void, onGone: (reason: Error) => void): void {
  const { client } = job;
  const timer = startTimer(job, onSlow);
  client?.onGone(onGone);
  job.release = () => {
    timer.stop();
    client?.onGone(null);
  };
}

/** Until `release`, answers the scan at its deadline. Returns what says that the thread has let go of the content. */
export function watchScanTime(job: Job, waitedMs: number): () => void {
  let letGo = NOTHING;
  const timer = startTimer(job, () => {
    const returned = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    job.settle(overdue(job, returned, waitedMs));
  });
  job.release = () => timer.stop();
  return () => letGo();
}

/** Not a clock of deadline.ts: nothing stops this time, the wait and the thread share it, and every scan begins two of these timers. */
function startTimer({ timeoutMs, startedMs }: Job, onDue: () => void): CoarseTimer {
  return startCoarseTimer(timeoutMs - (performance.now() - startedMs), onDue);
}

/** A literal: V8 takes a microsecond for a property behind a spread. */
function lookedOutcome({ verdict, engine, durationMs }: Looked): ScanOutcome {
  return { verdict, engine, durationMs, returned: null };
}

function overdue({ timeoutMs, startedMs }: Job, returned: Promise<void>, waitedMs: number): ScanOutcome {
  const verdict: Verdict = { kind: 'incomplete', reason: `scan exceeded ${timeoutMs} ms` };
  const starved = waitedMs > timeoutMs * WAITED_SHARE;
  return { verdict, starved, engine: null, durationMs: performance.now() - startedMs, returned };
}
