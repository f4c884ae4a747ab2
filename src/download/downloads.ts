// What is behind a URL, as a source of bytes: each hop checked, its host resolved, all of its addresses checked, and exactly those dialled; the last one's body handed on.
import { Resolver } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { codeOf } from '../error-text.js';
import { Failure, Unavailable } from '../errors.js';
import { ORIGIN_ADDRESSES, ORIGIN_DNS_MS, ORIGIN_DNS_TRIES, ORIGIN_DNS_TRY_MS, REDIRECTS_MAX } from '../limits.js';
import { Shares } from '../waiting/turns.js';
import { type Deadline, startDeadline } from '../waiting/within.js';
import type { Guard, GuardedUrl } from './guard.js';
import {
  type ByteSink,
  NOT_HTTP,
  type OriginMessage,
  type OriginOptions,
  type OriginResponse,
  requestOrigin,
  TOO_SLOW,
} from './origin.js';

/** The body of a response that is a success. */
export type OriginBody = Readonly<ReturnType<typeof bodyOf>>;

export type Downloads = ReturnType<typeof createDownloads>;

interface DownloadOptions extends DiallingOptions {
  readonly limits: { readonly perUser: number; readonly total: number };
  /** From the first question to the DNS to the last byte, but for the time in which the body is held. */
  readonly timeoutMs: number;
}

/** RFC 9110 section 15.4: those that name another place for the same GET. 300 and 304 name none. */
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const PARTIAL_CONTENT = 206;

export function createDownloads(options: DownloadOptions) {
  const { guard } = options;
  const slots = new Shares(options.limits.perUser);

  /** The first response that is no redirect. */
  async function follow(start: URL, signal: AbortSignal): Promise<OriginResponse> {
    let url = start;
    for (let redirects = 0; ; redirects += 1) {
      const response = await dial(url, signal, options);
      if (!REDIRECTS.has(response.status)) return response;
      response.close();
      const location = response.header('location');
      if (location === null || location === '') throw new Failure('downloadFailed', 'a redirect without a target');
      if (redirects === REDIRECTS_MAX) throw new Failure('urlRejected', 'too many redirects');
      url = allowed(guard.checkRedirect(location, url));
    }
  }

  return {
    /**
     * Resolves with what `receive` makes of the body, and ends the connection then. Rejects with Failure `urlRejected`,
     * `downloadFailed` or `unavailable`, with the signal's reason when it aborts, and with what `receive` rejects with.
     */
    async fetch<T>(
      text: string,
      account: string,
      signal: AbortSignal,
      receive: (body: OriginBody) => Promise<T>,
    ): Promise<T> {
      const url = allowed(guard.checkUrl(text));
      if (!slots.take(account)) throw new Unavailable('downloadShareTaken');
      const deadline = startDeadline(options.timeoutMs, signal, new Failure('downloadFailed', TOO_SLOW));
      try {
        if (slots.all > options.limits.total) throw new Unavailable('downloadSlotsTaken');
        const response = await follow(url, deadline.signal);
        try {
          return await receive(bodyOf(response, deadline));
        } finally {
          response.close();
        }
      } finally {
        deadline.end();
        slots.giveBack(account);
      }
    },
    /** What can be said of a URL before its host is resolved. Throws Failure `urlRejected`. */
    check: (text: string): void => void allowed(guard.checkUrl(text)),
    get running(): number {
      return slots.all;
    },
  };
}

