// The bytes of one connection as ICAP requests (RFC 3507): heads, with where the encapsulated sections lie, and bodies in chunks. It is pure, and takes any split of the
// bytes.
import { isIP } from 'node:net';
import {
  ICAP_CHUNK_LINE_BYTES,
  ICAP_HEADER_BYTES,
  ICAP_HEADER_LINES,
  ICAP_SECTION_BYTES,
  ICAP_TRAILER_BYTES,
  PARSED_AT_ONCE,
} from '../limits.js';

type IcapMethod = 'OPTIONS' | 'REQMOD' | 'RESPMOD';
type BodyName = 'req-body' | 'res-body' | 'opt-body';

type SectionName = 'req-hdr' | 'res-hdr' | BodyName | 'null-body';

interface Section {
  readonly name: SectionName;
  readonly offset: number;
}

/** What is known before the encapsulated headers have come. */
export interface HeadStart {
  readonly method: IcapMethod;
  /** Names in lower case; what came several times is joined by a comma. */
  readonly headers: ReadonlyMap<string, string>;
  readonly sections: readonly Section[];
  /** Of the encapsulated headers together. */
  readonly sectionBytes: number;
}

/** The whole request but its body. */
export interface IcapHead extends HeadStart {
  /** Headers of the HTTP request, with the empty line behind them; null: they are not there. */
  readonly requestHeader: Buffer | null;
  readonly responseHeader: Buffer | null;
  /** Null: there is no body. */
  readonly body: BodyName | null;
  /** Null: nothing is waited for. */
  readonly previewBytes: number | null;
  /** A 204 may be answered without a preview as well. */
  readonly allows204: boolean;
  /** The client ends the connection after the answer. */
  readonly isLast: boolean;
}

/** Why a request can't be read: the connection is of no use after it. */
export class IcapProblem extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.name = 'IcapProblem';
    this.status = status;
  }
}

const REQUEST_LINE = /^([A-Z]+) [!-~]+ ICAP\/(\d)\.(\d)$/;
const HEADER = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([\t -~\x80-\xff]*)$/;
const METHODS: ReadonlySet<string> = new Set<IcapMethod>(['OPTIONS', 'REQMOD', 'RESPMOD']);
/** Two of them would be two readings of one request. */
const ONCE: ReadonlySet<string> = new Set(['encapsulated', 'preview']);
const SECTION = /^(req-hdr|res-hdr|req-body|res-body|opt-body|null-body)=(\d{1,7})$/;
/** What each method may have, in this order: the last one always, those before it or not. */
const ORDERS: Readonly<Record<IcapMethod, readonly (readonly SectionName[])[]>> = {
  OPTIONS: [['opt-body'], ['null-body']],
  REQMOD: [
    ['req-hdr', 'req-body'],
    ['req-hdr', 'null-body'],
  ],
  RESPMOD: [
    ['req-hdr', 'res-hdr', 'res-body'],
    ['req-hdr', 'res-hdr', 'null-body'],
  ],
};
const NUMBER = /^\d{1,9}$/;

/** `lines`: Latin-1, without their ends and without the empty one. Throws IcapProblem. */
function parseHead(lines: readonly string[]): HeadStart {
  const [line = '', ...rest] = lines;
  const match = REQUEST_LINE.exec(line);
  if (match === null) throw new IcapProblem(400, 'malformed request line');
  const [, method = '', major, minor] = match;
  if (major !== '1' || minor !== '0') throw new IcapProblem(505, 'ICAP/1.0 is spoken here');
  if (!isMethod(method)) throw new IcapProblem(501, 'the methods are OPTIONS, REQMOD and RESPMOD');
  const headers = parseHeaders(rest);
  const sections = parseSections(headers.get('encapsulated') ?? null, method);
  return { method, headers, sections, sectionBytes: sections.at(-1)?.offset ?? 0 };
}

/** `encapsulated`: the bytes of the sections. Throws IcapProblem. */
function completeHead(start: HeadStart, encapsulated: Buffer): IcapHead {
  const { headers, sections } = start;
  const headerOf = (name: SectionName): Buffer | null => {
    const index = sections.findIndex((section) => section.name === name);
    const [from, to] = [sections[index], sections[index + 1]];
    if (from === undefined || to === undefined) return null;
    const bytes = encapsulated.subarray(from.offset, to.offset);
    if (!bytes.subarray(-4).equals(HEADER_END)) throw new IcapProblem(400, `${name} has no end`);
    return bytes;
  };
  const last = sections.at(-1)?.name ?? 'null-body';
  return {
    ...start,
    requestHeader: headerOf('req-hdr'),
    responseHeader: headerOf('res-hdr'),
    body: last === 'null-body' || last === 'req-hdr' || last === 'res-hdr' ? null : last,
    previewBytes: previewOf(headers.get('preview') ?? null),
    allows204: listed(headers.get('allow') ?? null, '204'),
    isLast: listed(headers.get('connection') ?? null, 'close'),
  };
}

const HEADER_END = Buffer.from('\r\n\r\n');

const isMethod = (text: string): text is IcapMethod => METHODS.has(text);

