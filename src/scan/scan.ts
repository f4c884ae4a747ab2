// The way of the bytes on one screen, whatever protocol brought them: a content or a URL in, a verdict about all of the content out.

import type { Engine } from '../engine/engine.js';
import type { Signatures } from '../engine/signatures.js';
import type { ScanPool } from '../engine/threads/pool.js';
import { Failure, Unavailable } from '../errors.js';
import type { Content } from './body.js';
import { nameFromUrl, type ShownName, withExtension } from './filename.js';
import type { Received } from './reception.js';
import type { Sent, Submission, Unsent } from './submission.js';
import { receiveUrl, type UrlParts } from './url-content.js';
import type { CompleteVerdict } from './verdicts/cache.js';
import type { Known, KnownVerdicts } from './verdicts/known.js';

export interface ScanParts extends UrlParts {
  readonly pool: ScanPool;
  /** The content has crashed the engine, more than once. */
  readonly isRefused: (sha256: string) => boolean;
  readonly signatures: Signatures;
  readonly known: KnownVerdicts;
}

export type ScanOutcome = Scanned | Unscanned;

/** A scan that looked at everything. */
export interface Scanned extends ShownName, Found {
  readonly kind: 'scanned';
  readonly content: ContentFacts;
}

/** What is known without a verdict. */
export interface Unscanned {
  readonly kind: 'unscanned';
  /** A Failure, the signal's reason when the client has left, or what nobody foresaw. */
  readonly error: unknown;
  /** The request was there as a whole. */
  readonly isWhole: boolean;
  /** Empty when it never became known. */
  readonly filename: string;
  /** Null: the content never was there as a whole. */
  readonly content: ContentFacts | null;
  /** Inside the engine. */
  readonly durationMs: number;
}

export interface ContentFacts {
  readonly sizeBytes: number;
  readonly sha256: string;
}

interface Found {
  readonly verdict: CompleteVerdict;
  readonly durationMs: number;
  /** The engine that has looked, which may not be the one that serves now. */
  readonly engine: Engine;
  /** Whose scan it was: this one, an earlier one of the account, or one of another account, which the client must not learn. */
  readonly looked: 'now' | 'for the account' | 'for another account';
}

/** Receives, and calls back once with what came of it. */
export function scanSubmission(
  submission: Submission,
  parts: ScanParts,
  onOutcome: (outcome: ScanOutcome) => void,
): void {
  const notReady = whyNotReady(parts.signatures);
  if (notReady !== null) {
    onOutcome(unscanned({ error: notReady, isWhole: false, filename: '' }));
    return;
  }
  try {
    submission.receive((sent) => takeUp(sent, submission, parts, onOutcome));
  } catch (error) {
    onOutcome(unscanned({ error, isWhole: false, filename: '' }));
  }
}

function takeUp(
  sent: Sent | Unsent,
  submission: Submission,
  parts: ScanParts,
  onOutcome: (outcome: ScanOutcome) => void,
): void {
  switch (sent.kind) {
    case 'unsent':
      onOutcome(unscanned(sent));
      return;
    case 'url':
      void scanUrl(sent.url, submission, parts).then(onOutcome);
      return;
    case 'file':
      scanContent(withExtension(sent.filename), sent, submission, parts).then(onOutcome, (error) =>
        onOutcome(unscanned({ error, isWhole: false, filename: '' })),
      );
  }
}

function unscanned({ error, isWhole, filename }: Pick<Unscanned, 'error' | 'isWhole' | 'filename'>): Unscanned {
  return { kind: 'unscanned', error, isWhole, filename, content: null, durationMs: 0 };
}

/** Never rejects. */
async function scanUrl(url: string, submission: Submission, parts: ScanParts): Promise<ScanOutcome> {
  const name = nameOfUrl(url);
  try {
    const received = await receiveUrl({ url, account: submission.account, signal: submission.signal() }, parts);
    return await scanContent(name, received, submission, parts);
  } catch (error) {
    return unscanned({ error, isWhole: true, filename: name.filename });
  }
}

