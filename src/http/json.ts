// JSON in and out: bodies bounded and validated by a schema, query strings likewise, and answers.
import { isUtf8 } from 'node:buffer';
import type { z } from 'zod';
import { Failure } from '../errors.js';
import { JSON_BODY_BYTES, JSON_BODY_MS } from '../limits.js';
import { createClock } from '../waiting/within.js';
import { bodiesFull, type Exchange } from './exchange.js';
import type { Reply } from './wire.js';

export function jsonReply(status: number, value: unknown, headers: NonNullable<Reply['headers']> = {}): Reply {
  return { status, headers, body: JSON.stringify(value) };
}

export const noContent: Reply = { status: 204, body: '' };

/**
 * Receives a JSON body and validates it. Throws Failure `jsonExpected`, `bodyTooLarge`, `uploadTooSlow`, `unavailable`, or
 * `badRequest` that names the field; rejects with the signal's reason when the client goes away.
 */
export async function readJson<T>(exchange: Exchange, schema: z.ZodType<T>): Promise<T> {
  const type = exchange.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase();
  if (type !== 'application/json') throw new Failure('jsonExpected');
  return parseJson(schema, utf8Of(await receiveBytes(exchange, JSON_BODY_BYTES)));
}

/** The same for a body that may be left out: then the schema validates `{}`. */
export async function readOptionalJson<T>(exchange: Exchange, schema: z.ZodType<T>): Promise<T> {
  if (exchange.body.kind === 'none') return validate(schema, {});
  return await readJson(exchange, schema);
}

/** Validates the query string; a parameter that comes twice is refused. Throws Failure `badRequest`. */
export function readQuery<T>(exchange: Exchange, schema: z.ZodType<T>): T {
  // Without a prototype: `__proto__` is a name as any other.
  const query: Record<string, string> = Object.create(null);
  for (const [name, value] of new URLSearchParams(exchange.query)) {
    if (Object.hasOwn(query, name)) throw new Failure('badRequest', `${name}: given twice`);
    query[name] = value;
  }
  return validate(schema, query);
}

/** Of a body that is a text already. Throws Failure `badRequest`. */
export const parseJson = <T>(schema: z.ZodType<T>, text: string): T => validate(schema, parse(text));

function validate<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = parseFields(schema, value);
  if (parsed.success) return parsed.data;
  // Of each field the first one: further checks look at what it should have been.
  const problems = new Map<string, string>();
  // What every integer must keep to comes before the bound that this one has.
  const rough = new Set<string>();
  for (const { path, message, ...issue } of parsed.error.issues) {
    const place = path.map(String).join('.');
    if (problems.has(place) && !rough.delete(place)) continue;
    if ('origin' in issue && issue.origin === 'int') rough.add(place);
    const subject = issue.code === 'invalid_type' ? 'The body ' : '';
    problems.set(place, place === '' ? `${subject}${message}` : `${place}: ${message}`);
  }
  throw new Failure('badRequest', [...problems.values()].join('; '));
}

function parse(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Failure('badRequest', 'The body is not valid JSON');
  }
  // The parser takes the last one of two fields with one name, others take the first.
  const name = repeatedName(text);
  if (name !== null) throw new Failure('badRequest', `${name}: given twice`);
  return value;
}

/** The first name that an object of JSON, which has been parsed, has for the second time. */
function repeatedName(json: string): string | null {
  const open: Set<string>[] = [];
  for (let at = 0; at < json.length; at += 1) {
    if (json[at] === '{') open.push(new Set());
    else if (json[at] === '}') open.pop();
    if (json[at] !== '"') continue;
    const start = at;
    at = endOfText(json, at);
    let next = at + 1;
    while (BLANKS.has(json[next])) next += 1;
    if (json[next] !== ':') continue;
    const name = String(JSON.parse(json.slice(start, at + 1)));
    const names = open.at(-1);
    if (names?.has(name)) return name;
    names?.add(name);
  }
  return null;
}

const BLANKS: ReadonlySet<string | undefined> = new Set([' ', '\t', '\r', '\n']);

/** Where the quote is that ends the text which begins with one here. */
function endOfText(json: string, start: number): number {
  let at = start + 1;
  while (at < json.length && json[at] !== '"') at += json[at] === '\\' ? 2 : 1;
  return at;
}

/** With U+FFFD in the place of its bytes it would be another text. Throws Failure `badRequest`. */
export function utf8Of(body: Buffer): string {
  if (!isUtf8(body)) throw new Failure('badRequest', 'The body is not UTF-8');
  return body.toString('utf8');
}

/** The body exactly as it was sent, within the limit. Throws what readJson throws of a body that doesn't arrive. */
export async function receiveBytes(exchange: Exchange, limitBytes: number): Promise<Buffer> {
  const tooLarge = new Failure('bodyTooLarge', `${limitBytes / 1024} KB`);
  if (exchange.body.kind === 'sized' && exchange.body.bytes > limitBytes) throw tooLarge;
  return await new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    let settled = false;
    const settle = (act: () => void): void => {
      if (settled) return;
      settled = true;
      clock.stop();
      act();
    };
    const clock = createClock(JSON_BODY_MS, () => {
      settle(() => reject(new Failure('uploadTooSlow', `${JSON_BODY_MS} ms`)));
    });
    clock.start();
    exchange.receive({
      onLost: (reason) => settle(() => reject(reason)),
      take(chunk, isLast) {
        if (settled) return;
        bytes += chunk.length;
        if (bytes > limitBytes) settle(() => reject(tooLarge));
        else if (chunk.length === 0 || exchange.hold(chunk.length)) chunks.push(Buffer.from(chunk));
        else settle(() => reject(bodiesFull()));
        if (isLast) settle(() => resolve(Buffer.concat(chunks)));
      },
    });
  });
}

/** What is wrong is said in words of our own, where the schema has none: a validator's are for developers, and change with its version. */
function parseFields<T>(schema: z.ZodType<T>, value: unknown): z.ZodSafeParseResult<T> {
  const parsed = schema.safeParse(value, { error: wordsFor });
  if (parsed.success || typeof value !== 'object' || value === null || Array.isArray(value)) return parsed;
  // A field that nobody knows stays, to be named in the answer.
  const unknown = new Set(
    parsed.error.issues.flatMap((issue) => (issue.code === 'unrecognized_keys' ? issue.keys : [])),
  );
  const present = Object.entries(value).filter(([name, field]) => field !== null || unknown.has(name));
  return schema.safeParse(Object.fromEntries(present), { error: wordsFor });
}

export function wordsFor(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is missing' : `must be ${KINDS[issue.expected] ?? 'of another kind'}`;
    case 'too_big':
      return `must be at most ${issue.maximum}${unitOf(issue.origin)}`;
    case 'too_small':
      return `must be at least ${issue.minimum}${unitOf(issue.origin)}`;
    case 'invalid_value':
      return `must be one of ${issue.values.map(String).join(', ')}`;
    case 'unrecognized_keys':
      return `unknown: ${issue.keys.join(', ')}`;
    default:
      return 'is not valid';
  }
}

const KINDS: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'an integer',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
};

function unitOf(origin: string): string {
  if (origin === 'string') return ' characters long';
  return origin === 'array' ? ' entries long' : '';
}
