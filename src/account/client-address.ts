// Whose address a request comes from when there are proxies in front. Pure: the connection's address and X-Forwarded-For in, one address out.
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** An entry as some proxies write it: `192.0.2.1:4711`, `[2001:db8::1]:4711`, `[2001:db8::1]`. */
const WITH_PORT = /^(?:(\d+\.\d+\.\d+\.\d+):\d+|\[([0-9a-f:.]+)\](?::\d+)?)$/i;
/** An IPv6 customer has a whole network of this size at least. */
const IPV6_CUSTOMER_BITS = 64;

export type ClientAddress = (remoteAddress: string, forwardedFor: string | undefined) => string;

/**
 * The right-most address that isn't a trusted proxy's: each proxy adds the address of its client at the right, so everything further left
 * may be made up. Without trusted proxies it is the connection's. `trusted` are networks in CIDR notation.
 */
export function createClientAddress(trusted: readonly string[]): ClientAddress {
  const networks = trusted.map((network) => ipaddr.parseCIDR(network));
  const isTrusted = (address: Address): boolean => networks.some((network) => isIn(address, network));

  return (remoteAddress, forwardedFor) => {
    const remote = read(remoteAddress);
    if (remote === null) return remoteAddress;
    let client = remote;
    const claims = (forwardedFor ?? '').split(',').reverse();
    for (const claim of claims) {
      if (!isTrusted(client)) break;
      const next = read(claim.trim());
      // `unknown`, a name, nonsense: the proxy that passed it on is the last one that we know of.
      if (next === null) break;
      client = next;
    }
    return client.toString();
  };
}

/** What is throttled as one: an IPv4 address, or the /64 of an IPv6 address. */
export function throttledAs(address: string): string {
  const parsed = read(address);
  if (parsed === null || parsed.kind() === 'ipv4') return address;
  const bytes = parsed.toByteArray();
  const network = bytes.map((byte, index) => (index < IPV6_CUSTOMER_BITS / 8 ? byte : 0));
  return `${ipaddr.fromByteArray(network).toString()}/${IPV6_CUSTOMER_BITS}`;
}

/** IPv4 addresses that IPv6 sockets see as `::ffff:192.0.2.1` become IPv4. The library alone would read `1` and `0x7f.1`, too. */
function read(text: string): Address | null {
  const [, ipv4, ipv6] = WITH_PORT.exec(text) ?? [];
  const bare = ipv4 ?? ipv6 ?? text;
  return isIP(bare) === 0 || bare.includes('%') ? null : ipaddr.process(bare);
}

function isIn(address: Address, [network, bits]: [Address, number]): boolean {
  return address.kind() === network.kind() && address.match(network, bits);
}