type ScanResult = Awaited<ReturnType<ScanPool['scan']>>;
type NotFound = Pick<Unscanned, 'error' | 'durationMs'>;

/** Gives the memory back. Rejects with what nobody foresaw. */
async function scanContent(
  { filename, extension }: ShownName,
  received: Received,
  submission: Submission,
  parts: ScanParts,
): Promise<ScanOutcome> {
  const { sizeBytes, sha256 } = received.content;
  const content = { sizeBytes, sha256 };
  const found = await verdictOf(received, submission, parts);
  if ('error' in found) {
    const { error, durationMs } = found;
    return { kind: 'unscanned', error, isWhole: true, filename, content, durationMs };
  }
  const { verdict, durationMs, engine, looked } = found;
  return { kind: 'scanned', filename, extension, content, verdict, durationMs, engine, looked };
}

function verdictOf(
  received: Received,
  submission: Submission,
  parts: ScanParts,
): Found | NotFound | Promise<Found | NotFound> {
  const known = findKnown(received.content, submission.account, parts);
  if (known instanceof Promise) return known.then((found) => verdictUnless(found, received, submission, parts));
  return verdictUnless(known, received, submission, parts);
}

/** `known`: what is known without a scan. */
function verdictUnless(
  known: Found | null,
  { content, lease }: Received,
  submission: Submission,
  parts: ScanParts,
): Found | NotFound | Promise<Found | NotFound> {
  if (known === null && !parts.isRefused(content.sha256)) return scanNow({ content, lease }, submission, parts);
  lease.release();
  return known ?? { error: new Failure('scanIncomplete', 'engine crashed on this content'), durationMs: 0 };
}

function findKnown(
  content: ContentFacts,
  account: string,
  { signatures, known }: ScanParts,
): Found | null | Promise<Found | null> {
  const state = signatures.state();
  if (state.kind !== 'ready') return null;
  const { engine } = state;
  const found = known.find(content, engine, account);
  if (found instanceof Promise) return found.then((one) => foundBefore(one, engine));
  return foundBefore(found, engine);
}

function foundBefore(known: Known | null, engine: Engine): Found | null {
  if (known === null) return null;
  const { verdict, isOwn, durationMs } = known;
  if (isOwn) return { verdict, engine, durationMs: 0, looked: 'for the account' };
  return { verdict, engine, durationMs, looked: 'for another account' };
}

async function scanNow({ content, lease }: Received, submission: Submission, parts: ScanParts) {
  const { account } = submission;
  const { bytes, sizeBytes, sha256 } = content;
  let outcome: ScanResult;
  try {
    outcome = await parts.pool.scan(bytes, sizeBytes, { account, client: submission, sha256 });
  } catch (error) {
    lease.release();
    return { error, durationMs: 0 };
  }
  if (outcome.returned === null) lease.release();
  else void outcome.returned.then(() => lease.release());
  return foundNow(outcome, content, account, parts);
}

function foundNow(outcome: ScanResult, content: Content, account: string, { known }: ScanParts): Found | NotFound {
  if (outcome.returned !== null && outcome.starved) return { error: new Unavailable('queueSlow'), durationMs: 0 };
  const { verdict, engine, durationMs } = outcome;
  if (verdict.kind === 'failed') {
    return { error: new Unavailable('engineStorage', { text: verdict.reason }), durationMs };
  }
  if (verdict.kind === 'incomplete') return { error: new Failure('scanIncomplete', verdict.reason), durationMs };
  if (engine === null) return { error: new Error('A verdict without an engine'), durationMs };
  known.keep(content, engine, account, { verdict, durationMs });
  return { verdict, durationMs, engine, looked: 'now' };
}

/** Of a URL that can't be fetched as well, for its history; empty when it is none. */
function nameOfUrl(text: string): ShownName {
  try {
    return nameFromUrl(new URL(text));
  } catch {
    return { filename: '', extension: '' };
  }
}

function whyNotReady(signatures: Signatures): Unavailable | null {
  const { kind } = signatures.state();
  if (kind === 'loading') return new Unavailable('engineLoading');
  return kind === 'failed' ? new Unavailable('engineFailed') : null;
}
