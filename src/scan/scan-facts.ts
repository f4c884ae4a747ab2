// What one scan is and holds: whose it is, what was sent, how far it has come and what came of it. Its row, its log line, its metrics and its answer are written from this.
// And which scans have their unit back: those that the service failed, and of those that never arrived whole a number per account and hour.
import { performance } from 'node:perf_hooks';
import type { Access } from '../admission/access.js';
import type { Engine } from '../engine/engine.js';
import type { Signatures } from '../engine/signatures.js';
import type { ScanPool } from '../engine/threads/pool.js';
import { ThreadScan } from '../engine/threads/thread-scan.js';
import type { CompleteVerdict } from '../engine/verdict.js';
import { Failure } from '../errors.js';
import type { History } from '../history/history.js';
import type { Protocol, ScanRow } from '../history/scan-row.js';
import { UNFINISHED_REFUNDS_PER_HOUR } from '../limits.js';
import { recentTable } from '../recent-table.js';
import type { Content, Lender, UrlParts } from './content.js';
import type { KnownVerdicts } from './verdicts/known.js';

export type Admitted = Extract<Access, { outcome: 'admitted' }>;

export interface ScanParts extends UrlParts {
  readonly pool: Pick<ScanPool, 'ask' | 'leave' | 'policy' | 'queue' | 'refusal'>;
  readonly signatures: Pick<Signatures, 'serving' | 'state'>;
  /** Contents, as SHA-256, that have crashed the engine more than once. */
  readonly refused: ReadonlySet<string>;
  /** Null: no verdict is remembered. */
  readonly known: KnownVerdicts | null;
  readonly uploadMemory: Lender;
  readonly history: Pick<History, 'refusal' | 'append'>;
  readonly refunds: Refunds;
  /** The name of this environment in the history. */
  readonly appEnv: string;
  readonly now: () => number;
  /** Called for every scan that was admitted, once its row is recorded. */
  readonly onEnded: (scan: EndedScan) => void;
  /** Null: nobody asks for them. */
  readonly traces: ScanTraces | null;
}

/** What log and metrics have of it: nothing of keys or contents. */
export type EndedScan = Readonly<
  Pick<
    ScanFacts,
    | 'scanId'
    | 'requestId'
    | 'account'
    | 'keyId'
    | 'protocol'
    | 'status'
    | 'wholeBytes'
    | 'sha256'
    | 'virusName'
    | 'durationMs'
    | 'askedMs'
    | 'begunMs'
    | 'turn'
    | 'detectedType'
    | 'secondLook'
    | 'looked'
    | 'lookedBy'
    | 'failure'
    | 'error'
  >
>;

export interface ScanTraces {
  /** Of a scan that was answered, or whose client has left. */
  ended(scan: EndedScan, times: StageTimes): void;
}

const NO_NOTICES: readonly string[] = [];

export abstract class ScanFacts extends ThreadScan {
  readonly parts: ScanParts;
  /** As history, log and metrics call it. */
  readonly protocol: Protocol = 'http';
  readonly requestId: string;
  /** Changed by `enter` alone. */
  stage: Stage = 'admitting';
  /** Null: nobody asks for them. */
  readonly times: StageTimes | null;
  /** Null: it isn't admitted yet. */
  access: Admitted | null = null;
  /** The quota that the answer tells of. */
  quota: Admitted['quota'] | null = null;
  /** Of its row in the history; null: it has none. */
  scanId: string | null = null;
  keyId: string | null = null;

  /** As shown; empty while it isn't known. */
  filename = '';
  extension = '';
  /** What the client says of it; null: nothing. */
  metadata: string | null = null;
  /** That it is of, without credentials; null: an upload, or a text that is no URL. */
  url: string | null = null;
  /** The request was there as a whole. */
  isWhole = false;
  /** The client has left: nobody reads the answer. */
  isGone = false;
  /** Its content in lent memory, until the threads have let go of it. */
  received: Content | null = null;
  /** Of the content; null: it never was there as a whole. */
  wholeBytes: number | null = null;

  /** Something came of it: a verdict, or why there is none. */
  isDecided = false;
  verdict: CompleteVerdict | null = null;
  /** What is said beside it. */
  notices: readonly string[] = NO_NOTICES;
  /** The engine that has looked at everything, which may not be the one that serves now. */
  lookedBy: Engine | null = null;
  /** Whose scan it was: this one, an earlier one of the account, or one of another account, which the client must not learn. */
  looked: 'now' | 'for the account' | 'for another account' = 'now';
  /** Inside the engine; 0 when it wasn't asked; what it took then, when it was asked for another account. */
  durationMs = 0;
  /** Why there is no verdict: a Failure, the reason of a client that has left, or what nobody foresaw. */
  problem: unknown = null;

