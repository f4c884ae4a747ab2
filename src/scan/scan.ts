// The way of the bytes on one screen: an upload in, a verdict about all of it out.
import type { ScanPool } from '../engine/pool.js';
import type { Signatures } from '../engine/signatures.js';
import type { Verdict } from '../engine/verdict.js';
import { Failure } from '../errors.js';
import type { Exchange } from '../http/exchange.js';
import type { Guard } from './guard.js';
import type { UploadMemory } from './memory.js';
import { receiveUpload } from './upload.js';

export interface ScanParts {
  readonly pool: ScanPool;
  readonly signatures: Signatures;
  readonly memory: UploadMemory;
  readonly uploadTimeoutMs: number;
  readonly guard: Guard;
}

/** What became known of a scan on its way, for the record of one that fails. */
export interface ScanProgress {
  filename: string;
  durationMs: number;
}

/** A scan that looked at everything. */
export interface Scanned {
  readonly filename: string;
  readonly sizeBytes: number;
  readonly sha256: string;
  readonly durationMs: number;
  readonly verdict: Exclude<Verdict, { kind: 'incomplete' }>;
}

const LOADING_RETRY_SECONDS = 5;
const FAILED_RETRY_SECONDS = 60;

/** Rejects with a Failure for whatever is no verdict, with the signal's reason when the client goes away. */
export async function scanUpload(exchange: Exchange, parts: ScanParts, progress: ScanProgress): Promise<Scanned> {
  assertReady(parts.signatures);
  const upload = await receiveUpload(exchange, { memory: parts.memory, timeoutMs: parts.uploadTimeoutMs });
  if (upload.kind === 'url') throw refusedUrl(upload.url, parts.guard);

  const { content, lease, filename } = upload;
  progress.filename = filename;
  const { sizeBytes, sha256 } = content;
  const outcome = await parts.pool
    .scan(content.buffer, sizeBytes, { signal: exchange.signal })
    .catch((error: unknown) => {
      lease.release(null);
      throw error;
    });
  if (outcome.content !== null) lease.release(outcome.content);
  else void outcome.returned.then((buffer) => lease.release(buffer));

  const { verdict, durationMs } = outcome;
  progress.durationMs = durationMs;
  if (verdict.kind === 'incomplete') throw new Failure('scanIncomplete', verdict.reason);
  return { filename, sizeBytes, sha256, durationMs, verdict };
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
