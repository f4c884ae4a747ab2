// A request to a host that somebody else has named: its addresses resolved, all of them checked, and exactly those dialled.
import { Resolver } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { codeOf } from '../error-text.js';
import { Failure } from '../errors.js';
import { ORIGIN_DNS_MS, ORIGIN_DNS_TRIES, ORIGIN_DNS_TRY_MS } from '../limits.js';
import { startDeadline } from '../waiting/within.js';
import type { Guard, GuardedUrl } from './guard.js';
import { type OriginMessage, type OriginOptions, type OriginResponse, requestOrigin, TOO_SLOW } from './origin.js';

export interface DiallingOptions extends OriginOptions {
  readonly guard: Guard;
  readonly resolve: Resolve;
}

/** Throws Failure `urlRejected`. */
export function allowed(checked: GuardedUrl): URL {
  if (!checked.allowed) throw new Failure('urlRejected', checked.reason);
  return checked.url;
}

/**
 * A GET, or the POST of a message. The URL has passed the guard as a text. Rejects with Failure `urlRejected` or `downloadFailed`, with the signal's
 * reason when it aborts.
 */
export async function dial(
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

/** All IPv4 and IPv6 addresses of a hostname. Rejects with Failure `downloadFailed` when there are none, with the signal's reason. */
type Resolve = (hostname: string, signal: AbortSignal) => Promise<readonly string[]>;

/** Names are asked for as they are: search domains would complete a stranger's name with ours. */
export function createResolve({ servers, hosts, timeoutMs = ORIGIN_DNS_MS }: ResolveOptions): Resolve {
  return async (hostname, signal) => {
    signal.throwIfAborted();
    const name = hostname.endsWith('.') ? hostname.slice(0, -1) : hostname;
    const addresses = hosts.get(name) ?? (await askServers(name, signal));
    if (addresses.length === 0) throw new Failure('downloadFailed', 'the host name does not resolve');
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
