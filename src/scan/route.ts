// POST /api/v1/scans and POST /web/scans: who asks, what it costs, and the scan's answer with its headers.
import { v7 as uuidv7 } from 'uuid';
import type { Access, AccessControl } from '../account/access.js';
import { describeEngine, type ServingEngine } from '../engine/build.js';
import { errorTable, Failure } from '../errors.js';
import type { History } from '../history/history.js';
import type { CallerRoute } from '../http/caller.js';
import type { Exchange, Reply } from '../http/exchange.js';
import { failureReply, Surprise } from '../http/failure.js';
import type { Route } from '../http/router.js';
import { scanOperation, signedInOperation } from './operation.js';
import { createRefunds, type Refunds } from './refunds.js';
import { resultJson } from './result.js';
import { type Scanned, type ScanParts, type ScanProgress, scanContent } from './scan.js';

export interface ScanRouteParts extends ScanParts {
  readonly access: AccessControl;
  readonly now: () => number;
  readonly history: Pick<History, 'assertOpen' | 'record'>;
  /** The name of this environment in the history. */
  readonly appEnv: string;
  /** Told of every scan that was admitted, once it is decided. Never of keys or contents. */
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
  /** What has looked, as in X-Scan-Engine; null when nothing looked at everything. */
  readonly engine: string | null;
  /** The message of the error table, null on success. */
  readonly error: string | null;
}

type Admitted = Extract<Access, { outcome: 'admitted' }>;
type Quota = Admitted['quota'];

export interface ScanRoutes {
  /** The public route. */
  readonly withKey: Route;
  /** The dashboard's: uploads only, the same quota. */
  readonly signedIn: CallerRoute;
}

/** What both routes share, made here. */
interface Serving extends ScanRouteParts {
  readonly refunds: Refunds;
}

export function createScanRoutes(options: ScanRouteParts): ScanRoutes {
  const parts: Serving = { ...options, refunds: createRefunds() };
  return {
    withKey: {
      method: 'POST',
      path: '/api/v1/scans',
      operation: scanOperation,
      handle: async (exchange) => {
        const header = exchange.headers.get('x-api-key');
        const asked = parts.access.withApiKey(header);
        const account = parts.access.expectedUser(header);
        const begun = account === null ? null : begin(exchange, account, clearedBy(asked, account, parts), parts);
        return await answer(exchange, await asked, begun, parts);
      },
    },
    signedIn: {
      method: 'POST',
      path: '/web/scans',
      operation: signedInOperation,
      handle: async (caller, exchange) =>
        await answer(exchange, await parts.access.asUser(caller), null, { ...parts, downloader: null }),
    },
  };
}

interface Begun {
  /** Who was expected to be admitted. */
  readonly account: string;
  readonly progress: ScanProgress;
  readonly scanned: Promise<Scanned>;
}

/** Takes the upload up, and scans it. */
function begin(exchange: Exchange, account: string, cleared: Promise<void>, parts: ScanParts): Begun {
  const progress: ScanProgress = { received: false, filename: '', durationMs: 0, content: null };
  const scanned = scanContent({ exchange, account, cleared, progress }, parts);
  // Nobody waits for the scan of a request that isn't admitted, nor for its clearance when the upload was wrong before that.
  scanned.catch(() => undefined);
  cleared.catch(() => undefined);
  return { account, progress, scanned };
}

/** A key's user never changes. If it did, the scan would have had another account's share: it is not answered. */
function assertExpected({ userId }: Admitted, account: string): void {
  if (userId !== account) throw new Error('Another user was admitted than was expected');
}

async function clearedBy(asked: Promise<Access>, account: string, { history }: ScanRouteParts): Promise<void> {
  const access = await asked;
  if (access.outcome !== 'admitted') throw new Error('The request is not admitted');
  assertExpected(access, account);
  history.assertOpen();
}

/** `begun`: the scan, if that didn't wait for the access. */
async function answer(exchange: Exchange, access: Access, begun: Begun | null, parts: Serving): Promise<Reply> {
  switch (access.outcome) {
    case 'keyMissing':
    case 'keyInvalid':
      throw new Failure(access.outcome);
    case 'exhausted':
      return exhausted(access);
    case 'admitted':
      return await scanAdmitted(exchange, access, begun, parts);
  }
}

/** nginx's status for a client that went away; nobody receives it, the history shows it. */
const CLIENT_GONE = 499;

async function scanAdmitted(exchange: Exchange, access: Admitted, begun: Begun | null, parts: Serving): Promise<Reply> {
  try {
    if (begun !== null) assertExpected(access, begun.account);
    parts.history.assertOpen();
  } catch (error) {
    return await giveBack(error, access);
  }
  const { progress, scanned: scanning } = begun ?? begin(exchange, access.userId, Promise.resolve(), parts);
  const attempt = { exchange, access, scanId: uuidv7(), progress };
  const { scanId } = attempt;
  const end = createEnd(parts, attempt);
  let scanned: Scanned;
  try {
    scanned = await scanning;
  } catch (error) {
    return await fail(error, attempt, { end, refunds: parts.refunds });
  }
  const { sizeBytes, sha256, looked } = scanned;
  try {
    const engine = engineOf(scanned, parts.signatures);
    await end({
      status: 200,
      sizeBytes,
      sha256,
      virusName: virusNameOf(scanned),
      engine: engine === null ? null : describeEngine(engine),
      cached: looked !== 'now',
      error: null,
    });
  } catch (error) {
    // What can't be recorded is not answered: the history would lie.
    return await giveBack(error, access);
  }
  return scanReply(scanned, scanId, access.quota, parts.signatures);
}

