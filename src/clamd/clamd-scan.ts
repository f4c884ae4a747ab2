// Scans that come by clamd's protocol: the chunks of a stream, or of a file that is read from its first byte to its last one, whatever its offset was; one line out.

import { v7 as uuidv7 } from 'uuid';
import { codeOf } from '../error-text.js';
import { Failure } from '../errors.js';
import { shownPath } from '../filename.js';
import type { ScanParts } from '../scan/scan.js';
import { type Stream, type StreamAccount, StreamScan } from '../scan/stream-scan.js';
import { within } from '../waiting/within.js';
import type { FolderFiles } from './open-below.js';

/** Where its bytes come from, and its answer goes. */
export interface ScanOwner extends Stream<ClamdScan> {
  answer(scan: ClamdScan, text: string): void;
  onSurprise(scan: ClamdScan, error: unknown): void;
}

/** As clamd calls what has no name. */
export const STREAM = 'stream';

interface ClamdScanFacts {
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
    this.filename = shownPath(Buffer.from(name, 'latin1').toString('utf8'));
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

const READ_BYTES = 256 * 1024;

export interface FileScanParts {
  readonly scans: ScanParts;
  /** Whose account the scans are of. */
  readonly account: StreamAccount;
  readonly streamLimitBytes: number;
  /** For one read: a share of the network may hang. */
  readonly streamTimeoutMs: number;
  readonly onSurprise: (requestId: string, error: unknown) => void;
}

export interface FileAnswer {
  readonly kind: 'clean' | 'found' | 'failed';
  readonly text: string;
}

export class FileScan implements ScanOwner {
  readonly #parts: FileScanParts;
  readonly #files: FolderFiles;
  readonly #name: string;
  readonly #descriptor: number;
  readonly #scan: ClamdScan;
  readonly #answered: Promise<string>;
  #answer: (text: string) => void = () => undefined;
  /** Until it is admitted, and while there is no room. */
  #isHeld = true;
  #wake: (() => void) | null = null;

  /** `name`: in Latin-1, byte by byte. The descriptor stays the caller's. */
  constructor(parts: FileScanParts, files: FolderFiles, name: string, descriptor: number) {
    this.#parts = parts;
    this.#files = files;
    this.#name = name;
    this.#descriptor = descriptor;
    const facts = { requestId: uuidv7(), limitBytes: parts.streamLimitBytes, name, label: '', delimiter: '' };
    this.#scan = new ClamdScan(parts.scans, this, facts);
    this.#answered = new Promise((resolve) => {
      this.#answer = resolve;
    });
  }

  /** Resolves with its line. An empty file is no scan, as an empty stream is none. */
  async run(): Promise<FileAnswer> {
    const buffer = Buffer.allocUnsafe(READ_BYTES);
    let count: number;
    try {
      const file = await this.#files.stat(this.#descriptor);
      if (!file.isFile()) return this.#failed('Not a regular file');
      const refusal = file.size === 0 ? null : this.#parts.account.refusal(file.size);
      if (refusal !== null) return this.#failed(refusal.message);
      count = await this.#read(buffer, 0);
    } catch (error) {
      return this.#failed(`File can't be read: ${codeOf(error) ?? 'timeout'}`);
    }
    if (count === 0) return { kind: 'clean', text: `${this.#name}: OK` };
    void this.#scan.admitBy(this.#parts.account.admit);
    await this.#handOn(buffer, count);
    const text = await this.#answered;
    if (this.#scan.hasFound) return { kind: 'found', text };
    return { kind: text.endsWith(': OK') ? 'clean' : 'failed', text };
  }

  onGone(reason: Error): void {
    this.#scan.onGone(reason);
    this.goOn();
    // Nobody hears an answer, and the scan has none.
    this.#answer('');
  }

  async #handOn(buffer: Buffer, first: number): Promise<void> {
    let position = 0;
    for (let count = first; count > 0; ) {
      if (this.#isHeld) await this.#whenFree();
      if (this.#scan.isDecided) return;
      position += count;
      if (position > this.#parts.streamLimitBytes) {
        this.#scan.refuse(new Failure('scanIncomplete', 'file is over STREAM_MAX_MB'));
        return;
      }
      this.#scan.chunk(buffer.subarray(0, count));
      try {
        count = await this.#read(buffer, position);
      } catch (error) {
        this.#scan.refuse(new Failure('scanIncomplete', `file can't be read: ${codeOf(error) ?? 'timeout'}`));
        return;
      }
    }
    this.#scan.end();
  }

  async #read(buffer: Buffer, position: number): Promise<number> {
    return await within(this.#files.read(this.#descriptor, buffer, position), this.#parts.streamTimeoutMs);
  }

  #whenFree(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #failed(reason: string): FileAnswer {
    return { kind: 'failed', text: `${this.#name}: ${reason} ERROR` };
  }

  hold(): void {
    this.#isHeld = true;
  }

  goOn(): void {
    this.#isHeld = false;
    this.#wake?.();
    this.#wake = null;
  }

  answer(_scan: ClamdScan, text: string): void {
    this.#answer(text);
    this.goOn();
  }

  onSurprise(scan: ClamdScan, error: unknown): void {
    this.#parts.onSurprise(scan.requestId, error);
  }
}
