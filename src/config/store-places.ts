// Where the stores are: what DATABASE_URL says, a host, or the folder of a UNIX socket as libpq takes it; and what REDIS_URL says, one Redis, nodes of a cluster, or Sentinels, who know the master.
import { parseUrl } from '../wire-text.js';

export interface DatabasePlace {
  /** As the driver reads it. */
  readonly url: string;
  /** For messages: what the driver says of a URL would quote it whole. */
  readonly place: string;
  /** Of a UNIX socket: its folder. */
  readonly socket: { readonly host: string; readonly port: number } | null;
  /** Why it can't be read, behind the name of the variable; null: it can. */
  readonly problem: string | null;
}

/** Nothing listens on it: each connection would fail, and the service would wait for the store. */
const NO_PORT = 'has port 0, on which no store can be';

export function databasePlaceOf(text: string): DatabasePlace {
  const { url, folder } = withoutSocket(text);
  const parsed = parseUrl(url);
  const nowhere = { url, place: '', socket: null };
  if (parsed === null) return { ...nowhere, problem: 'is not a valid URL' };
  const { hostname, port, pathname, search, hash, username, password } = parsed;
  if ([username, password, hostname, pathname].some((part) => decoded(part) === null)) {
    return { ...nowhere, problem: 'has a % that is not percent-encoded: write it as %25' };
  }
  // `postgres://user:12/34@host/`: read by the letter, the password is a port and a path, and would be shown as such.
  if (`${pathname}${search}${hash}`.includes('@')) {
    return {
      ...nowhere,
      problem: 'has a user or a password with one of / ? # in it: write them as %2F %3F %23',
    };
  }
  if (port === '0') return { ...nowhere, problem: NO_PORT };
  const place = `Postgres at ${folder ?? hostname}:${port === '' ? '5432' : port}${pathname}`;
  const socket = folder === null ? null : { host: folder, port: port === '' ? 5432 : Number(port) };
  return { url, place, socket, problem: null };
}

/** RFC 3986 as libpq reads it, which takes an empty host beside a user, and a folder as host. */
const AUTHORITY = /^(postgres(?:ql)?:\/\/)([^/?#@]*@)?([^/?#@:]*)(:\d+)?(\/[^?#]*)?(\?[^#]*)?$/;

/**
 * The folder of a UNIX socket, which libpq takes as a host (`%2Frun%2Fpostgresql`) or as the parameter `host` behind an empty one, and the
 * same URL with an ordinary host, which the driver can read. Null: it names no folder.
 */
function withoutSocket(text: string): { readonly url: string; readonly folder: string | null } {
  const [, scheme = '', login = '', host = '', port = '', path = '', search = ''] = AUTHORITY.exec(text) ?? [];
  const asked = new URLSearchParams(search);
  const folder = host === '' ? asked.get('host') : decoded(host);
  if (folder === null || !folder.startsWith('/')) return { url: text, folder: null };
  const number = asked.get('port');
  asked.delete('host');
  asked.delete('port');
  const rest = asked.size === 0 ? '' : `?${asked}`;
  return { url: `${scheme}${login}localhost${number === null ? port : `:${number}`}${path}${rest}`, folder };
}

function decoded(host: string): string | null {
  try {
    return decodeURIComponent(host);
  } catch {
    // Not percent-encoded text: no folder has such a name.
    return null;
  }
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface Login {
  readonly username?: string;
  readonly password?: string;
}

interface Common {
  readonly login: Login;
  readonly isTls: boolean;
}

type RedisPlace =
  | (Common & { readonly kind: 'alone'; readonly address: Address; readonly database: number })
  | (Common & { readonly kind: 'cluster'; readonly nodes: readonly Address[] })
  | (Common & {
      readonly kind: 'sentinels';
      readonly sentinels: readonly Address[];
      readonly sentinelLogin: Login;
      /** The master's, as the Sentinels have it. */
      readonly name: string;
      readonly database: number;
    });

const REDIS_PORT = 6379;
const SENTINEL_PORT = 26379;

/** Why REDIS_URL can't be used, behind its name; null: it can. */
export function redisProblemOf(text: string): string | null {
  const place = redisPlaceOf(text);
  if (place === null) return 'is not a valid URL, or a comma list of them';
  return addressesOf(place).some(({ port }) => port === 0) ? NO_PORT : null;
}

function addressesOf(place: RedisPlace): readonly Address[] {
  if (place.kind === 'alone') return [place.address];
  return place.kind === 'cluster' ? place.nodes : place.sentinels;
}

/** Null: it can't be read. */
export function redisPlaceOf(text: string): RedisPlace | null {
  try {
    return readPlace(text);
  } catch (error) {
    // Of decodeURIComponent.
    if (error instanceof URIError) return null;
    throw error;
  }
}

function readPlace(text: string): RedisPlace | null {
  const [scheme] = /^rediss?\+sentinel:\/\//.exec(text) ?? [];
  if (scheme !== undefined) return sentinelsOf(text, scheme.length);
  const urls = allOf(text.split(','));
  const [first] = urls;
  if (first === undefined) return null;
  const common = commonOf(first);
  if (urls.length > 1 || first.protocol.includes('+cluster')) {
    return { ...common, kind: 'cluster', nodes: urls.map((url) => addressOf(url, REDIS_PORT)) };
  }
  const database = Number(first.pathname.slice(1) || 0);
  if (!Number.isInteger(database)) return null;
  return { ...common, kind: 'alone', address: addressOf(first, REDIS_PORT), database };
}

/** `redis+sentinel://user:password@one:26379,two:26379/name/0`: a URL has one host, so each is read by itself. `begin`: behind the scheme. */
function sentinelsOf(text: string, begin: number): RedisPlace | null {
  const end = text.indexOf('/', begin);
  const hosts = Math.max(begin, text.lastIndexOf('@', end) + 1);
  const each = text.slice(hosts, end).split(',');
  const urls = allOf(each.map((host) => text.slice(0, hosts) + host.trim() + text.slice(end)));
  const [first] = urls;
  if (first === undefined) return null;
  const [, name = '', database = '0'] = first.pathname.split('/');
  // A plus is a plus, as in the password of Redis.
  const said = new URLSearchParams(first.search.replaceAll('+', '%2B'));
  return {
    ...commonOf(first),
    kind: 'sentinels',
    sentinels: urls.map((url) => addressOf(url, SENTINEL_PORT)),
    sentinelLogin: loginOf(said.get('sentinelUsername') ?? '', said.get('sentinelPassword') ?? ''),
    name: decodeURIComponent(name),
    database: Number(database),
  };
}

function commonOf({ username, password, protocol }: URL): Common {
  return {
    login: loginOf(decodeURIComponent(username), decodeURIComponent(password)),
    isTls: protocol.startsWith('rediss'),
  };
}

function loginOf(username: string, password: string): Login {
  return { ...(username === '' ? {} : { username }), ...(password === '' ? {} : { password }) };
}

function addressOf({ hostname, port }: URL, usualPort: number): Address {
  return { host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? usualPort : Number(port) };
}

/** None, where one of them is no URL. */
function allOf(texts: readonly string[]): URL[] {
  const urls = texts.map((text) => parseUrl(text.trim())).filter((url) => url !== null);
  return urls.length === texts.length ? urls : [];
}