  /** Of the history: HTTP's, whatever the protocol. */
  status = 200;
  virusName: string | null = null;
  /** Null on success; otherwise a code of the error table, of `unavailable` with its reason, or `clientGone`. */
  failure: string | null = null;
  /** The same in words: the message of the error table. */
  error: string | null = null;

  /** The content goes back to the client with the answer: it stays until `letGo`. */
  protected isKept = false;

  constructor(parts: ScanParts, requestId: string) {
    super();
    this.policy = parts.pool.policy;
    this.parts = parts;
    this.requestId = requestId;
    this.times = parts.traces === null ? null : new StageTimes();
  }

  protected enter(stage: Stage): void {
    this.stage = stage;
    this.times?.entered(stage);
  }

  /** For the history, which asks once. */
  row(): ScanRow {
    const { appEnv, now } = this.parts;
    const { scanId, account, keyId, filename, durationMs, virusName, status, error, lookedBy, wholeBytes, sha256 } =
      this;
    const { detectedType, metadata, url, protocol } = this;
    if (scanId === null) throw new Error('A scan that was not admitted has no row');
    return {
      id: scanId,
      userId: account,
      keyId,
      filename,
      durationMs,
      virusName,
      status,
      error,
      engine: lookedBy?.label ?? null,
      signatures: lookedBy?.signatureVersion ?? null,
      sizeBytes: wholeBytes,
      sha256,
      detectedType,
      notices: this.notices,
      metadata,
      url,
      protocol,
      env: appEnv,
      lastUpdateMs: now(),
    };
  }
}

/**
 * `admitting`: the admission is waited for, before it begins or, where its user was expected, with all that came of it. `waitingForMemory`: what has
 * arrived has no room. `scanning`: a thread is at it, or is waited for. `gone`: nothing is left to be done, and nobody to be answered.
 */
export type Stage = 'admitting' | 'receiving' | 'waitingForMemory' | 'scanning' | 'recording' | 'answered' | 'gone';

/** By the clock of `performance`, in milliseconds. */
export class StageTimes {
  readonly beganMs: number;
  /** Null: it isn't admitted yet. */
  admittedMs: number | null = null;
  /** W3C Trace Context's `traceparent`, as the client has sent it; null: none. */
  parent: string | null = null;
  /** Each lasts until the next one begins. */
  readonly stages: { readonly stage: Stage; readonly beganMs: number }[] = [];

  constructor() {
    this.beganMs = performance.now();
  }

  entered(stage: Stage): void {
    this.stages.push({ stage, beganMs: performance.now() });
  }

  admitted(): void {
    this.admittedMs = performance.now();
  }
}

type Quota = Admitted['quota'];

interface Arrival {
  readonly isGone: boolean;
  /** The whole of it had arrived. */
  readonly isWhole: boolean;
}

export type Refunds = ReturnType<typeof createRefunds>;

/** Accounts and hours whose count is remembered, some 200 bytes each; the one that was used least recently makes room. */
const COUNTS_MAX = 100_000;

/** Counts in this process alone: an account that sends to several processes has the number from each. */
export function createRefunds() {
  const counts = recentTable<number>(COUNTS_MAX);

  /** The hour is the unit's: a body that ends in the next one counts for the one in which it began. */
  function isLeft({ userId, quota }: Admitted): boolean {
    const hour = `${userId} ${quota.resetEpochSeconds}`;
    const count = counts.get(hour) ?? 0;
    if (count === UNFINISHED_REFUNDS_PER_HOUR) return false;
    counts.set(hour, count + 1);
    return true;
  }

  return {
    /** Gives the unit back if the error is a reason for that; resolves with the quota then. */
    async settle(problem: unknown, access: Admitted, request: Arrival): Promise<Quota> {
      const reason = reasonFor(problem, request);
      const isGivenBack = reason === 'failed' || (reason === 'unfinished' && isLeft(access));
      return isGivenBack ? await access.refund() : access.quota;
    },
  };
}

/** `unfinished`: the request never arrived whole. Null: it was complete and wrong. */
function reasonFor(error: unknown, { isGone, isWhole }: Arrival): 'failed' | 'unfinished' | null {
  if (error instanceof Failure && error.status >= 500) return 'failed';
  if (error instanceof Failure && error.code === 'uploadTooSlow') return 'unfinished';
  // A client that leaves after a whole request pays for it. Otherwise it could have URLs fetched in our name without end.
  if (isGone) return isWhole ? null : 'unfinished';
  return error instanceof Failure ? null : 'failed';
}
