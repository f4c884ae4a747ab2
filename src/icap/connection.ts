// One connection of an ICAP client: its requests one after the other, each body as a scan, each answer before the next request is read.
import { v7 as uuidv7 } from 'uuid';
import { Failure } from '../errors.js';
import {
  DRAIN_MS,
  ICAP_CLOSE_MS,
  ICAP_HEAD_MS,
  ICAP_IDLE_MS,
  ICAP_SMALL_SECTION_BYTES,
  ICAP_UNREAD_BYTES,
} from '../limits.js';
import { Connection } from '../listening.js';
import type { Peer, PeerOwner } from '../peers.js';
import type { ScanParts } from '../scan/scan.js';
import type { StreamAccount } from '../scan/stream-scan.js';
import {
  blockedHeaders,
  blockedResponse,
  CONTINUE,
  errorOf,
  type IcapOutcome,
  type IncompletePolicy,
  NO_BODY,
  NOTHING_TO_SCAN,
  noticeHeader,
  optionsOf,
  REASONS,
} from './answers.js';
import { chunkOf, chunksOf, IcapExchange } from './exchange.js';
import { FormScan, IcapScan, type ScanOwner } from './icap-scan.js';
import { clientFacts, type IcapHead, IcapParser, type IcapParserTarget, IcapProblem } from './request.js';

/** What the encapsulated headers of all connections may have together. */
export class SectionRoom {
  #leftBytes: number;

  constructor(bytes: number) {
    this.#leftBytes = bytes;
  }

  take(bytes: number): boolean {
    if (bytes > this.#leftBytes) return false;
    this.#leftBytes -= bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#leftBytes += bytes;
  }
}

export interface IcapConnectionParts {
  readonly sections: SectionRoom;
  readonly scans: ScanParts;
  readonly limitBytes: number;
  /** For a body, and for the reading of an answer; the time in which the client waits for us doesn't count. */
  readonly bodyTimeoutMs: number;
  readonly incomplete: IncompletePolicy;
  readonly blockPage: string;
  readonly version: string;
  /** That it is said to take. */
  readonly connections: number;
  /** The ISTag now. */
  readonly tag: () => string;
  readonly account: StreamAccount;
  readonly onSurprise: (requestId: string, error: unknown) => void;
}

export class IcapConnection extends Connection implements IcapParserTarget, ScanOwner, PeerOwner {
  protected readonly parser = new IcapParser(this);
  readonly #parts: IcapConnectionParts;
  /** Counted of the encapsulated headers of its request. */
  #sectionBytes = 0;
  /** Null: no request has its head. */
  #exchange: IcapExchange | null = null;
  /** It waits for its admission or for memory. */
  #isHeld = false;
  /** The answer whose body goes out. */
  #body: Iterator<Buffer> | null = null;

  constructor(parts: IcapConnectionParts, peer: Peer) {
    super(peer, ICAP_HEAD_MS);
    this.#parts = parts;
  }

