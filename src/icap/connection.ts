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
import { Intake, type IntakeOwner } from '../listening.js';
import type { Peer, PeerOwner } from '../peers.js';
import type { ScanParts } from '../scan/scan.js';
import type { StreamAccount } from '../scan/stream-scan.js';
import { CoarseTimer, type TimerOwner } from '../waiting/coarse-timer.js';
import {
  blockedResponse,
  CONTINUE,
  errorOf,
  headOf,
  type IncompletePolicy,
  incompleteHeaders,
  infectedHeaders,
  NO_BODY,
  NOTHING_TO_SCAN,
  noticeHeader,
  type Outcome,
  optionsOf,
} from './answers.js';
import { ChunkedBody, chunkOf, Exchange } from './exchange.js';
import { FormScan, IcapScan, type ScanOwner } from './icap-scan.js';
import { IcapParser, type ParserTarget } from './parser.js';
import { clientFacts, type IcapHead, IcapProblem } from './request.js';

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

/** What all connections have in common. */
export interface ConnectionParts {
  readonly sections: SectionRoom;
  readonly scans: ScanParts;
  readonly limitBytes: number;
  /** For a body, and for the reading of an answer; the time in which the client waits for us doesn't count. */
  readonly bodyTimeoutMs: number;
  readonly incomplete: IncompletePolicy;
  /** The page in the place of what is blocked. */
  readonly blockPage: string;
  readonly version: string;
  /** That it is said to take. */
  readonly connections: number;
  /** The ISTag now. */
  readonly tag: () => string;
  /** Whose account the scans are of. */
  readonly account: StreamAccount;
  readonly onSurprise: (requestId: string, error: unknown) => void;
}

export class Connection implements ParserTarget, ScanOwner, PeerOwner, IntakeOwner, TimerOwner {
  readonly #parts: ConnectionParts;
  readonly #peer: Peer;
  readonly #parser: IcapParser;
  readonly #timer: CoarseTimer;
  readonly #intake: Intake;
  /** Counted of the encapsulated headers of its request. */
  #sectionBytes: number;
  /** The client sends nothing more. */
  #hasAll: boolean;
  /** Null: no request has its head. */
  #exchange: Exchange | null;
  /** It waits for its admission or for memory. */
  #isHeld: boolean;
  /** The answer whose body goes out. */
  #body: ChunkedBody | null;
  /** No request is taken after this one. */
  #isEnding: boolean;
  #isEnded: boolean;

  constructor(parts: ConnectionParts, peer: Peer) {
    this.#parts = parts;
    this.#peer = peer;
    this.#parser = new IcapParser(this);
    this.#timer = new CoarseTimer(this);
    this.#intake = new Intake(peer, this.#parser, this);
    this.#sectionBytes = 0;
    this.#hasAll = false;
    this.#exchange = null;
    this.#isHeld = false;
    this.#body = null;
    this.#isEnding = false;
    this.#isEnded = false;
    this.#timer.start(ICAP_HEAD_MS);
    peer.resume();
  }

