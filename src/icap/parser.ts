// The bytes of one connection as ICAP requests (RFC 3507): heads, and bodies in chunks. It is pure, and takes any split of the bytes.
import {
  ICAP_CHUNK_LINE_BYTES,
  ICAP_HEADER_BYTES,
  ICAP_HEADER_LINES,
  ICAP_SECTION_BYTES,
  ICAP_TRAILER_BYTES,
} from '../limits.js';
import { completeHead, type HeadStart, type IcapHead, IcapProblem, parseHead } from './request.js';

/** Who hears what the bytes say. */
export interface ParserTarget {
  /** So many bytes of encapsulated headers begin to come. Throws IcapProblem: there is no room for them. */
  onSections(bytes: number): void;
  onHead(head: IcapHead): void;
  /** A chunk of the body begins, of so many bytes, at least one. */
  onChunk(sizeBytes: number): void;
  /** The caller's memory, ours only until this returns. */
  onBodyBytes(bytes: Buffer): void;
  /** The preview is over, and the body is not. Returns whether the rest is wanted; without it the next request follows. */
  onPreviewEnd(): boolean;
  onBodyEnd(): void;
  /** Nothing more is taken. */
  onProblem(problem: IcapProblem): void;
}

type State = 'head' | 'sections' | 'size' | 'data' | 'dataEnd' | 'trailers' | 'over';

const LF = 0x0a;
const CR = 0x0d;
/** Up to 4 GB in one chunk: what a body may have is not the parser's. */
const SIZE_LINE = /^([0-9a-fA-F]{1,8})[ \t]*(;.*)?$/;
const IEOF = /;[ \t]*ieof[ \t]*(?:;|$)/i;

export class IcapParser {
  /** Nothing more is taken until it is false again. */
  isHeld = false;
  readonly #target: ParserTarget;
  #state: State = 'head';
  /** Of the line that isn't whole. An idle connection has none. */
  #line: Buffer = NOTHING;
  #lines: string[] = [];
  /** Of the head, or of the trailers, so far. */
  #blockBytes = 0;
  #start: HeadStart | null = null;
  #sections: Buffer = NOTHING;
  #sectionBytes = 0;
  /** Of the chunk. */
  #leftBytes = 0;
  #isInPreview = false;
  #isWhole = false;

  constructor(target: ParserTarget) {
    this.#target = target;
  }

  /** Nothing of a request has come. */
  get isIdle(): boolean {
    return this.#state === 'head' && this.#blockBytes === 0;
  }

  /** Returns how many bytes were taken: fewer than there are when it is held. */
  write(bytes: Buffer): number {
    let at = 0;
    try {
      while (at < bytes.length && !this.isHeld) at += this.#take(bytes.subarray(at));
      return at;
    } catch (error) {
      if (!(error instanceof IcapProblem)) throw error;
      this.stop();
      this.#target.onProblem(error);
      return bytes.length;
    }
  }

  /** What comes from now on is dropped. */
  stop(): void {
    this.#state = 'over';
    this.#sections = NOTHING;
  }

