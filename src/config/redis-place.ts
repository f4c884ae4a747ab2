// What REDIS_URL says: one Redis, nodes of a cluster, or Sentinels, who know the master.
import { parseUrl } from '../wire-text.js';

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
