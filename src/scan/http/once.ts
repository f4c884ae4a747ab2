// A scan that is answered once for its Idempotency-Key: the first request scans and its answer is kept; the same request again is compared by its bytes, and answered the same.
import { createHash, type Hash } from 'node:crypto';
import { Failure } from '../../errors.js';
import type { Exchange } from '../../http/exchange.js';
import { failureReply, headOf, type Reply } from '../../http/reply.js';
import { assertWithin } from '../content.js';
import type { ScanParts } from '../scan.js';
import { asFailure } from './body-reader.js';
import { type FormSettings, HttpScan } from './http-scan.js';
import type { Claim, KeptAnswer, KeptAnswers } from './kept-answers.js';

/** Visible ASCII. */
const KEY = /^[!-~]{1,255}$/;
const KEPT_HEADER = /^(?:X-Scan-|Location$|Preference-Applied$)/;

/** Of a request that has one. Throws Failure `badRequest`. */
export function idempotencyKeyOf({ headers }: Exchange): string {
  const key = headers.get('idempotency-key') ?? '';
  if (!KEY.test(key)) throw new Failure('badRequest', 'Idempotency-Key: must be 1 to 255 visible ASCII characters');
  return key;
}

interface Sent {
  /** Null: a URL. */
  readonly sha256: string | null;
  /** As it was sent; null: a file. */
  readonly url: string | null;
  readonly filename: string;
  readonly metadata: string | null;
  /** What was said of the policy; empty: nothing. */
  readonly policySaid: string;
}

/** Over all that the answer and the row depend on. */
function fingerprintOf({ sha256, url, filename, metadata, policySaid }: Sent): string {
  // The name of a URL's content comes from the URL.
  const parts = url === null ? ['file', sha256, filename, metadata] : ['url', url, metadata];
  if (policySaid !== '') parts.push(policySaid);
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

/** The claim of the first one, and what becomes of it. */
export class Keeper {
  readonly #kept: KeptAnswers;
  readonly #claim: Claim;

  constructor(kept: KeptAnswers, claim: Claim) {
    this.#kept = kept;
    this.#claim = claim;
  }

  /** Keeps the answer for the same request again, unless that should be tried anew. */
  async keep(reply: Reply, sent: Sent): Promise<void> {
    const { status, body } = reply;
    const list = headOf(reply, '').headers;
    const headers: Record<string, string> = {};
    for (let at = 0; at < list.length; at += 2) {
      const name = list[at] ?? '';
      if (KEPT_HEADER.test(name)) headers[name] = list[at + 1] ?? '';
    }
    const isAboutContent = sent.sha256 !== null || sent.url !== null;
    if (status >= 500 || !isAboutContent || headers['X-Scan-Id'] === undefined || typeof body !== 'string') {
      await this.giveUp();
      return;
    }
    await this.#kept.complete(this.#claim, fingerprintOf(sent), { status, headers, body });
  }

  async giveUp(): Promise<void> {
    await this.#kept.giveUp(this.#claim);
  }
}

/** The first one. What arrived whole is scanned also when its client has left: the client comes back with the same key. */
export class FirstScan extends HttpScan {
  readonly #keeper: Keeper;
  #sentUrl: string | null;

  constructor(parts: ScanParts, exchange: Exchange, settings: FormSettings, keeper: Keeper) {
    super(parts, exchange, settings);
    this.#keeper = keeper;
    this.#sentUrl = null;
  }

  protected override fetchUrl(url: string): void {
    this.#sentUrl = url;
    super.fetchUrl(url);
  }

  override onGone(reason: Error): void {
    if (!this.isWhole) super.onGone(reason);
  }

  protected override signal(): AbortSignal {
    return new AbortController().signal;
  }

  /** It isn't admitted. */
  override drop(): void {
    super.drop();
    this.#giveUp();
  }

  /** The client has left before all of it was here. */
  protected override onLeft(): void {
    this.#giveUp();
  }

  #giveUp(): void {
    this.#keeper.giveUp().catch((error: unknown) => this.tellOf(error));
  }

  protected override answer(): void {
    const reply = this.reply();
    const { sha256, filename, metadata, policySaid } = this;
    // Where it isn't kept the client has its answer; the same request again scans again.
    const kept = this.#keeper.keep(reply, { sha256, url: this.#sentUrl, filename, metadata, policySaid });
    void kept.catch((error: unknown) => this.tellOf(error)).then(() => this.send(reply));
  }
}

/** The same key again, with an answer that is there: what is sent is compared, not kept, and takes no unit. */
export class RepeatedScan extends HttpScan {
  readonly #fingerprint: string;
  readonly #answer: KeptAnswer;
  readonly #hash: Hash;
  #bytes: number;

  constructor(
    parts: ScanParts,
    exchange: Exchange,
    settings: FormSettings,
    { fingerprint, answer }: { readonly fingerprint: string; readonly answer: KeptAnswer },
  ) {
    super(parts, exchange, settings);
    this.#fingerprint = fingerprint;
    this.#answer = answer;
    this.#hash = createHash('sha256');
    this.#bytes = 0;
  }

  override onFileBytes(bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    assertWithin(this.limitBytes, this.#bytes);
    this.#hash.update(bytes);
  }

  protected override endOfContent(): void {
    if (this.#bytes === 0) throw new Failure('fileEmpty');
    this.endReceiving();
    const { filename, metadata, policySaid } = this;
    this.#compare({ sha256: this.#hash.digest('hex'), url: null, filename, metadata, policySaid });
  }

  protected override fetchUrl(url: string): void {
    this.endReceiving();
    const { filename, metadata, policySaid } = this;
    this.#compare({ sha256: null, url, filename, metadata, policySaid });
  }

  #compare(sent: Sent): void {
    if (fingerprintOf(sent) !== this.#fingerprint) {
      throw new Failure('conflict', 'This Idempotency-Key was used for other content');
    }
    this.isDecided = true;
    const { status, headers, body } = this.#answer;
    this.send({ status, headers: { ...headers, 'Idempotent-Replayed': 'true' }, body });
  }

  protected override fail(cause: unknown): void {
    if (this.isDecided) return;
    const problem = asFailure(cause);
    this.isDecided = true;
    this.endReceiving();
    if (this.isGone) return;
    if (!(problem instanceof Failure)) this.tellOf(problem);
    this.send(failureReply(problem instanceof Failure ? problem : new Failure('internal', this.requestId)));
  }
}
