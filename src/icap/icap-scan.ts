// A scan that comes by ICAP: the body of one request in; what is made of it is the connection's.
import { Failure } from '../errors.js';
import { Scan, type ScanParts } from '../scan/scan.js';

/** The connection that it comes by. */
export interface ScanOwner {
  /** Keeps the client waiting, on our time. */
  hold(scan: IcapScan): void;
  goOn(scan: IcapScan): void;
  answer(scan: IcapScan): void;
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
  /** The client may have to have it back. */
  readonly isKept: boolean;
}

export class IcapScan extends Scan {
  protected readonly limitBytes: number;
  readonly #declaredBytes: number | null;
  readonly #refusal: Failure | null;
  readonly #owner: ScanOwner;

  constructor(parts: ScanParts, owner: ScanOwner, content: IcapContent) {
    super(parts, content.requestId);
    this.limitBytes = content.limitBytes;
    this.filename = content.filename;
    this.isKept = content.isKept;
    this.#declaredBytes = content.declaredBytes;
    this.#refusal = content.refusal;
    this.#owner = owner;
  }

  override get protocol(): 'icap' {
    return 'icap';
  }

  protected receive(): void {
    if (this.#refusal !== null) throw this.#refusal;
    this.openContent(this.#declaredBytes ?? this.limitBytes);
    this.#owner.goOn(this);
  }

  protected endReceiving(): void {
    this.#owner.goOn(this);
  }

  chunk(bytes: Uint8Array): void {
    if (this.isDecided || this.received === null) return;
    try {
      const { sizeBytes, asideBytes } = this.received;
      // Room was asked for as much as the HTTP headers say.
      if (sizeBytes + asideBytes + bytes.length > (this.#declaredBytes ?? this.limitBytes)) throw this.#tooMuch();
      this.received.append(bytes);
      this.holdIfFull();
    } catch (error) {
      this.fail(error);
    }
  }

  #tooMuch(): Failure {
    return this.#declaredBytes === null
      ? new Failure('fileTooLarge')
      : new Failure('scanIncomplete', 'the body is longer than its Content-Length');
  }

  end(): void {
    if (this.isDecided) return;
    try {
      this.endOfContent();
    } catch (error) {
      this.fail(error);
    }
  }

  /** It doesn't come to its end by itself. */
  refuse(reason: unknown): void {
    this.fail(reason);
  }

  protected hold(): void {
    this.#owner.hold(this);
  }

  protected goOn(): void {
    this.#owner.goOn(this);
  }

  protected watch(): void {
    // The connection hears of its end at any time.
  }

  protected unwatch(): void {
    // The same.
  }

  protected signal(): AbortSignal {
    throw new Error('A body fetches nothing');
  }

  protected answer(): void {
    this.#owner.answer(this);
  }
}