function parseHeaders(lines: readonly string[]): Map<string, string> {
  const headers = new Map<string, string>();
  for (const line of lines) {
    // A line that is folded is refused as well: nobody sends one, and readers differ about it.
    const [, sentName, sentValue] = HEADER.exec(line) ?? [];
    if (sentName === undefined || sentValue === undefined) throw new IcapProblem(400, 'malformed header');
    const name = sentName.toLowerCase();
    const value = sentValue.trim();
    const before = headers.get(name);
    if (before !== undefined && ONCE.has(name)) throw new IcapProblem(400, `two ${name} headers`);
    headers.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return headers;
}

function parseSections(text: string | null, method: IcapMethod): Section[] {
  if (text === null) {
    if (method === 'OPTIONS') return [];
    throw new IcapProblem(400, 'no Encapsulated header');
  }
  const sections = text.split(',').map(parseSection);
  const isInOrder = ORDERS[method].some((order) => follows(sections, order));
  if (!isInOrder) throw new IcapProblem(400, 'the sections of Encapsulated are not those of the method');
  let before = -1;
  for (const { offset } of sections) {
    if (before === -1 ? offset !== 0 : offset <= before) throw new IcapProblem(400, 'wrong offsets in Encapsulated');
    before = offset;
  }
  return sections;
}

function parseSection(text: string): Section {
  const [, name, offset] = SECTION.exec(text.trim()) ?? [];
  if (name === undefined || !isSectionName(name)) throw new IcapProblem(400, 'malformed Encapsulated header');
  return { name, offset: Number(offset) };
}

const isSectionName = (text: string): text is SectionName => SECTION.test(`${text}=0`);

function follows(sections: readonly Section[], order: readonly SectionName[]): boolean {
  if (sections.at(-1)?.name !== order.at(-1)) return false;
  let at = -1;
  return sections.every(({ name }) => {
    const next = order.indexOf(name);
    const isNext = next > at;
    at = next;
    return isNext;
  });
}

function previewOf(text: string | null): number | null {
  if (text === null) return null;
  if (!NUMBER.test(text)) throw new IcapProblem(400, 'malformed Preview header');
  return Number(text);
}

function listed(text: string | null, word: string): boolean {
  return text?.split(',').some((each) => each.trim().toLowerCase() === word) ?? false;
}

/** Characters of a name that anybody may have chosen. */
const USER_CHARACTERS = 200;
/** draft-stecher-icap-subid: a scheme and a path behind it, in Base64. */
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
const NAMED = /^[A-Za-z][A-Za-z0-9+.-]*:\/\//;

/** `{"clientIp":"192.0.2.1","user":"Local://anna"}`; null: the client says neither. */
export function clientFacts(headers: ReadonlyMap<string, string>): string | null {
  const address = headers.get('x-client-ip') ?? '';
  const user = userOf(headers.get('x-authenticated-user') ?? '');
  const facts = { ...(isIP(address) === 0 ? {} : { clientIp: address }), ...(user === '' ? {} : { user }) };
  return Object.keys(facts).length === 0 ? null : JSON.stringify(facts);
}

/** Squid sends the bare name unless it is told to encode it, others send the draft's form. */
function userOf(sent: string): string {
  const decoded = BASE64.test(sent) ? Buffer.from(sent, 'base64').toString('utf8') : '';
  const name = NAMED.test(decoded) ? decoded : Buffer.from(sent, 'latin1').toString('utf8');
  return [...name.replace(/\p{Cc}/gu, '')].slice(0, USER_CHARACTERS).join('');
}

/** Who hears what the bytes say. */
export interface IcapParserTarget {
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

type IcapState = 'head' | 'sections' | 'size' | 'data' | 'dataEnd' | 'trailers' | 'over';

const LF = 0x0a;
const CR = 0x0d;
/** Up to 4 GB in one chunk: what a body may have is not the parser's. */
const SIZE_LINE = /^([0-9a-fA-F]{1,8})[ \t]*(;.*)?$/;
const IEOF = /;[ \t]*ieof[ \t]*(?:;|$)/i;

export class IcapParser {
  /** Nothing more is taken until it is false again. */
  isHeld = false;
  readonly #target: IcapParserTarget;
  #state: IcapState = 'head';
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

  constructor(target: IcapParserTarget) {
    this.#target = target;
  }

  /** Nothing of a request has come. */
  get isIdle(): boolean {
    return this.#state === 'head' && this.#blockBytes === 0;
  }

  /** Returns how many bytes were taken: fewer than there are when it is held, or has taken PARSED_AT_ONCE things. */
  write(bytes: Buffer): number {
    let at = 0;
    try {
      for (let count = 0; at < bytes.length && !this.isHeld && count < PARSED_AT_ONCE; count += 1) {
        at += this.#take(bytes.subarray(at));
      }
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
    const line = this.#line.length === 0 && end !== -1 ? part : Buffer.concat([this.#line, part]);
    if (end !== -1) this.#endLine(line);
    else {
      this.#line = line;
      if (this.#state === 'head') this.#blockBytes = Math.max(1, this.#blockBytes);
    }
    return part.length;
  }

  #endLine(line: Buffer): void {
    const end = line.length - 2;
    if (end < 0 || line[end] !== CR) throw new IcapProblem(400, 'a line has no CR before its LF');
    const text = line.toString('latin1', 0, end);
    this.#blockBytes += line.length;
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
