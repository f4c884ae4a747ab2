// A scan that comes by HTTP: the body of an exchange in, the six fields or an error out.
import { Failure } from '../../errors.js';
import type { BodySink, Exchange } from '../../http/exchange.js';
import type { Reply } from '../../http/wire.js';
import { REFUSED_NAME_MS } from '../../limits.js';
import { Scan, type ScanParts } from '../scan.js';
import { asFailure, type BodyReader, type FormTarget, openReader, type Taken } from './body-reader.js';
import { failedReply, scannedReply } from './operation.js';

export interface FormSettings {
  readonly takes: Taken;
  /** For the client: the time in which it waits for memory doesn't count. */
  readonly timeoutMs: number;
  readonly limitBytes: number;
  readonly onSurprise: (exchange: Exchange, error: unknown) => void;
}

export class HttpScan extends Scan implements FormTarget, BodySink {
  protected readonly limitBytes: number;
  readonly #exchange: Exchange;
  readonly #settings: FormSettings;
  #reader: BodyReader | null = null;
  /** Of its time, while it waits for memory. */
  #leftMs: number = Number.POSITIVE_INFINITY;
  /** The request has declared more than any body with a file within the limit has: it is read up to the file's name. */
  protected isTooLarge = false;

  constructor(parts: ScanParts, exchange: Exchange, settings: FormSettings) {
    super(parts, exchange.requestId);
    this.limitBytes = settings.limitBytes;
    this.#exchange = exchange;
    this.#settings = settings;
    if (this.times !== null) this.times.parent = exchange.headers.get('traceparent') ?? null;
  }

  protected receive(): void {
    const exchange = this.#exchange;
    const { body } = exchange;
    const reader = openReader(exchange, this, this.#settings.takes);
    this.#reader = reader;
    this.isTooLarge = body.kind === 'sized' && body.bytes > this.limitBytes + reader.envelopeBytes;
    // What declares too much is refused in any case, also while nothing of the body comes: its name is waited for a moment.
    exchange.dueMs = performance.now() + (this.isTooLarge ? REFUSED_NAME_MS : this.#settings.timeoutMs);
    exchange.receive(this);
  }

  /** For the exchange: nobody reads the answer, or there was no memory for what has arrived. */
  onLost(reason: Error): void {
    if (reason instanceof Failure) this.fail(reason);
    else this.onGone(reason);
  }

  protected endReceiving(): void {
    this.#exchange.dueMs = Number.POSITIVE_INFINITY;
    if (this.filename === '') this.filename = this.#reader?.filename ?? '';
    const said = this.#reader?.options ?? null;
    if (said === null) return;
    this.metadata = said.metadata;
    if (said.encrypted === null && said.heuristics === null) return;
    const { encrypted, heuristics } = this.policy;
    this.policy = { encrypted: said.encrypted ?? encrypted, heuristics: said.heuristics ?? heuristics };
  }

  /** What the client has said of the policy; empty: nothing. */
  protected get policySaid(): string {
    return this.#reader?.options?.policyText ?? '';
  }

  /** For the exchange: bytes of the body, which are ours only until this returns. */
  take(bytes: Buffer, isLast: boolean): void {
    const reader = this.#reader;
    if (this.isDecided || reader === null) return;
    try {
      reader.write(bytes);
      if (this.received?.isWaiting === true) this.holdIfFull();
      if (!isLast || this.isDecided) return;
      const url = reader.end();
      if (url === null) this.endOfContent();
      else this.#takeUrl(url);
    } catch (error) {
      this.fail(error);
    }
  }

  /** For the reader: bytes of the file. */
  onFileBytes(bytes: Uint8Array): void {
    if (this.isTooLarge) throw new Failure('fileTooLarge');
    let content = this.received;
    if (content === null) {
      const { body } = this.#exchange;
      content = this.openContent(body.kind === 'sized' ? Math.min(body.bytes, this.limitBytes) : null);
    }
    content.append(bytes);
  }

  #takeUrl(url: string): void {
    this.isWhole = true;
    if (this.#settings.takes === 'files') throw new Failure('urlRejected', 'this route scans uploads only');
    this.fetchUrl(url);
  }

  protected override fail(problem: unknown): void {
    super.fail(asFailure(problem));
  }

  onDue(): void {
    this.fail(
      this.isTooLarge ? new Failure('fileTooLarge') : new Failure('uploadTooSlow', `${this.#settings.timeoutMs} ms`),
    );
  }

  protected hold(): void {
    this.#leftMs = this.#exchange.dueMs - performance.now();
    this.#exchange.dueMs = Number.POSITIVE_INFINITY;
    this.#exchange.pauseBody();
  }

  protected goOn(): void {
    this.#exchange.dueMs = performance.now() + this.#leftMs;
    this.#exchange.resumeBody();
  }

  protected watch(): void {
    this.#exchange.watch();
  }

  protected unwatch(): void {
    this.#exchange.isWatched = false;
  }

  protected signal(): AbortSignal {
    return this.#exchange.signal();
  }

  protected answer(): void {
    // What is recorded is answered in a turn of the journal's own.
    this.#exchange.reply(this.reply(), this.scanId === null);
  }

  protected reply(): Reply {
    const { verdict, quota, problem } = this;
    if (verdict !== null && quota !== null) return scannedReply(this, quota);
    if (!(problem instanceof Failure)) this.tellOf(problem);
    return failedReply(this);
  }

  protected send(reply: Reply): void {
    this.#exchange.reply(reply);
  }

  protected tellOf(error: unknown): void {
    this.#settings.onSurprise(this.#exchange, error);
  }
}
