// The head of an ICAP request (RFC 3507): its line, its headers, and where the encapsulated sections lie. It is pure.
import { isIP } from 'node:net';

type Method = 'OPTIONS' | 'REQMOD' | 'RESPMOD';
type BodyName = 'req-body' | 'res-body' | 'opt-body';

type SectionName = 'req-hdr' | 'res-hdr' | BodyName | 'null-body';

interface Section {
  readonly name: SectionName;
  readonly offset: number;
}

/** What is known before the encapsulated headers have come. */
export interface HeadStart {
  readonly method: Method;
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
const METHODS: ReadonlySet<string> = new Set<Method>(['OPTIONS', 'REQMOD', 'RESPMOD']);
/** Two of them would be two readings of one request. */
const ONCE: ReadonlySet<string> = new Set(['encapsulated', 'preview']);
const SECTION = /^(req-hdr|res-hdr|req-body|res-body|opt-body|null-body)=(\d{1,7})$/;
/** What each method may have, in this order: the last one always, those before it or not. */
const ORDERS: Readonly<Record<Method, readonly (readonly SectionName[])[]>> = {
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
export function parseHead(lines: readonly string[]): HeadStart {
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
export function completeHead(start: HeadStart, encapsulated: Buffer): IcapHead {
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

function isMethod(text: string): text is Method {
  return METHODS.has(text);
}

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

function parseSections(text: string | null, method: Method): Section[] {
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

function isSectionName(text: string): text is SectionName {
  return SECTION.test(`${text}=0`);
}

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
