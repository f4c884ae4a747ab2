// One admitted scan, whatever protocol it came by: its verdict or why there is none, its row in the history, its unit back where that is due.
import { v7 as uuidv7 } from 'uuid';
import type { Access } from '../admission/access.js';
import type { Engine } from '../engine/engine.js';
import { errorTable, Failure } from '../errors.js';
import type { History } from '../history/history.js';
import { createRefunds } from './refunds.js';
import { type Scanned, type ScanOutcome, type ScanParts, scanSubmission, type Unscanned } from './scan.js';
import type { Submission } from './submission.js';

export type Admitted = Extract<Access, { outcome: 'admitted' }>;
type Quota = Admitted['quota'];

export interface ScanServiceParts extends ScanParts {
  readonly now: () => number;
  readonly history: Pick<History, 'assertOpen' | 'record'>;
  /** The name of this environment in the history. */
  readonly appEnv: string;
  /** Called for every scan that was admitted, once its row is recorded. The event has nothing of keys or contents. */
  readonly onScan: (event: ScanEvent) => void;
}

export interface ScanEvent {
  readonly scanId: string;
  readonly requestId: string;
  readonly userId: string;
  readonly keyId: string | null;
  readonly status: number;
  /** Null: the content never was there as a whole. */
  readonly sizeBytes: number | null;
  readonly sha256: string | null;
  readonly virusName: string | null;
  /** Inside the engine; 0 when it wasn't asked; what it took then, when it was asked for another account. */
  readonly durationMs: number;
  /** The verdict was remembered, of this account or of another one. */
  readonly cached: boolean;
  /** The engine that has looked; null: none has looked at everything. */
  readonly engine: Engine | null;
  /** Null on success; otherwise a code of the error table, of `unavailable` with its reason, or `clientGone`. */
  readonly failure: string | null;
  /** The same in words: the message of the error table. */
  readonly error: string | null;
}

/** A scan on its way. */
export interface Begun {
  readonly submission: Submission;
  /** Calls back with what came of it, at once when that is known. One listener. */
  onOutcome(listener: (outcome: ScanOutcome) => void): void;
}

export type Served =
  | { readonly kind: 'scanned'; readonly scanId: string; readonly quota: Quota; readonly scanned: Scanned }
  | {
      readonly kind: 'failed';
      /** Of its row in the history; null: it has none. */
      readonly scanId: string | null;
      readonly quota: Quota;
      /** A Failure, or what nobody foresaw. */
      readonly error: unknown;
    };

export interface ScanService {
  /** Throws Failure `unavailable` when a scan could not be recorded now. */
  assertOpen(): void;
  /** Receives and scans. Nothing of it may get out before the account is admitted; a verdict may be remembered, which is true for every account. */
  begin(submission: Submission): Begun;
  /** Ends what was begun for an account that is admitted, or begins it. Calls back once. */
  serve(access: Admitted, work: Submission | Begun, onServed: (served: Served) => void): void;
}

/** nginx's status for a client that went away; nobody receives it, the history shows it. */
const CLIENT_GONE = 499;

type Ending = Pick<ScanEvent, 'status' | 'virusName' | 'engine' | 'cached' | 'failure' | 'error'>;