  /** The next answer is its last, and says so; none is waited for long. */
  retire(): void {
    this.#isEnding = true;
    if (!this.#isEnded && this.#exchange === null && this.#parser.isIdle) this.#timer.start(ICAP_HEAD_MS);
  }

  /** Takes no further request, and ends when the one that is there is answered. */
  finish(): void {
    this.#isEnding = true;
    if (this.#isEnded) this.#timer.start(ICAP_CLOSE_MS);
    if (this.#isEnded || this.#exchange !== null || !this.#parser.isIdle) return;
    this.#isEnded = true;
    this.#peer.close();
    this.#timer.start(ICAP_CLOSE_MS);
  }

  // Bytes in.

  onBytes(bytes: Buffer): void {
    if (this.#isEnded) return;
    if (this.#exchange === null && this.#parser.isIdle) this.#timer.start(ICAP_HEAD_MS);
    this.#intake.take(bytes);
    this.#afterIntake();
  }

  #pump(): void {
    this.#intake.pump();
    this.#afterIntake();
  }

  #afterIntake(): void {
    if (this.#hasAll && this.#intake.isEmpty) this.#cut();
  }

  mustWait(): boolean {
    if (this.#isEnded) return false;
    const isAnswering = this.#exchange?.isOver === true;
    return this.#isHeld || isAnswering || this.#peer.unsentBytes > ICAP_UNREAD_BYTES;
  }

  /** The client may still read. */
  onEnd(): void {
    this.#hasAll = true;
    this.#pump();
  }

  #cut(): void {
    if (this.#isEnded) return;
    this.#isEnding = true;
    if (this.#exchange === null) this.#end();
    // A body that was cut has no verdict.
    else if (!this.#exchange.isOver) this.#peer.destroy();
  }

  onDrain(): void {
    if (this.#body !== null) this.#send(this.#body);
    this.#pump();
  }

  onClose(): void {
    this.#timer.stop();
    this.#isEnded = true;
    this.#giveSectionsBack();
    this.#intake.drop();
    this.#body = null;
    this.#parser.stop();
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
    const exchange = new Exchange(head, uuidv7());
    this.#exchange = exchange;
    if (head.isLast) this.#isEnding = true;
    if (exchange.isOver) this.#onOver(exchange);
    else this.#timer.start(this.#parts.bodyTimeoutMs);
  }

  onChunk(sizeBytes: number): void {
    const exchange = this.#exchange;
    if (exchange === null || exchange.scan !== null || exchange.outcome !== null) return;
    if (exchange.head.method !== 'OPTIONS') this.#open(exchange, sizeBytes);
  }

  #open(exchange: Exchange, firstChunkBytes: number): void {
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
    const onSurprise = this.#tellOfSurprise.bind(this);
    const scan =
      form === null
        ? new IcapScan(scans, this, content)
        : new FormScan(scans, this, { ...content, form, admit, onSurprise });
    exchange.scan = scan;
    this.hold(scan);
    void scan.admitBy(admit);
  }

  /** Too many wait: it is answered at the end of what the client sends. */
  #refuse(exchange: Exchange, bytesMost: number): boolean {
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
      this.#parser.isHeld = true;
      this.#timer.stop();
      if (exchange.outcome !== null) this.#write(exchange, exchange.outcome);
      return false;
    }
    exchange.isContinued = true;
    this.#peer.write(CONTINUE);
    return true;
  }

  onBodyEnd(): void {
    const exchange = this.#exchange;
    if (exchange === null) return;
    exchange.isOver = true;
    this.#onOver(exchange);
  }

  #onOver(exchange: Exchange): void {
    this.#timer.stop();
    this.#parser.isHeld = true;
    if (exchange.head.method === 'OPTIONS') this.#writeOptions();
    else if (exchange.outcome !== null) this.#write(exchange, exchange.outcome);
    else if (exchange.scan === null) this.#write(exchange, NOTHING_TO_SCAN);
    else exchange.scan.end();
  }

  hold(scan: IcapScan): void {
    if (scan !== this.#exchange?.scan || this.#isHeld) return;
    this.#timer.pause();
    this.#isHeld = true;
    this.#parser.isHeld = true;
  }

  goOn(scan: IcapScan): void {
    if (scan !== this.#exchange?.scan || !this.#isHeld) return;
    this.#isHeld = false;
    if (!this.#exchange.isOver) this.#timer.goOn();
    this.#pump();
  }

  onProblem({ status, message }: IcapProblem): void {
    const { scan } = this.#exchange ?? {};
    scan?.refuse(new Failure('badRequest', message));
    scan?.letGo();
    this.#exchange = null;
    this.#isEnding = true;
    this.#writeHead(status, NO_BODY, [noticeHeader(message)]);
    this.#end();
  }

  // Answers out.

  answer(scan: IcapScan): void {
    this.#tellOfSurprise(scan, scan.verdict === null ? scan.problem : null);
    this.#respond(scan, scan.outcome(this.#parts));
  }

  turnedAway(scan: IcapScan, problem: unknown): void {
    this.#tellOfSurprise(scan, problem);
    this.#respond(scan, errorOf(problem, scan.requestId));
  }

  #tellOfSurprise({ requestId }: IcapScan, problem: unknown): void {
    if (problem !== null && !(problem instanceof Failure)) this.#parts.onSurprise(requestId, problem);
  }

  #respond(scan: IcapScan, outcome: Outcome): void {
    const exchange = this.#exchange;
    if (exchange === null || exchange.scan !== scan) return;
    if (exchange.isInPreview && !this.#isEnding) {
      // Its end is near, and the connection is of use then.
      exchange.outcome = outcome;
      this.#timer.start(ICAP_HEAD_MS);
      return;
    }
    this.#timer.stop();
    this.#isHeld = false;
    // What still comes of the body is nobody's.
    if (!exchange.isOver) this.#isEnding = true;
    this.#write(exchange, outcome);
  }

  #writeOptions(): void {
    this.#writeHead(200, NO_BODY, optionsOf(this.#parts));
    this.#answered();
  }

  #write(exchange: Exchange, wanted: Outcome): void {
    const outcome = exchange.possible(wanted);
    switch (outcome.kind) {
      case 'pass':
        this.#writeUnchanged(exchange, outcome.notice === null ? [] : [noticeHeader(outcome.notice)]);
        return;
      case 'infected':
        this.#writeBlocked(exchange, infectedHeaders(outcome.virusName, outcome.filename), {
          title: 'Blocked: malware was found',
          reason: outcome.virusName,
          filename: outcome.filename,
        });
        return;
      case 'incomplete':
        this.#writeBlocked(exchange, incompleteHeaders(outcome.reason, outcome.filename), {
          title: 'Blocked: the content could not be looked at as a whole',
          reason: outcome.reason,
          filename: outcome.filename,
        });
        return;
      case 'error':
        this.#writeHead(outcome.status, NO_BODY, [noticeHeader(outcome.reason)]);
        this.#answered();
    }
  }

  #writeUnchanged(exchange: Exchange, headers: readonly string[]): void {
    if (exchange.takes204) {
      this.#writeHead(204, NO_BODY, headers);
      this.#answered();
      return;
    }
    const { encapsulated, header } = exchange.unchanged();
    this.#writeHead(200, encapsulated, headers);
    this.#peer.write(header);
    if (exchange.head.body === null) {
      this.#answered();
      return;
    }
    this.#timer.start(this.#parts.bodyTimeoutMs);
    this.#body = new ChunkedBody(exchange.scan?.body ?? null);
    this.#send(this.#body);
  }

  /** A piece at a time, as the client reads. */
  #send(body: ChunkedBody): void {
    for (let piece = body.next(); piece !== null; piece = body.next()) {
      this.#peer.write(piece);
      if (this.#peer.unsentBytes > ICAP_UNREAD_BYTES) return;
    }
    this.#body = null;
    this.#answered();
  }

  #writeBlocked(
    { requestId }: Exchange,
    headers: readonly string[],
    said: { readonly title: string; readonly reason: string; readonly filename: string },
  ): void {
    const { header, body } = blockedResponse(this.#parts.blockPage, { ...said, requestId });
    this.#writeHead(200, `res-hdr=0, res-body=${header.length}`, headers);
    this.#peer.write(Buffer.concat([header, chunkOf(body), Buffer.from('0\r\n\r\n')]));
    this.#answered();
  }

  #writeHead(status: number, encapsulated: string, headers: readonly string[]): void {
    const tag = this.#parts.tag();
    const head = headOf({ status, tag, isLast: this.#isEnding, encapsulated, headers });
    this.#peer.write(Buffer.from(head, 'latin1'));
  }

  #answered(): void {
    const isCut = this.#exchange?.isOver === false;
    this.#exchange?.scan?.letGo();
    this.#exchange = null;
    this.#giveSectionsBack();
    if (this.#isEnding) this.#end(isCut ? DRAIN_MS : ICAP_CLOSE_MS);
    else {
      this.#timer.start(ICAP_IDLE_MS);
      this.#pump();
    }
  }

  #end(drainMs = ICAP_CLOSE_MS): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#parser.stop();
    this.#peer.end();
    this.#intake.drop();
    this.#timer.start(drainMs);
  }

  onDue(): void {
    const exchange = this.#exchange;
    if (this.#isEnded || this.#body !== null || this.#peer.unsentBytes > ICAP_UNREAD_BYTES) this.#peer.destroy();
    else if (exchange !== null) this.#onSlow(exchange);
    else if (this.#parser.isIdle) this.#end();
    else {
      this.#isEnding = true;
      this.#writeHead(408, NO_BODY, []);
      this.#end();
    }
  }

  #onSlow(exchange: Exchange): void {
    const tooSlow = new Failure('uploadTooSlow', `${this.#parts.bodyTimeoutMs} ms`);
    this.#isEnding = true;
    if (exchange.scan !== null && exchange.outcome === null) exchange.scan.refuse(tooSlow);
    else this.#write(exchange, exchange.outcome ?? errorOf(tooSlow, exchange.requestId));
  }
}
