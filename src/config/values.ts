// The texts that environment variables may have, each read and checked: what is wrong is said without repeating it.
import { isIP } from 'node:net';
import { delimiter, resolve } from 'node:path';
import ipaddr from 'ipaddr.js';
import { z } from 'zod';
import { parseUrl } from '../wire-text.js';
import { readNetwork } from './networks.js';
import { databasePlaceOf, redisProblemOf } from './store-places.js';

export function integer(minimum: number, maximum: number) {
  return z
    .string()
    .regex(/^\d+$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.number().min(minimum, `must be at least ${minimum}`).max(maximum, `must be at most ${maximum}`));
}

const isBare = (text: string): boolean => text === text.trim();
const BARE = 'must not begin or end with a blank';

/** Text that is taken as it is. A blank or the other half of a line's end, as files of variables have them, would be a part of it: another folder, which is empty. */
export const bare = z.string().refine(isBare, BARE);

/** Of a file or a folder. */
export const path = bare.transform((text) => resolve(text));

export const MIB = 1024 * 1024;

/** As bytes. */
export function megabytes(minimum: number, maximum: number) {
  return integer(minimum, maximum).transform((count) => count * MIB);
}

export function integerOrAuto(minimum: number, maximum: number) {
  return z.union([z.literal('auto'), integer(minimum, maximum)], {
    error: `must be auto or a whole number from ${minimum} to ${maximum}`,
  });
}

/** Separated like those of PATH. */
export function folderList(text: string, context: z.RefinementCtx): string[] {
  const folders = text.split(delimiter).filter((entry) => entry !== '');
  if (folders.length === 0) context.addIssue('must name a folder');
  if (!folders.every(isBare)) context.addIssue(BARE);
  return folders.map((folder) => resolve(folder));
}

/** An address, or a name that the system knows one of. */
export const isHost = (text: string): boolean => isIP(text) !== 0 || /^[\w-]+(?:\.[\w-]+)*$/.test(text);

export function urlList(text: string, context: z.RefinementCtx): string[] {
  const urls = text.split(/[\s,]+/).filter((entry) => entry !== '');
  for (const url of urls) {
    if (!/^https?:\/\/[^/]+\/.*[^/]$/.test(url)) context.addIssue('must be http or https URLs of files');
  }
  return urls;
}

export const plans = z.string().transform((text, context) => {
  const result = new Map<string, number>();
  for (const entry of text.split(',')) {
    const match = /^([A-Z][A-Z0-9_]{0,31}):([1-9]\d{0,8})$/.exec(entry.trim());
    const [, name, limit] = match ?? [];
    if (name === undefined || limit === undefined || result.has(name)) {
      context.addIssue(`must look like FREE:50,PRO:1000, each plan once, but has "${entry.trim()}"`);
      return z.NEVER;
    }
    result.set(name, Number(limit));
  }
  return result;
});

/** Plan name to price ids: `PRO:price_1,PRO:price_2,BUSINESS:price_3`. */
export const prices = z.string().transform((text, context) => {
  const result = new Map<string, readonly string[]>();
  const seen = new Set<string>();
  for (const entry of text.split(',')) {
    const [, plan, price] = /^([A-Z][A-Z0-9_]{0,31}):(price_[A-Za-z0-9_]{1,200})$/.exec(entry.trim()) ?? [];
    if (plan === undefined || price === undefined || seen.has(price)) {
      context.addIssue('must look like PRO:price_1,BUSINESS:price_2, each price once');
      return z.NEVER;
    }
    seen.add(price);
    result.set(plan, [...(result.get(plan) ?? []), price]);
  }
  return result;
});