interface Attempt {
  readonly exchange: Exchange;
  readonly access: Admitted;
  readonly scanId: string;
  readonly progress: ScanProgress;
}

type End = (
  outcome: Pick<ScanEvent, 'status' | 'sizeBytes' | 'sha256' | 'virusName' | 'engine' | 'cached' | 'error'>,
) => Promise<void>;

interface Ending {
  readonly end: End;
  readonly refunds: Refunds;
}

/** Puts the outcome of a scan into the history, once, and then tells of it. Rejects with Failure `unavailable`. */
function createEnd(
  { history, appEnv, now, onScan }: ScanRouteParts,
  { exchange, access, scanId, progress }: Attempt,
): End {
  const { userId, keyId } = access;
  return async (outcome) => {
    const { status, virusName, error, engine, sizeBytes, sha256 } = outcome;
    const { filename, durationMs } = progress;
    const row = {
      id: scanId,
      userId,
      keyId,
      filename,
      durationMs,
      virusName,
      status,
      error,
      engine: engine?.split(';', 1)[0] ?? null,
      sizeBytes,
      sha256,
      env: appEnv,
      lastUpdateMs: now(),
    };
    await history.record(row);
    onScan({ scanId, requestId: exchange.requestId, userId, keyId, durationMs, ...outcome });
  };
}

/** A scan that failed has its row too; what nobody foresaw is a 500 in it as it is on the wire. */
async function fail(error: unknown, attempt: Attempt, { end, refunds }: Ending): Promise<Reply> {
  const { exchange, access, scanId, progress } = attempt;
  const quota = await refunds.settle(error, { access, isGone: exchange.isGone(), received: progress.received });
  try {
    await end({
      ...outcomeOf(error, exchange),
      sizeBytes: progress.content?.sizeBytes ?? null,
      sha256: progress.content?.sha256 ?? null,
      virusName: null,
      engine: null,
      cached: false,
    });
  } catch (unrecorded) {
    return await giveBack(unrecorded, access);
  }
  const headers = { ...quotaHeaders(quota), 'X-Scan-Id': scanId };
  if (!(error instanceof Failure)) throw new Surprise(error, headers);
  return failureReply(error, headers);
}

function outcomeOf(error: unknown, exchange: Exchange): Pick<ScanEvent, 'status' | 'error'> {
  if (exchange.isGone()) return { status: CLIENT_GONE, error: 'The client went away' };
  if (error instanceof Failure) return { status: error.status, error: error.message };
  return { status: errorTable.internal.status, error: errorTable.internal.error };
}

/** The answer to a scan that isn't in the history: without an id, and without a unit taken. */
async function giveBack(error: unknown, access: Admitted): Promise<Reply> {
  const quota = await access.refund();
  if (!(error instanceof Failure)) throw new Surprise(error, quotaHeaders(quota));
  return failureReply(error, quotaHeaders(quota));
}

function scanReply(scanned: Scanned, scanId: string, quota: Quota, signatures: ScanParts['signatures']): Reply {
  const { verdict, filename, extension, sizeBytes, sha256, durationMs, looked } = scanned;
  const engine = engineOf(scanned, signatures);
  const headers: Record<string, string> = {
    ...quotaHeaders(quota),
    'X-Scan-Id': scanId,
    'X-Scan-Sha256': sha256,
    'X-Scan-Engine': engine === null ? 'none' : describeEngine(engine),
    'X-Scan-Cache': looked === 'for the account' ? 'HIT' : 'MISS',
  };
  if (verdict.kind === 'clean' && verdict.encrypted) headers['X-Scan-Notice'] = 'encrypted';
  // Containers are incomplete then; this says that the engine is a weaker one also for all else.
  if (engine?.name === 'yara-x') headers['X-Scan-Notice'] = 'raw-content';
  const result = {
    filename,
    extension,
    sizeInBytes: sizeBytes,
    scanDurationMillis: durationMs,
    virusName: virusNameOf(scanned),
  };
  return { status: 200, headers, body: resultJson(result) };
}

/** Not the engine that serves now: the one that has looked. */
function engineOf({ epoch }: Scanned, signatures: ScanParts['signatures']): ServingEngine | null {
  return epoch === null ? null : signatures.engineOf(epoch);
}

function virusNameOf({ verdict }: Scanned): string | null {
  return verdict.kind === 'infected' ? verdict.virusName : null;
}

function quotaHeaders({ limit, remaining, resetEpochSeconds }: Quota): Record<string, string> {
  return {
    'X-RateLimit-Limit': String(limit),
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(resetEpochSeconds),
  };
}

function exhausted({ quota, retryAfterSeconds }: Extract<Access, { outcome: 'exhausted' }>): Reply {
  const fields = { limit: quota.limit, resetTime: quota.resetEpochSeconds, retryAfter: retryAfterSeconds };
  return failureReply(new Failure('quotaExhausted', '', retryAfterSeconds), quotaHeaders(quota), fields);
}
