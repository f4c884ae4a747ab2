// A scan whose bytes come over a connection of a protocol of its own, piece by piece: no HTTP, no URL.
import type { Access } from '../admission/access.js';
import { Failure } from '../errors.js';
import { Scan } from './scan.js';

/** Whose scans they are, where a protocol has no keys. */
export interface StreamAccount {
  /** Takes a unit. Throws a Failure. */
  admit(): Promise<Access>;
  /**
   * Why no scan is begun, since too many of the account wait: that takes no unit, and has no row; null: one may be. `bytesMost`: of its content, as far as that is known. Where a protocol doesn't
   * say it, a content over 1 MB may be refused for which there was room.
   */
  refusal(bytesMost: number): Failure | null;
}

/** The connection, or the file, that the bytes come from. */
export interface Stream<One> {
  /** Nothing more is handed on, on our time. */
  hold(scan: One): void;
  goOn(scan: One): void;
}

/** What is read piece by piece waits in here while there is no room. */
export class HeldReading implements Stream<unknown> {
  #isHeld: boolean;
  #goOn: () => void = () => undefined;

  constructor(isHeld: boolean) {
    this.#isHeld = isHeld;
  }

  hold(): void {
    this.#isHeld = true;
  }

  goOn(): void {
    this.#isHeld = false;
    this.#goOn();
  }

  /** Resolves at once where it isn't held. */
  async untilRoom(): Promise<void> {
    if (this.#isHeld) await new Promise<void>((resolve) => (this.#goOn = resolve));
  }
}

export abstract class StreamScan extends Scan {
  /** Called with this scan alone. */
  protected abstract readonly stream: Stream<this>;

  /** Begins when a unit of the account was taken. Without one it is answered at once, and has no row. */
  async admitBy(admit: () => Promise<Access>): Promise<void> {
    try {
      const access = await admit();
      if (access.outcome === 'admitted') this.onAdmission(access);
      else this.#turnAway(new Failure(access.outcome === 'exhausted' ? 'quotaExhausted' : access.outcome));
    } catch (error) {
      this.#turnAway(error);
    }
  }

  #turnAway(problem: unknown): void {
    this.drop();
    this.problem = problem;
    this.answer();
  }

  /** The most that room was asked for. Throws Failure: why there is no verdict. */
  protected assertRoom(_totalBytes: number): void {
    // Within the limit, which the content knows.
  }

  chunk(bytes: Uint8Array): void {
    if (this.isDecided || this.received === null) return;
    try {
      const { sizeBytes, asideBytes } = this.received;
      this.assertRoom(sizeBytes + asideBytes + bytes.length);
      this.received.append(bytes);
      this.holdIfFull();
    } catch (error) {
      this.fail(error);
    }
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

  protected endReceiving(): void {
    this.stream.goOn(this);
  }

  protected hold(): void {
    this.stream.hold(this);
  }

  protected goOn(): void {
    this.stream.goOn(this);
  }

  protected watch(): void {
    // The connection hears of its end at any time.
  }

  protected unwatch(): void {
    // The same.
  }

  protected signal(): AbortSignal {
    throw new Error('A stream fetches nothing');
  }
}