  #take(bytes: Buffer): number {
    switch (this.#state) {
      case 'head':
        return this.#takeLine(bytes, ICAP_HEADER_BYTES - this.#blockBytes, 431);
      case 'sections':
        return this.#takeSections(bytes);
      case 'size':
      case 'dataEnd':
        return this.#takeLine(bytes, ICAP_CHUNK_LINE_BYTES, 400);
      case 'trailers':
        return this.#takeLine(bytes, ICAP_TRAILER_BYTES - this.#blockBytes, 400);
      case 'data':
        return this.#takeData(bytes);
      case 'over':
        return bytes.length;
    }
  }

  // Lines.

  #takeLine(bytes: Buffer, mostBytes: number, status: number): number {
    const end = bytes.indexOf(LF);
    const part = end === -1 ? bytes : bytes.subarray(0, end + 1);
    if (this.#line.length + part.length > mostBytes)
      throw new IcapProblem(status, 'a line or header block is too long');
    this.#line = Buffer.concat([this.#line, part]);
    if (end !== -1) this.#endLine();
    else if (this.#state === 'head') this.#blockBytes = Math.max(1, this.#blockBytes);
    return part.length;
  }

  #endLine(): void {
    const end = this.#line.length - 2;
    if (end < 0 || this.#line[end] !== CR) throw new IcapProblem(400, 'a line has no CR before its LF');
    const text = this.#line.toString('latin1', 0, end);
    this.#blockBytes += this.#line.length;
    this.#line = NOTHING;
    switch (this.#state) {
      case 'head':
        this.#onHeadLine(text);
        break;
      case 'size':
        this.#onSize(text);
        break;
      case 'dataEnd':
        if (text !== '') throw new IcapProblem(400, 'a chunk is longer than its size');
        this.#state = 'size';
        break;
      default:
        if (text === '') this.#onBodyOver();
    }
  }

  // Heads.

  #onHeadLine(text: string): void {
    if (text !== '') {
      if (this.#lines.length === ICAP_HEADER_LINES) throw new IcapProblem(431, 'too many headers');
      this.#lines.push(text);
      return;
    }
    // Some clients end a body with a line too many.
    if (this.#lines.length === 0) return;
    const start = parseHead(this.#lines);
    this.#lines = [];
    if (start.sectionBytes > ICAP_SECTION_BYTES) throw new IcapProblem(431, 'the encapsulated headers are too long');
    this.#start = start;
    this.#sections = NOTHING;
    this.#sectionBytes = 0;
    if (start.sectionBytes === 0) this.#onHead(start);
    else this.#state = 'sections';
  }

  /** Their memory is taken when they begin to come. */
  #takeSections(bytes: Buffer): number {
    const start = this.#start;
    if (start === null) throw new Error('Sections without a head');
    if (this.#sectionBytes === 0) {
      this.#target.onSections(start.sectionBytes);
      this.#sections = Buffer.alloc(start.sectionBytes);
    }
    const part = bytes.subarray(0, start.sectionBytes - this.#sectionBytes);
    this.#sections.set(part, this.#sectionBytes);
    this.#sectionBytes += part.length;
    if (this.#sectionBytes === start.sectionBytes) this.#onHead(start);
    return part.length;
  }

  #onHead(start: HeadStart): void {
    const head = completeHead(start, this.#sections);
    this.#start = null;
    this.#sections = NOTHING;
    this.#blockBytes = 0;
    this.#isInPreview = head.previewBytes !== null;
    this.#state = head.body === null ? 'head' : 'size';
    this.#target.onHead(head);
  }

  // Bodies.

  #onSize(text: string): void {
    const [, digits, extension = ''] = SIZE_LINE.exec(text) ?? [];
    if (digits === undefined) throw new IcapProblem(400, 'malformed chunk size');
    const size = Number.parseInt(digits, 16);
    this.#blockBytes = 0;
    if (size === 0) {
      this.#isWhole = !this.#isInPreview || IEOF.test(extension);
      this.#state = 'trailers';
      return;
    }
    this.#leftBytes = size;
    this.#state = 'data';
    this.#target.onChunk(size);
  }

  #takeData(bytes: Buffer): number {
    const part = bytes.subarray(0, this.#leftBytes);
    this.#leftBytes -= part.length;
    if (this.#leftBytes === 0) this.#state = 'dataEnd';
    this.#target.onBodyBytes(part);
    return part.length;
  }

  /** Trailers are read and dropped. */
  #onBodyOver(): void {
    this.#blockBytes = 0;
    this.#isInPreview = false;
    this.#state = 'head';
    if (this.#isWhole) this.#target.onBodyEnd();
    else if (this.#target.onPreviewEnd()) this.#state = 'size';
  }
}

const NOTHING = Buffer.alloc(0);
