// Where a URL scan may go. Pure: nothing is resolved or dialled here; the download asks for each URL and each address.
import { isIPv4 } from 'node:net';
import { parseUrl } from '../wire-text.js';
import { createAddressRules } from './guard-addresses.js';
import { classifyHostName, isRefusedPort } from './guard-names.js';

export interface GuardPolicy {
  /** Networks reachable in spite of the guard (URL_ALLOW_NETWORKS), CIDR notation. */
  readonly allowNetworks: readonly string[];
  /** Exactly these (URL_PORTS). Default: all but those of guard-names.ts. */
  readonly ports?: readonly PortRange[] | null;
}

/** First and last. */
export type PortRange = readonly [number, number];

export type GuardedUrl =
  | { readonly allowed: true; readonly url: URL }
  | { readonly allowed: false; readonly reason: string };
export type GuardedAddress = { readonly allowed: true } | { readonly allowed: false; readonly reason: string };

export interface Guard {
  /**
   * Scheme, credentials, port, hostname; an address literal is checked as an address too. Everything that can be judged
   * without DNS.
   */
  checkUrl(text: string): GuardedUrl;
  /** Where a redirect leads: the `Location` as it was sent by `base`, held to the same rules before it is resolved and after. */
  checkRedirect(location: string, base: URL): GuardedUrl;
  /** One answer of the resolver (IPv4 or IPv6 text). Every answer must be allowed: one that isn't spoils the host. */
  checkAddress(address: string): GuardedAddress;
}

/** The same word for every address: the name of its range would show a client what a name resolves to in this network. */
const NOT_PUBLIC = 'address is not public';

/** Throws on a malformed network. */
export function createGuard(policy: GuardPolicy): Guard {
  const addresses = createAddressRules(policy.allowNetworks);
  // Names of an intranet mean something where one has been opened; their addresses then decide.
  const privateNames = policy.allowNetworks.length > 0;

  function checkAddress(address: string): GuardedAddress {
    return addresses.whyRefused(address) === null ? { allowed: true } : refuse(NOT_PUBLIC);
  }

  function checkHost(hostname: string): GuardedAddress {
    const literal = addressLiteral(hostname);
    if (literal !== null) return checkAddress(literal);
    switch (classifyHostName(hostname)) {
      case 'malformed':
        return refuse('malformed host name');
      case 'service':
        return refuse('host is not allowed');
      case 'private':
        return privateNames ? { allowed: true } : refuse('host is not allowed');
      case 'public':
        return { allowed: true };
    }
  }

  function isAllowedPort(port: number): boolean {
    const { ports = null } = policy;
    return ports === null ? !isRefusedPort(port) : ports.some(([first, last]) => port >= first && port <= last);
  }

  function checkUrl(text: string): GuardedUrl {
    const reason = whyUnreadable(text);
    if (reason !== null) return refuse(reason);
    const url = parseUrl(text);
    if (url === null) return refuse('malformed URL');
    if (!isAllowedPort(portOf(url))) return refuse('port is not allowed');
    const host = checkHost(url.hostname);
    return host.allowed ? { allowed: true, url } : host;
  }

  return {
    checkUrl,
    checkRedirect(location, base) {
      // Before it is resolved: that repairs text as the parser does.
      if (REPAIRED.test(location)) return refuse(REPAIRED_REASON);
      if (/^[a-z][a-z0-9+.-]*:/i.test(location)) return checkUrl(location);
      if (location.startsWith('//')) return checkUrl(base.protocol + location);
      const target = parseUrl(location, base);
      return target === null ? refuse('malformed URL') : checkUrl(target.href);
    },
    checkAddress,
  };
}

function refuse(reason: string): { readonly allowed: false; readonly reason: string } {
  return { allowed: false, reason };
}

const REPAIRED = /[\p{Cc}\p{White_Space}\\]/u;
const REPAIRED_REASON = 'control character, white space or backslash in the URL';

/**
 * What can be said before the host matters. The URL parser repairs what people type (https://url.spec.whatwg.org/#url-parsing:
 * it drops tabs and newlines, turns backslashes, adds slashes); other readers of the same text see another host. So such text
 * is refused and never repaired.
 */
function whyUnreadable(text: string): string | null {
  if (text.trim() === '') return 'blank URL';
  if (REPAIRED.test(text)) return REPAIRED_REASON;
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(text)?.[1]?.toLowerCase();
  if (scheme !== 'http' && scheme !== 'https') return 'scheme is not http or https';
  // RFC 9110 section 4.2: a host is required, after exactly two slashes.
  const authority = /^[a-z]+:\/\/([^/?#]+)/i.exec(text)?.[1];
  if (authority === undefined) return 'malformed URL';
  // In the text rather than in the parsed URL, which forgets empty credentials (RFC 9110 section 4.2.4).
  return authority.includes('@') ? 'credentials in the URL' : null;
}

function portOf(url: URL): number {
  if (url.port !== '') return Number(url.port);
  return url.protocol === 'https:' ? 443 : 80;
}

/** The parser has turned every spelling of an IPv4 address (octal, hex, short, dword) into the usual one. */
function addressLiteral(hostname: string): string | null {
  if (hostname.startsWith('[')) return hostname.slice(1, -1);
  return isIPv4(hostname) ? hostname : null;
}