/** Throws Failure `downloadFailed` for a response that has no content, or none that the engine could open. */
function bodyOf(response: OriginResponse, deadline: Deadline) {
  const { status } = response;
  // A part that nobody asked for is not the content.
  if (status < 200 || status > 299 || status === PARTIAL_CONTENT) {
    throw new Failure('downloadFailed', `the origin answered with status ${status}`);
  }
  const coding = codingCheck(response);
  const declared = response.header('content-length');
  return {
    /** Null: the origin doesn't say. */
    declaredBytes: declared === null ? null : Number(declared),
    /** Hands the bytes on, once. Rejects with Failure `downloadFailed` when they are not all there or not as they should be. */
    async receive(sink: ByteSink): Promise<void> {
      await response.receive((bytes) => {
        coding.look(bytes);
        sink(bytes);
      });
      coding.assertAsSaid();
    },
    /** Keeps the origin waiting, on our time. */
    hold(): void {
      deadline.stop();
      response.hold();
    },
    goOn(): void {
      deadline.start();
      response.goOn();
    },
  };
}

export interface DiallingOptions extends OriginOptions {
  readonly guard: Guard;
  readonly resolve: Resolve;
}

/** Throws Failure `urlRejected`. */
function allowed(checked: GuardedUrl): URL {
  if (!checked.allowed) throw new Failure('urlRejected', checked.reason);
  return checked.url;
}

/**
 * A GET, or the POST of a message. The URL has passed the guard as a text. Rejects with Failure `urlRejected` or `downloadFailed`, with the signal's
 * reason when it aborts.
 */
async function dial(
  url: URL,
  signal: AbortSignal,
  options: DiallingOptions,
  message: OriginMessage | null = null,
): Promise<OriginResponse> {
  const addresses = await checkedAddresses(url, signal, options);
  return await requestOrigin({ url, addresses, signal, message }, options);
}

/** The addresses of a URL's host, all of them checked: one that may not be dialled spoils the host. */
async function checkedAddresses(
  { hostname }: URL,
  signal: AbortSignal,
  { guard, resolve }: DiallingOptions,
): Promise<readonly string[]> {
  // An address was checked with the URL, and is checked again with all others.
  const bare = hostname.replace(/^\[(.*)\]$/, '$1');
  const addresses = isIP(bare) === 0 ? await resolve(hostname, signal) : [bare];
  for (const address of addresses) {
    const checked = guard.checkAddress(address);
    if (!checked.allowed) throw new Failure('urlRejected', checked.reason);
  }
  return addresses;
}

export type Posts = ReturnType<typeof createPosts>;

export function createPosts(options: DiallingOptions) {
  const { guard } = options;
  return {
    /** What can be said of a URL before its host is resolved. Throws Failure `urlRejected`. */
    check: (text: string): void => void allowed(guard.checkUrl(text)),
    /**
     * Resolves with the status of the answer, whatever it is: a redirect isn't followed. Rejects with Failure `urlRejected` or `downloadFailed`, whose
     * detail says why there is none.
     */
    async send(text: string, message: OriginMessage, timeoutMs: number): Promise<number> {
      const url = allowed(guard.checkUrl(text));
      const late = new Failure('downloadFailed', TOO_SLOW);
      const deadline = startDeadline(timeoutMs, new AbortController().signal, late);
      try {
        const response = await dial(url, deadline.signal, options, message);
        response.close();
        return response.status;
      } finally {
        deadline.end();
      }
    },
  };
}

interface ResolveOptions {
  /** `ADDRESS` or `ADDRESS:PORT`; null: those of the machine. */
  readonly servers: readonly string[] | null;
  readonly hosts: HostsFile;
  /** Waiting for all answers; default ORIGIN_DNS_MS. */
  readonly timeoutMs?: number;
}

/** All IPv4 and IPv6 addresses of a hostname. Rejects with Failure `downloadFailed` when there are none or too many, with the signal's reason. */
type Resolve = (hostname: string, signal: AbortSignal) => Promise<readonly string[]>;

