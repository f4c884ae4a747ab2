// One scan as a promise, for who has contents one by one: the commands of the command line, benchmarks and tests.
import { throwLater, type Unavailable } from '../../errors.js';
import type { Engine } from '../engine.js';
import type { ScanPolicy, Verdict } from '../verdict.js';
import type { ScanPool } from './pool.js';
import { ThreadScan } from './thread-scan.js';

export type ScanOutcome =
  | {
      readonly verdict: Verdict;
      /** The engine that scanned it; null: no engine did, and the verdict is incomplete. */
      readonly engine: Engine | null;
      /** Time inside the engine. */
      readonly durationMs: number;
      readonly returned: null;
    }
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

export interface ScanOptions {
  /** Whose scan it is. Default: all scans without an account belong to one. */
  readonly account?: string;
  /** Default: one that stays. */
  readonly client?: Leaving;
  /** Of the content: it names what is being scanned, if that crashes or hangs. */
  readonly sha256?: string;
}

class PromisedScan extends ThreadScan {
  readonly outcome: Promise<ScanOutcome>;
  #settle: (outcome: ScanOutcome) => void = () => undefined;
  #refuse: (reason: unknown) => void = () => undefined;
  #letGo: () => void = () => undefined;
  readonly #client: Leaving | undefined;

  constructor(account: string, policy: ScanPolicy, client: Leaving | undefined) {
    super(account, policy);
    this.#client = client;
    this.outcome = new Promise((settle, refuse) => {
      this.#settle = settle;
      this.#refuse = refuse;
    });
  }

  refuse(reason: unknown): void {
    this.#client?.onGone(null);
    this.#refuse(reason);
  }

  override onTurn(): void {
    this.#client?.onGone(null);
  }

  override onAnswer(verdict: Verdict, engine: Engine | null, durationMs: number): void {
    this.#settle({ verdict, engine, durationMs, returned: null });
  }

  override onRefused(reason: Unavailable | Error): void {
    this.refuse(reason);
  }

  override onOverdue(verdict: Verdict, starved: boolean, durationMs: number): void {
    const returned = new Promise<void>((resolve) => {
      this.#letGo = resolve;
    });
    this.#settle({ verdict, starved, engine: null, durationMs, returned });
  }

  override onLetGo(): void {
    this.#letGo();
  }

  override onBroken(error: unknown): void {
    throwLater(error);
  }
}

/**
 * Scans the first `sizeBytes` of the content, in place: nobody writes to it until it is back. Rejects with Failure `unavailable` when the
 * queue is full, the account has its share of it, the deadline passes in the queue, or the pool stops. Rejects with the client's reason
 * when it leaves before a thread is at the scan.
 */
export function scanOnce(
  pool: Pick<ScanPool, 'ask' | 'leave' | 'policy'>,
  content: Uint8Array<SharedArrayBuffer>,
  sizeBytes: number,
  { account = '', client, sha256 }: ScanOptions = {},
): Promise<ScanOutcome> {
  const scan = new PromisedScan(account, pool.policy, client);
  scan.content = content;
  scan.sizeBytes = sizeBytes;
  scan.sha256 = sha256 ?? null;
  if (client?.isGone() === true) scan.refuse(new Error('The client has left'));
  else {
    client?.onGone((reason) => {
      if (pool.leave(scan)) scan.refuse(reason);
    });
    pool.ask(scan);
  }
  return scan.outcome;
}
