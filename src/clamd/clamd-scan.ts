// A scan that comes by clamd's protocol: the chunks of a stream or of a file in, one line out.
import { Failure } from '../errors.js';
import type { ScanParts } from '../scan/scan.js';
import { type Stream, StreamScan } from '../scan/stream-scan.js';

/** Where its bytes come from, and its answer goes. */
export interface ScanOwner extends Stream<ClamdScan> {
  answer(scan: ClamdScan, text: string): void;
  onSurprise(scan: ClamdScan, error: unknown): void;
}

/** As clamd calls what has no name. */
export const STREAM = 'stream';

export interface ClamdScanFacts {
  readonly requestId: string;
  readonly limitBytes: number;
  /** As its answer calls the content, in Latin-1. */
  readonly name: string;
  /** In front of the answer: the number of the command in its session, or nothing. */
  readonly label: string;
  readonly delimiter: string;
}

export class ClamdScan extends StreamScan {
  override readonly protocol = 'clamd';
  protected readonly limitBytes: number;
  readonly name: string;
  readonly label: string;
  readonly delimiter: string;
  protected readonly stream: ScanOwner;

  constructor(parts: ScanParts, owner: ScanOwner, { requestId, limitBytes, name, label, delimiter }: ClamdScanFacts) {
    super(parts, requestId);
    this.limitBytes = limitBytes;
    this.name = name;
    this.label = label;
    this.delimiter = delimiter;
    this.stream = owner;
    this.filename = Buffer.from(name, 'latin1').toString('utf8');
  }

  protected override turnedAway(problem: unknown): void {
    if (!(problem instanceof Failure)) this.stream.onSurprise(this, problem);
    this.stream.answer(this, errorText(this.name, problem, this.requestId));
  }

  protected receive(): void {
    this.openContent(null);
    this.stream.goOn(this);
  }

  get hasFound(): boolean {
    return this.verdict?.kind === 'infected';
  }

  protected answer(): void {
    const { problem, verdict } = this;
    if (verdict === null && !(problem instanceof Failure)) this.stream.onSurprise(this, problem);
    this.stream.answer(this, textOf(this));
  }
}

/** Only what was looked at as a whole and has nothing in it is OK. */
function textOf({ name, verdict, problem, requestId }: ClamdScan): string {
  if (verdict?.kind === 'clean') return `${name}: OK`;
  if (verdict?.kind === 'infected') return `${name}: ${oneLine(verdict.virusName)} FOUND`;
  return errorText(name, problem, requestId);
}

/** `requestId`: what is said of an error that nobody foresaw. */
export function errorText(name: string, problem: unknown, requestId: string): string {
  return `${name}: ${problem instanceof Failure ? oneLine(problem.message) : `Internal error ${requestId}`} ERROR`;
}

/** Its bytes as Latin-1 characters, and none that ends an answer. */
function oneLine(text: string): string {
  return Buffer.from(text.replace(/[\r\n\0]/g, ' '), 'utf8').toString('latin1');
}