export const databaseUrl = z
  .string()
  .regex(/^postgres(ql)?:\/\//, { error: 'must start with postgres://', abort: true })
  .superRefine((url, context) => {
    const { problem } = databasePlaceOf(url);
    if (problem !== null) context.addIssue(problem);
  });

export const redisUrl = z
  .string()
  .regex(
    /^rediss?(:|\+cluster:)\/\/[^,]+(,\s*rediss?(:|\+cluster:)\/\/[^,]+)*$|^rediss?\+sentinel:\/\/[^/?]+\/[^/?]+(\/\d+)?(\?[^?]+)?$/,
    {
      error:
        'must be redis://... or rediss://..., a comma list of such for a cluster, redis+cluster://... or rediss+cluster://..., redis+sentinel://HOST,HOST/MASTER or rediss+sentinel://...',
      abort: true,
    },
  )
  .superRefine((url, context) => {
    const problem = redisProblemOf(url);
    if (problem !== null) context.addIssue(problem);
  });

/** What is behind a question mark or a number sign would be in the middle of each address that is made of it, and a password would be in links and tokens. */
export const isBaseUrl = (text: string): boolean => /^https?:\/\/[^?#]+$/i.test(text) && isWithoutUser(parseUrl(text));

/** The secret key travels in every request, so it needs TLS, except to this very machine. */
export function isSafeBase(text: string): boolean {
  const url = parseUrl(text);
  if (url === null) return false;
  const { protocol, hostname, pathname, search } = url;
  const isLocal = ['127.0.0.1', 'localhost', '[::1]'].includes(hostname);
  return (protocol === 'https:' || (protocol === 'http:' && isLocal)) && pathname === '/' && search === '';
}

/** A server for mail that goes out, with the name and the password in it where it wants them. */
export function isMailUrl(text: string): boolean {
  return /^smtps?:\/\/./.test(text) && (parseUrl(text)?.hostname ?? '') !== '';
}

function isWithoutUser(url: URL | null): url is URL {
  return url !== null && url.username === '' && url.password === '';
}

/** A JWKS that anybody on the way can change signs for anybody; on this machine there is no way. A URL with a user is never fetched. */
export function isHttpsOrLoopback(text: string): boolean {
  const url = parseUrl(text);
  if (!isWithoutUser(url)) return false;
  const { protocol, hostname } = url;
  return protocol === 'https:' || ['localhost', '127.0.0.1', '[::1]'].includes(hostname);
}

/** A list separated by commas, each entry read by `read`, which returns undefined for one that is wrong. */
export function list<Entry>(read: (entry: string) => Entry | undefined, message: string) {
  return z.string().transform((text, context) => {
    const entries = text.split(',').map((entry) => read(entry.trim()));
    const known = entries.filter((entry): entry is Entry => entry !== undefined);
    if (known.length === entries.length) return known;
    context.addIssue(message);
    return z.NEVER;
  });
}

/** As it was written, but for IPv4 inside IPv6: addresses that are seen so are compared as IPv4. */
export function network(text: string): string | undefined {
  const read = readNetwork(text);
  if (read === null) return undefined;
  const [address, prefix] = read;
  const isMapped = address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() && prefix >= MAPPED_BITS;
  return isMapped ? `${address.toIPv4Address().toString()}/${prefix - MAPPED_BITS}` : text;
}

/** RFC 4291 section 2.5.5.2. */
const MAPPED_BITS = 96;

export function portRange(text: string): readonly [number, number] | undefined {
  const [, first, last = first] = /^([1-9]\d{0,4})(?:-([1-9]\d{0,4}))?$/.exec(text) ?? [];
  const range = [Number(first), Number(last)] as const;
  return range[0] <= range[1] && range[1] <= 65_535 ? range : undefined;
}

/** ADDRESS, or ADDRESS:PORT with the brackets of a URL around an IPv6 one. */
export function dnsServer(text: string): string | undefined {
  if (isIP(text) !== 0) return text;
  const [, six, four, port] = /^(?:\[([^\]]+)\]|([^:]+)):([1-9]\d{0,4})$/.exec(text) ?? [];
  return isIP(six ?? '') === 6 || isIP(four ?? '') === 4 ? (Number(port) <= 65_535 ? text : undefined) : undefined;
}

export interface VariableRow<Value> {
  readonly name: string;
  /** The text that means the same as leaving it out; null where there is none, or where it depends on the machine. */
  readonly default: string | null;
  readonly about: string;
  readonly schema: z.ZodType<Value>;
  /** The setting without the variable. */
  readonly unset: Value;
}

export function initially<Value>(
  name: string,
  text: string,
  about: string,
  schema: z.ZodType<Value>,
): VariableRow<Value> {
  return { name, default: text, about, schema, unset: schema.parse(text) };
}

/** Null while it is not set. */
export function optional<Value>(name: string, about: string, schema: z.ZodType<Value>): VariableRow<Value | null> {
  return { name, default: null, about, schema, unset: null };
}

/** For what no text stands for. */
export function otherwise<Value>(
  name: string,
  unset: Value,
  about: string,
  schema: z.ZodType<Value>,
): VariableRow<Value> {
  return { name, default: null, about, schema, unset };
}