/** Names are asked for as they are: search domains would complete a stranger's name with ours. */
export function createResolve({ servers, hosts, timeoutMs = ORIGIN_DNS_MS }: ResolveOptions): Resolve {
  return async (hostname, signal) => {
    signal.throwIfAborted();
    const name = hostname.endsWith('.') ? hostname.slice(0, -1) : hostname;
    const addresses = hosts.get(name) ?? (await askServers(name, signal));
    if (addresses.length === 0) throw new Failure('downloadFailed', 'the host name does not resolve');
    if (addresses.length > ORIGIN_ADDRESSES)
      throw new Failure('downloadFailed', 'the host name has too many addresses');
    return addresses;
  };

  /** A resolver of its own for each host: so that one can be cancelled, and that a changed resolv.conf is seen. */
  async function askServers(name: string, signal: AbortSignal): Promise<readonly string[]> {
    const resolver = new Resolver({ timeout: ORIGIN_DNS_TRY_MS, tries: ORIGIN_DNS_TRIES });
    if (servers !== null) resolver.setServers(servers);
    const deadline = startDeadline(timeoutMs, signal, new Error('No answer of the DNS in time'));
    deadline.signal.addEventListener('abort', () => resolver.cancel());
    try {
      const families = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
      signal.throwIfAborted();
      // A family that failed has no addresses: nothing is dialled but what was answered and checked.
      return families.flatMap((family) => (family.status === 'fulfilled' ? family.value : []));
    } finally {
      deadline.end();
    }
  }
}

const HOSTS_PATH = '/etc/hosts';

/** Lower-case names and their addresses. */
type HostsFile = ReadonlyMap<string, readonly string[]>;

/** Read once, at the start; a machine without the file has no such names. */
export function readHostsFile(path = HOSTS_PATH): HostsFile {
  try {
    return parseHosts(readFileSync(path, 'utf8'));
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return new Map();
    throw error;
  }
}

/** hosts(5): an address, then its names; what follows a `#` is a comment. */
function parseHosts(text: string): HostsFile {
  const hosts = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    if (isIP(address) === 0) continue;
    for (const name of names.map((each) => each.toLowerCase())) {
      hosts.set(name, [...(hosts.get(name) ?? []), address]);
    }
  }
  return hosts;
}

const UNREADABLE = 'the body comes in an encoding that cannot be opened';
/** RFC 1952 section 2.3.1: the magic number, and deflate as the method. */
const GZIP = [0x1f, 0x8b, 0x08];

/**
 * What a client of the origin would have to decode, by RFC 9110 section 8.4 and RFC 9112 section 7. libclamav opens gzip alone:
 * `deflate`, with and without its zlib frame, is clean for it whatever it holds, as br and zstd are. Throws Failure `downloadFailed`.
 */
function codingCheck(response: Pick<OriginResponse, 'list'>) {
  const transfer = response.list('transfer-encoding');
  const chunked = transfer.indexOf('chunked');
  // RFC 9112 section 6.1: once, and last.
  if (chunked !== -1 && chunked < transfer.length - 1) throw new Failure('downloadFailed', NOT_HTTP);
  const encodings = response.list('content-encoding').filter((coding) => coding !== 'identity');
  const codings = [...encodings, ...transfer.filter((coding) => coding !== 'chunked')];
  const [coding] = codings;
  if (coding === undefined)
    return { look: (_bytes: Uint8Array): void => undefined, assertAsSaid: (): void => undefined };
  if (codings.length > 1 || (coding !== 'gzip' && coding !== 'x-gzip')) throw new Failure('downloadFailed', UNREADABLE);
  const begin: number[] = [];
  return {
    /** Looks at the next bytes of the body. */
    look(bytes: Uint8Array): void {
      if (begin.length < GZIP.length) begin.push(...bytes.subarray(0, GZIP.length - begin.length));
    },
    /**
     * The body has come. Throws Failure `downloadFailed` when it isn't what its headers say: clients such as curl take a zlib stream
     * under the name of gzip as well.
     */
    assertAsSaid(): void {
      // No bytes at all are an empty file, whatever they are called.
      const isEmpty = begin.length === 0;
      if (!isEmpty && GZIP.some((byte, index) => begin[index] !== byte))
        throw new Failure('downloadFailed', UNREADABLE);
    },
  };
}
