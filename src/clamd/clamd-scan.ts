// A scan that comes by clamd's protocol: the chunks of INSTREAM in, one line out.
import { Failure } from '../errors.js';
import { Scan, type ScanParts } from '../scan/scan.js';

/** The connection that it comes by. */
export interface StreamOwner {
  /** Keeps the client waiting, on our time. */
  hold(scan: ClamdScan): void;
  goOn(scan: ClamdScan): void;
  answer(scan: ClamdScan, text: string): void;
  onSurprise(scan: ClamdScan, error: unknown): void;
}

/** As clamd calls what has no name. */
const STREAM = 'stream';

export class ClamdScan extends Scan {
  protected readonly limitBytes: number;
  /** In front of the answer: the number of the command in its session, or nothing. */
  readonly label: string;
  readonly delimiter: string;
  readonly #owner: StreamOwner;

  constructor(
    parts: ScanParts,
    owner: StreamOwner,
    {
      requestId,
      limitBytes,
      label,
      delimiter,
    }: Record<'requestId' | 'label' | 'delimiter', string> & {
      limitBytes: number;
    },
  ) {
    super(parts, requestId);
    this.limitBytes = limitBytes;
    this.label = label;
    this.delimiter = delimiter;
    this.#owner = owner;
    this.filename = STREAM;
  }

  protected receive(): void {
    this.openContent(this.limitBytes);
    this.#owner.goOn(this);
  }

  protected endReceiving(): void {
    this.#owner.goOn(this);
  }

  chunk(bytes: Uint8Array): void {
    if (this.isDecided || this.received === null) return;
    try {
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
  refuse(reason: Failure): void {
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
    throw new Error('A stream fetches nothing');
  }

  protected answer(): void {
    const { problem, verdict } = this;
    if (verdict === null && !(problem instanceof Failure)) this.#owner.onSurprise(this, problem);
    this.#owner.answer(this, textOf(this));
  }
}

/** Only what was looked at as a whole and has nothing in it is OK. */
function textOf({ verdict, problem, requestId }: Pick<ClamdScan, 'verdict' | 'problem' | 'requestId'>): string {
  if (verdict?.kind === 'clean') return `${STREAM}: OK`;
  if (verdict?.kind === 'infected') return `${STREAM}: ${oneLine(verdict.virusName)} FOUND`;
  return errorText(problem, requestId);
}

/** `requestId`: what is said of an error that nobody foresaw. */
export function errorText(problem: unknown, requestId: string): string {
  return `${STREAM}: ${problem instanceof Failure ? oneLine(problem.message) : `Internal error ${requestId}`} ERROR`;
}

/** Its bytes as Latin-1 characters, and none that ends an answer. */
function oneLine(text: string): string {
  return Buffer.from(text.replace(/[\r\n\0]/g, ' '), 'utf8').toString('latin1');
}
