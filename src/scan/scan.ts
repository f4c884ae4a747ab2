// The way of the bytes on one screen: an upload in, a verdict about all of it out.
import type { ScanPool } from '../engine/pool.js';
import type { Signatures } from '../engine/signatures.js';
import { Failure } from '../errors.js';
import type { Exchange } from '../http/exchange.js';
import type { Guard } from './guard.js';
import type { UploadMemory } from './memory.js';
import { receiveUpload, type Upload } from './upload.js';
import type { CompleteVerdict, VerdictCache } from './verdict-cache.js';

export interface ScanParts {
  readonly pool: ScanPool;
  readonly signatures: Signatures;
  readonly cache: VerdictCache;
  readonly memory: UploadMemory;
  readonly uploadTimeoutMs: number;
  readonly guard: Guard;
}

/** A scan that looked at everything. */
export interface Scanned {
  readonly filename: string;
  readonly sizeBytes: number;
  readonly sha256: string;
  readonly durationMs: number;
  readonly verdict: CompleteVerdict;
  /** Of the engine that has looked. */
  readonly epoch: number | null;
  /** It had looked at the same content before. */
  readonly cached: boolean;
}

const LOADING_RETRY_SECONDS = 5;
const FAILED_RETRY_SECONDS = 60;

/** Rejects with a Failure for whatever is no verdict, with the signal's reason when the client goes away. */
export async function scanUpload(exchange: Exchange, parts: ScanParts): Promise<Scanned> {
  assertReady(parts.signatures);
  const upload = await receiveUpload(exchange, { memory: parts.memory, timeoutMs: parts.uploadTimeoutMs });
  if (upload.kind === 'url') throw refusedUrl(upload.url, parts.guard);

  const { filename } = upload;
  const { sizeBytes, sha256 } = upload.content;
  return { filename, sizeBytes, sha256, ...(await verdictOf(upload, exchange, parts)) };
}

type FileUpload = Extract<Upload, { kind: 'file' }>;
type Found = Pick<Scanned, 'durationMs' | 'verdict' | 'epoch' | 'cached'>;

/** Ends the lease. Rejects with Failure `scanIncomplete` or what the pool rejects with. */
async function verdictOf({ content, lease }: FileUpload, exchange: Exchange, parts: ScanParts): Promise<Found> {
  const { sizeBytes, sha256 } = content;
  const state = parts.signatures.state();
  const known = state.kind === 'ready' ? parts.cache.get(sha256, state.info.epoch) : null;
  if (known !== null && state.kind === 'ready') {
    lease.release(content.buffer);
    return { verdict: known, durationMs: 0, epoch: state.info.epoch, cached: true };
  }
  const outcome = await parts.pool
    .scan(content.buffer, sizeBytes, { signal: exchange.signal })
    .catch((error: unknown) => {
      lease.release(null);
      throw error;
    });
  if (outcome.content !== null) lease.release(outcome.content);
  else void outcome.returned.then((buffer) => lease.release(buffer));

  const { verdict, epoch, durationMs } = outcome;
  if (verdict.kind === 'incomplete') throw new Failure('scanIncomplete', verdict.reason);
  if (epoch !== null) parts.cache.set(sha256, epoch, verdict);
  return { verdict, durationMs, epoch, cached: false };
}

/** Nothing is downloaded by this version: what is wrong with the URL is said first, since that stays wrong. */
function refusedUrl(text: string, guard: Guard): Failure {
  const judged = guard.checkUrl(text);
  return new Failure('urlRejected', judged.allowed ? 'this version scans uploads only' : judged.reason);
}

function assertReady(signatures: Signatures): void {
  const state = signatures.state();
  if (state.kind === 'loading') {
    throw new Failure('unavailable', 'The scan engine is still loading its signatures', LOADING_RETRY_SECONDS);
  }
  if (state.kind === 'failed') {
    throw new Failure('unavailable', 'The scan engine has no signatures', FAILED_RETRY_SECONDS);
  }
}
