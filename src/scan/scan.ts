// The way of the bytes on one screen: an upload or a URL in, a verdict about all of the content out.
import type { ScanPool } from '../engine/pool.js';
import type { Signatures } from '../engine/signatures.js';
import { Failure } from '../errors.js';
import type { Exchange } from '../http/exchange.js';
import { nameFromUrl, type ShownName, withExtension } from './filename.js';
import type { KnownVerdicts } from './known-verdicts.js';
import type { UploadMemory } from './memory.js';
import { receiveUpload } from './upload.js';
import type { Download, Downloader } from './url-content.js';
import type { CompleteVerdict } from './verdict-cache.js';

export interface ScanParts {
  readonly pool: ScanPool;
  /** The content has crashed the engine, more than once. */
  readonly isRefused: (sha256: string) => boolean;
  readonly signatures: Signatures;
  readonly known: KnownVerdicts;
  readonly memory: UploadMemory;
  readonly uploadTimeoutMs: number;
  /** Null: the route takes uploads only. */
  readonly downloader: Downloader | null;
}

export interface ScanRequest {
  readonly exchange: Exchange;
  /** Whose request it is (a user's id), known from the first byte: memory, queue and threads are shared between accounts. */
  readonly account: string;
  /**
   * Resolves once the request is admitted; rejects when it isn't. Answers and downloads wait for it; the upload may be received and
   * scanned beside it, and its verdict be remembered, which is true whoever asked.
   */
  readonly cleared: Promise<void>;
  /** Filled in as it goes, for the history of a scan that fails. */
  readonly progress: ScanProgress;
}

/** What became known of a scan on its way, for the record of one that fails. */
export interface ScanProgress {
  /** The request was there as a whole. */
  received: boolean;
  filename: string;
  durationMs: number;
  /** Of the content, once all of it is there. */
  content: { readonly sizeBytes: number; readonly sha256: string } | null;
}

/** A scan that looked at everything. */
export interface Scanned extends ShownName {
  readonly sizeBytes: number;
  readonly sha256: string;
  readonly durationMs: number;
  readonly verdict: CompleteVerdict;
  /** Of the engine that has looked. */
  readonly epoch: number | null;
  /** Whose scan it was: this one, an earlier one of the account, or one of another account, which is not to be told. */
  readonly looked: 'now' | 'for the account' | 'for another account';
}

const LOADING_RETRY_SECONDS = 5;
const FAILED_RETRY_SECONDS = 60;
const QUEUE_RETRY_SECONDS = 2;
const STORAGE_RETRY_SECONDS = 5;

/** Rejects with a Failure for whatever is no verdict, with the signal's reason when the client goes away. */
export async function scanContent(request: ScanRequest, parts: ScanParts): Promise<Scanned> {
  const { exchange, account, cleared, progress } = request;
  assertReady(parts.signatures);
  const { memory, uploadTimeoutMs: timeoutMs } = parts;
  const onFilename = (filename: string): void => {
    progress.filename = filename;
  };
  const upload = await receiveUpload(exchange, { account, memory, timeoutMs, cleared, onFilename });
  progress.received = true;
  const received = upload.kind === 'url' ? await downloadFor(upload.url, request, parts) : upload;
  const { filename, extension } = 'extension' in received ? received : withExtension(received.filename);
  progress.filename = filename;
  const { content, lease } = received;
  const { sizeBytes, sha256 } = content;
  progress.content = { sizeBytes, sha256 };
  const found = await verdictOf({ content, lease }, request, parts);
  return { filename, extension, sizeBytes, sha256, ...found };
}

type Found = Pick<Scanned, 'durationMs' | 'verdict' | 'epoch' | 'looked'>;

/** Ends the lease. Rejects with Failure `scanIncomplete` or what the pool rejects with. */
async function verdictOf(
  { content, lease }: Pick<Download, 'content' | 'lease'>,
  { exchange, account, progress }: ScanRequest,
  parts: ScanParts,
): Promise<Found> {
  const { sizeBytes, sha256 } = content;
  const state = parts.signatures.state();
  const engine = state.kind === 'ready' ? state.info : null;
  const known = engine === null ? null : await parts.known.find(content, engine, account);
  if (engine !== null && known !== null) {
    lease.release(content.buffer);
    const { verdict, isOwn } = known;
    progress.durationMs = isOwn ? 0 : known.durationMs;
    const looked = isOwn ? 'for the account' : 'for another account';
    return { verdict, durationMs: progress.durationMs, epoch: engine.epoch, looked };
  }
  if (parts.isRefused(sha256)) {
    lease.release(content.buffer);
    throw new Failure('scanIncomplete', 'engine crashed on this content');
  }
  const outcome = await parts.pool
    .scan(content.buffer, sizeBytes, { account, signal: exchange.signal(), sha256 })
    .catch((error: unknown) => {
      lease.release(null);
      throw error;
    });
  if (outcome.content !== null) lease.release(outcome.content);
  else void outcome.returned.then((buffer) => lease.release(buffer));
  if (outcome.content === null && outcome.starved) {
    throw new Failure('unavailable', 'The scan queue is too long', QUEUE_RETRY_SECONDS);
  }

  const { verdict, epoch, durationMs } = outcome;
  progress.durationMs = durationMs;
  if (verdict.kind === 'failed') throw new Failure('unavailable', verdict.reason, STORAGE_RETRY_SECONDS);
  if (verdict.kind === 'incomplete') throw new Failure('scanIncomplete', verdict.reason);
  const by = epoch === null ? null : parts.signatures.engineOf(epoch);
  if (by !== null) parts.known.keep(content, by, account, { verdict, durationMs });
  return { verdict, durationMs, epoch, looked: 'now' };
}

async function downloadFor(
  url: string,
  { exchange, account, cleared, progress }: ScanRequest,
  { downloader }: ScanParts,
): Promise<Download> {
  await cleared;
  if (downloader === null) throw new Failure('urlRejected', 'this route scans uploads only');
  progress.filename = nameOfUrl(url);
  // Seconds may pass at an origin, for nobody when the client has left.
  exchange.watch();
  return await downloader.download(url, account, exchange.signal());
}

/** For the history of a URL that can't be fetched; empty when it is none. */
function nameOfUrl(text: string): string {
  try {
    return nameFromUrl(new URL(text)).filename;
  } catch {
    return '';
  }
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
