// What REDIS_URL says: one Redis, nodes of a cluster, or Sentinels, who know the master; and scripts. What is here does without the driver, which most servers never read.
import { createHash } from 'node:crypto';
import { parseUrl } from '../../wire-text.js';
import { StoreError } from '../store-error.js';

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

export function placeOf(text: string): RedisPlace {
  const [scheme] = /^rediss?\+sentinel:\/\//.exec(text) ?? [];
  if (scheme !== undefined) return sentinelsOf(text, scheme.length);
  const urls = text.split(',').map((one) => parse(one.trim()));
  const [first] = urls;
  if (first === undefined) throw new StoreError('REDIS_URL is empty');
  const common = commonOf(first);
  if (urls.length === 1 && !first.protocol.includes('+cluster')) {
    return {
      ...common,
      kind: 'alone',
      address: addressOf(first, REDIS_PORT),
      database: Number(first.pathname.slice(1) || 0),
    };
  }
  return { ...common, kind: 'cluster', nodes: urls.map((url) => addressOf(url, REDIS_PORT)) };
}

/** `redis+sentinel://user:password@one:26379,two:26379/name/0`: a URL has one host, so each is read by itself. `begin`: behind the scheme. */
function sentinelsOf(text: string, begin: number): RedisPlace {
  const end = text.indexOf('/', begin);
  const hosts = Math.max(begin, text.lastIndexOf('@', end) + 1);
  const each = text.slice(hosts, end).split(',');
  const urls = each.map((host) => parse(text.slice(0, hosts) + host.trim() + text.slice(end)));
  const [first] = urls;
  if (first === undefined) throw new StoreError('REDIS_URL is empty');
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

/** The driver's own complaint would quote it, password and all. */
function parse(text: string): URL {
  const url = parseUrl(text);
  if (url === null) throw new StoreError('REDIS_URL is not a valid URL, or a comma list of them');
  return url;
}

export interface Script {
  readonly text: string;
  /** What EVALSHA knows it by. */
  readonly sha1: string;
}

export function script(text: string): Script {
  return { text, sha1: createHash('sha1').update(text).digest('hex') };
}