export function createScanService(parts: ScanServiceParts): ScanService {
  const { history } = parts;
  const refunds = createRefunds();
  const record = createRecorder(parts);

  function begin(submission: Submission): Begun {
    let coming: ScanOutcome | null = null;
    let tell: ((outcome: ScanOutcome) => void) | null = null;
    scanSubmission(submission, parts, (outcome) => {
      if (tell === null) coming = outcome;
      else tell(outcome);
    });
    return {
      submission,
      onOutcome(listener) {
        if (coming === null) tell = listener;
        else listener(coming);
      },
    };
  }

  /** Rejects when the row can't be recorded. */
  async function serveScanned(scan: Serving, scanned: Scanned): Promise<Served> {
    const { scanId, access, submission } = scan;
    await record(scan, { submission, outcome: scanned, ending: endingOf(scanned) });
    return { kind: 'scanned', scanId, quota: access.quota, scanned };
  }

  async function serveUnscanned(scan: Serving, outcome: Unscanned): Promise<Served> {
    const { scanId, access, submission } = scan;
    const { error, isWhole } = outcome;
    const isGone = submission.isGone();
    const quota = await refunds.settle(error, { access, isGone, isWhole });
    await record(scan, { submission, outcome, ending: failedEnding(error, isGone) });
    return { kind: 'failed', scanId, quota, error };
  }

  function serveAdmitted(access: Admitted, { submission, onOutcome }: Begun): Promise<Served> {
    const scan = { scanId: uuidv7(), access, submission };
    return new Promise((resolve) => {
      onOutcome((outcome) =>
        resolve(outcome.kind === 'scanned' ? serveScanned(scan, outcome) : serveUnscanned(scan, outcome)),
      );
    });
  }

  /** What can't be recorded is not answered: the history would lie. It has no id then, and costs no unit. */
  async function unrecorded(access: Admitted, error: unknown): Promise<Served> {
    return { kind: 'failed', scanId: null, quota: await access.refund(), error };
  }

  return {
    assertOpen: () => history.assertOpen(),
    begin,
    serve(access, work, onServed) {
      const fail = (error: unknown): void => void unrecorded(access, error).then(onServed);
      try {
        const { account } = 'onOutcome' in work ? work.submission : work;
        // A key's user never changes. If it did, the scan would have had another account's share: it is not answered.
        if (account !== access.userId) throw new Error('Another user was admitted than was expected');
        history.assertOpen();
        serveAdmitted(access, 'onOutcome' in work ? work : begin(work)).then(onServed, fail);
      } catch (error) {
        fail(error);
      }
    },
  };
}

/** An admitted scan. */
interface Serving {
  readonly scanId: string;
  readonly access: Admitted;
  readonly submission: Submission;
}

/** Returns what records a scan, and rejects with Failure `unavailable` when that can't be done. */
function createRecorder({ history, appEnv, now, onScan }: ScanServiceParts) {
  return async ({ scanId, access }: Serving, { submission, outcome, ending }: Recorded): Promise<void> => {
    const { userId, keyId } = access;
    const { filename, durationMs } = outcome;
    const { virusName, status, error, engine } = ending;
    const sizeBytes = outcome.content?.sizeBytes ?? null;
    const sha256 = outcome.content?.sha256 ?? null;
    await history.record({
      id: scanId,
      userId,
      keyId,
      filename,
      durationMs,
      virusName,
      status,
      error,
      engine: engine?.label ?? null,
      sizeBytes,
      sha256,
      env: appEnv,
      lastUpdateMs: now(),
    });
    onScan({
      scanId,
      requestId: submission.requestId,
      userId,
      keyId,
      status,
      sizeBytes,
      sha256,
      virusName,
      durationMs,
      cached: ending.cached,
      engine,
      failure: ending.failure,
      error,
    });
  };
}

interface Recorded {
  readonly submission: Submission;
  readonly outcome: ScanOutcome;
  readonly ending: Ending;
}

function endingOf({ verdict, engine, looked }: Scanned): Ending {
  const virusName = verdict.kind === 'infected' ? verdict.virusName : null;
  return { status: 200, virusName, engine, cached: looked !== 'now', failure: null, error: null };
}

function failedEnding(error: unknown, isGone: boolean): Ending {
  const nothing = { virusName: null, engine: null, cached: false };
  if (isGone) return { ...nothing, status: CLIENT_GONE, failure: 'clientGone', error: 'The client went away' };
  if (error instanceof Failure) {
    return { ...nothing, status: error.status, failure: error.label, error: error.message };
  }
  const { status, error: text } = errorTable.internal;
  return { ...nothing, status, failure: 'internal', error: text };
}
