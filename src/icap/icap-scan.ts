// A scan that comes by ICAP: the body of one request in; what is made of it is the connection's.
import { Failure } from '../errors.js';
import type { Content } from '../scan/content.js';
import type { ScanParts } from '../scan/scan.js';
import { type Stream, StreamScan } from '../scan/stream-scan.js';
import { type Outcome, type OutcomeSettings, outcomeOf } from './answers.js';

/** The connection that it comes by. */
export interface ScanOwner extends Stream<IcapScan> {
  answer(scan: IcapScan): void;
  /** It was not admitted. */
  turnedAway(scan: IcapScan, problem: unknown): void;
}

export interface IcapContent {
  readonly requestId: string;
  readonly limitBytes: number;
  /** Null: nobody has said it. */
  readonly declaredBytes: number | null;
  /** Why it is not looked at; null: it is. */
  readonly refusal: Failure | null;
  /** As shown. */
  readonly filename: string;
  /** What the client says of the one whom it asks for; null: nothing. */
  readonly metadata: string | null;
  /** The client may have to have it back. */
  readonly isKept: boolean;
}

export class IcapScan extends StreamScan {
  override readonly protocol = 'icap';
  protected readonly limitBytes: number;
  readonly #declaredBytes: number | null;
  readonly #refusal: Failure | null;
  protected readonly stream: ScanOwner;

  constructor(parts: ScanParts, owner: ScanOwner, content: IcapContent) {
    super(parts, content.requestId);
    this.limitBytes = content.limitBytes;
    this.filename = content.filename;
    this.metadata = content.metadata;
    this.isKept = content.isKept;
    this.#declaredBytes = content.declaredBytes;
    this.#refusal = content.refusal;
    this.stream = owner;
  }

  /** What came of it. */
  outcome(settings: OutcomeSettings): Outcome {
    return outcomeOf(this, settings);
  }

  /** As it was sent, while it is kept. */
  get body(): Content | null {
    return this.received;
  }

  protected receive(): void {
    if (this.#refusal !== null) throw this.#refusal;
    this.openContent(this.#declaredBytes);
    this.stream.goOn(this);
  }

  /** Room was asked for as much as the HTTP headers say. */
  protected override assertRoom(totalBytes: number): void {
    if (totalBytes > (this.#declaredBytes ?? this.limitBytes)) throw this.#tooMuch();
  }

  #tooMuch(): Failure {
    return this.#declaredBytes === null
      ? new Failure('fileTooLarge')
      : new Failure('scanIncomplete', 'the body is longer than its Content-Length');
  }

  protected answer(): void {
    this.stream.answer(this);
  }

  protected override turnedAway(problem: unknown): void {
    this.stream.turnedAway(this, problem);
  }
}