  /** The next answer is its last, and says so; none is waited for long. */
  retire(): void {
    this.isEnding = true;
    if (!this.isEnded && this.#exchange === null && this.parser.isIdle) this.timer.start(ICAP_HEAD_MS);
  }

  /** Takes no further request, and ends when the one that is there is answered. */
  finish(): void {
    this.isEnding = true;
    if (this.isEnded) this.timer.start(ICAP_CLOSE_MS);
    if (this.isEnded || this.#exchange !== null || !this.parser.isIdle) return;
    this.isEnded = true;
    this.peer.close();
    this.timer.start(ICAP_CLOSE_MS);
  }

  // Bytes in.

  onBytes(bytes: Buffer): void {
    if (this.isEnded) return;
    if (this.#exchange === null && this.parser.isIdle) this.timer.start(ICAP_HEAD_MS);
    this.take(bytes);
  }

  protected mustWait(): boolean {
    const isAnswering = this.#exchange?.isOver === true;
    return this.#isHeld || isAnswering || this.peer.unsentBytes > ICAP_UNREAD_BYTES;
  }

  protected onCut(): void {
    this.isEnding = true;
    if (this.#exchange === null) this.end(ICAP_CLOSE_MS);
    // A body that was cut has no verdict.
    else if (!this.#exchange.isOver) this.peer.destroy();
  }

  onDrain(): void {
    if (this.#body !== null) this.#send(this.#body);
    this.pump();
  }

  override onClose(): void {
    super.onClose();
    this.#giveSectionsBack();
    this.#body = null;
    const scan = this.#exchange?.scan;
    this.#exchange = null;
    scan?.onGone(new Error('The client has left'));
    scan?.letGo();
  }

  // Requests.

  onSections(bytes: number): void {
    if (bytes <= ICAP_SMALL_SECTION_BYTES) return;
    if (!this.#parts.sections.take(bytes)) throw new IcapProblem(503, 'too many large headers are on their way');
    this.#sectionBytes = bytes;
  }

  #giveSectionsBack(): void {
    this.#parts.sections.giveBack(this.#sectionBytes);
    this.#sectionBytes = 0;
  }

  onHead(head: IcapHead): void {
    const exchange = new IcapExchange(head, uuidv7());
    this.#exchange = exchange;
    if (head.isLast) this.isEnding = true;
    if (exchange.isOver) this.#onOver(exchange);
    else this.timer.start(this.#parts.bodyTimeoutMs);
  }

  onChunk(sizeBytes: number): void {
    const exchange = this.#exchange;
    if (exchange === null || exchange.scan !== null || exchange.outcome !== null) return;
    if (exchange.head.method !== 'OPTIONS') this.#open(exchange, sizeBytes);
  }

  #open(exchange: IcapExchange, firstChunkBytes: number): void {
    const { scans, account, limitBytes } = this.#parts;
    const { requestId, filename, head } = exchange;
    const declaredBytes = exchange.declaredFor(firstChunkBytes);
    const refusal = exchange.refusal(limitBytes);
    if (refusal === null && this.#refuse(exchange, declaredBytes ?? firstChunkBytes)) return;
    const isKept = !head.allows204;
    const metadata = clientFacts(head.headers);
    const content = { requestId, limitBytes, declaredBytes, refusal, filename, metadata, isKept };
    const form = exchange.openForm();
    const { admit } = account;
    const scan =
      form === null ? new IcapScan(scans, this, content) : new FormScan(scans, this, { ...content, form, admit });
    exchange.scan = scan;
    this.hold(scan);
    void scan.admitBy(admit);
  }

  /** Too many wait: it is answered at the end of what the client sends. */
  #refuse(exchange: IcapExchange, bytesMost: number): boolean {
    const tooMany = exchange.head.method === 'OPTIONS' ? null : this.#parts.account.refusal(bytesMost);
    if (tooMany !== null) exchange.outcome = errorOf(tooMany, exchange.requestId);
    return tooMany !== null;
  }

  onBodyBytes(bytes: Buffer): void {
    this.#exchange?.scan?.chunk(bytes);
  }

  onPreviewEnd(): boolean {
    const exchange = this.#exchange;
    if (exchange === null) return false;
    const isRefused = exchange.refusal(this.#parts.limitBytes) !== null;
    if (isRefused && exchange.scan === null) this.#open(exchange, 0);
    else if (exchange.scan === null && exchange.outcome === null) this.#refuse(exchange, exchange.declaredBytes ?? 0);
    if (isRefused || exchange.outcome !== null || exchange.scan?.isDecided) {
      exchange.isOver = true;
      this.parser.isHeld = true;
      this.timer.stop();
      if (exchange.outcome !== null) this.#write(exchange, exchange.outcome);
      return false;
    }
    exchange.isContinued = true;
    this.peer.write(CONTINUE);
    return true;
  }

  onBodyEnd(): void {
    const exchange = this.#exchange;
    if (exchange === null) return;
    exchange.isOver = true;
    this.#onOver(exchange);
  }

  #onOver(exchange: IcapExchange): void {
    this.timer.stop();
    this.parser.isHeld = true;
    if (exchange.head.method === 'OPTIONS') this.#writeOptions();
    else if (exchange.outcome !== null) this.#write(exchange, exchange.outcome);
    else if (exchange.scan === null) this.#write(exchange, NOTHING_TO_SCAN);
    else exchange.scan.end();
  }

  hold(scan: IcapScan): void {
    if (scan !== this.#exchange?.scan || this.#isHeld) return;
    this.timer.pause();
    this.#isHeld = true;
    this.parser.isHeld = true;
  }

  goOn(scan: IcapScan): void {
    if (scan !== this.#exchange?.scan || !this.#isHeld) return;
    this.#isHeld = false;
    if (!this.#exchange.isOver) this.timer.goOn();
    this.pump();
  }

  onProblem({ status, message }: IcapProblem): void {
    const { scan } = this.#exchange ?? {};
    scan?.refuse(new Failure('badRequest', message));
    scan?.letGo();
    this.#exchange = null;
    this.isEnding = true;
    this.#writeHead(status, NO_BODY, [noticeHeader(message)]);
    this.end(ICAP_CLOSE_MS);
  }

  // Answers out.

  onSurprise(requestId: string, error: unknown): void {
    this.#parts.onSurprise(requestId, error);
  }

  answer(scan: IcapScan): void {
    const exchange = this.#exchange;
    if (exchange === null || exchange.scan !== scan) return;
    const outcome = scan.outcome(this.#parts);
    if (exchange.isInPreview && !this.isEnding) {
      // Its end is near, and the connection is of use then.
      exchange.outcome = outcome;
      this.timer.start(ICAP_HEAD_MS);
      return;
    }
    this.timer.stop();
    this.#isHeld = false;
    // What still comes of the body is nobody's.
    if (!exchange.isOver) this.isEnding = true;
    this.#write(exchange, outcome);
  }

  #writeOptions(): void {
    this.#writeHead(200, NO_BODY, optionsOf(this.#parts.version, this.#parts.connections));
    this.#answered();
  }

  #write(exchange: IcapExchange, wanted: IcapOutcome): void {
    const outcome = exchange.possible(wanted);
    switch (outcome.kind) {
      case 'pass':
        this.#writeUnchanged(exchange, outcome.notice === null ? [] : [noticeHeader(outcome.notice)]);
        return;
      case 'error':
        this.#writeHead(outcome.status, NO_BODY, [noticeHeader(outcome.reason)]);
        this.#answered();
        return;
      default: {
        const { header, body } = blockedResponse(this.#parts.blockPage, outcome, exchange.requestId);
        this.#writeHead(200, `res-hdr=0, res-body=${header.length}`, blockedHeaders(outcome));
        this.peer.write(Buffer.concat([header, chunkOf(body), Buffer.from('0\r\n\r\n')]));
        this.#answered();
      }
    }
  }

  #writeUnchanged(exchange: IcapExchange, headers: readonly string[]): void {
    if (exchange.takes204) {
      this.#writeHead(204, NO_BODY, headers);
      this.#answered();
      return;
    }
    const { encapsulated, header } = exchange.unchanged();
    this.#writeHead(200, encapsulated, headers);
    this.peer.write(header);
    if (exchange.head.body === null) {
      this.#answered();
      return;
    }
    this.timer.start(this.#parts.bodyTimeoutMs);
    this.#body = chunksOf(exchange.scan?.body ?? null);
    this.#send(this.#body);
  }

  /** A piece at a time, as the client reads. */
  #send(body: Iterator<Buffer>): void {
    for (let piece = body.next(); piece.done !== true; piece = body.next()) {
      this.peer.write(piece.value);
      if (this.peer.unsentBytes > ICAP_UNREAD_BYTES) return;
    }
    this.#body = null;
    this.#answered();
  }

  #writeHead(status: number, encapsulated: string, headers: readonly string[]): void {
    const lines = [
      `ICAP/1.0 ${status} ${REASONS[status] ?? 'Error'}`,
      `ISTag: ${this.#parts.tag()}`,
      ...headers,
      `Connection: ${this.isEnding ? 'close' : 'keep-alive'}`,
      `Encapsulated: ${encapsulated}`,
      '\r\n',
    ];
    this.peer.write(Buffer.from(lines.join('\r\n'), 'latin1'));
  }

  #answered(): void {
    const isCut = this.#exchange?.isOver === false;
    this.#exchange?.scan?.letGo();
    this.#exchange = null;
    this.#giveSectionsBack();
    if (this.isEnding) this.end(isCut ? DRAIN_MS : ICAP_CLOSE_MS);
    else {
      this.timer.start(ICAP_IDLE_MS);
      this.pump();
    }
  }

  onDue(): void {
    const exchange = this.#exchange;
    if (this.isEnded || this.#body !== null || this.peer.unsentBytes > ICAP_UNREAD_BYTES) this.peer.destroy();
    else if (exchange !== null) this.#onSlow(exchange);
    else if (this.parser.isIdle) this.end(ICAP_CLOSE_MS);
    else {
      this.isEnding = true;
      this.#writeHead(408, NO_BODY, []);
      this.end(ICAP_CLOSE_MS);
    }
  }

  #onSlow(exchange: IcapExchange): void {
    const tooSlow = new Failure('uploadTooSlow', `${this.#parts.bodyTimeoutMs} ms`);
    this.isEnding = true;
    if (exchange.scan !== null && exchange.outcome === null) exchange.scan.refuse(tooSlow);
    else this.#write(exchange, exchange.outcome ?? errorOf(tooSlow, exchange.requestId));
  }
}
