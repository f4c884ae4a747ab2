// Which addresses may be dialled: ranges, metadata services and the IPv4 addresses that IPv6 carries. Text in, verdict out.
// ipaddr.js reads addresses to bytes and matches prefixes; net.BlockList can't say which range it was, and its answer for
// IPv4-mapped addresses has changed between versions of Node. What is special is our own table: the library's is older.
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

interface SpecialRange {
  /** CIDR notation. */
  readonly network: string;
  readonly reason: string;
}

function range(network: string, reason: string): SpecialRange {
  return { network, reason };
}

/**
 * Also the few that the registries call globally reachable: an anycast address is answered by whatever is nearest, so from
 * inside a network that is a part of this network; and none of them holds files.
 */
const specialRanges: readonly SpecialRange[] = [
  range('0.0.0.0/8', 'this network (RFC 791); 0.0.0.0 is the machine itself on Linux'),
  range('10.0.0.0/8', 'private use (RFC 1918)'),
  range('100.64.0.0/10', 'shared address space of carrier-grade NAT (RFC 6598)'),
  range('127.0.0.0/8', 'loopback (RFC 1122)'),
  range('169.254.0.0/16', 'link-local (RFC 3927)'),
  range('172.16.0.0/12', 'private use (RFC 1918)'),
  range('192.0.0.0/24', 'IETF protocol assignments (RFC 6890): DS-Lite, PCP and TURN anycast, NAT64 discovery'),
  range('192.0.2.0/24', 'documentation, TEST-NET-1 (RFC 5737)'),
  range('192.31.196.0/24', 'AS112 anycast (RFC 7535)'),
  range('192.52.193.0/24', 'AMT anycast (RFC 7450)'),
  range('192.88.99.0/24', '6to4 relay anycast, deprecated (RFC 7526)'),
  range('192.168.0.0/16', 'private use (RFC 1918)'),
  range('192.175.48.0/24', 'direct delegation AS112 anycast (RFC 7534)'),
  range('198.18.0.0/15', 'benchmarking (RFC 2544)'),
  range('198.51.100.0/24', 'documentation, TEST-NET-2 (RFC 5737)'),
  range('203.0.113.0/24', 'documentation, TEST-NET-3 (RFC 5737)'),
  // Not in the registry: it has a registry of its own.
  range('224.0.0.0/4', 'multicast (RFC 5771)'),
  range('240.0.0.0/4', 'reserved, with the limited broadcast (RFC 1112, RFC 8190)'),

  range('::/128', 'unspecified address (RFC 4291); the machine itself on Linux'),
  range('::1/128', 'loopback (RFC 4291)'),
  range('::ffff:0:0/96', 'IPv4-mapped (RFC 4291)'),
  range('::ffff:0:0:0/96', 'IPv4-translated (RFC 2765)'),
  range('::/96', 'IPv4-compatible, deprecated (RFC 4291)'),
  range('64:ff9b::/96', 'NAT64 (RFC 6052)'),
  range('64:ff9b:1::/48', 'local-use NAT64 (RFC 8215)'),
  range('100::/64', 'discard-only (RFC 6666)'),
  range('100:0:0:1::/64', 'dummy prefix (RFC 9780)'),
  range('2001::/32', 'Teredo (RFC 4380)'),
  range('2001:2::/48', 'benchmarking (RFC 5180)'),
  range('2001:3::/32', 'AMT anycast (RFC 7450)'),
  range('2001:4:112::/48', 'AS112 anycast (RFC 7535)'),
  range('2001:10::/28', 'ORCHID, deprecated (RFC 4843)'),
  range('2001:20::/28', 'ORCHIDv2: identifiers, not routed (RFC 7343)'),
  range('2001:30::/28', 'drone remote identification: identifiers, not routed (RFC 9374)'),
  range('2001::/23', 'IETF protocol assignments (RFC 2928): PCP, TURN and DNS-SD anycast, and more to come'),
  range('2001:db8::/32', 'documentation (RFC 3849)'),
  range('2002::/16', '6to4 (RFC 3056)'),
  range('2620:4f:8000::/48', 'direct delegation AS112 anycast (RFC 7534)'),
  range('3fff::/20', 'documentation (RFC 9637)'),
  range('5f00::/16', 'segment routing identifiers (RFC 9602)'),
  range('fc00::/7', 'unique local (RFC 4193)'),
  range('fe80::/10', 'link-local (RFC 4291)'),
  range('fec0::/10', 'site-local, deprecated (RFC 3879)'),
  range('ff00::/8', 'multicast (RFC 4291)'),
];

/** Default deny: IANA has handed out nothing for the public outside of it (RFC 4291 section 2.4, RFC 3587). */
const GLOBAL_UNICAST_IPV6 = '2000::/3';

/**
 * Where clouds answer with credentials. Refused even inside a network the operator has opened: a tailnet (100.64.0.0/10) or
 * fd00::/8 is opened for its file servers, never for these.
 */
const metadataAddresses: readonly SpecialRange[] = [
  range('169.254.169.254/32', 'AWS, Azure, Google, DigitalOcean, Hetzner, IBM, OpenStack, Oracle, Vultr'),
  range('169.254.169.250/32', 'Rancher'),
  range('169.254.169.253/32', 'AWS resolver'),
  range('169.254.170.2/32', 'AWS ECS task credentials'),
  range('169.254.170.23/32', 'AWS EKS pod identity'),
  range('169.254.0.23/32', 'Tencent Cloud'),
  range('169.254.42.42/32', 'Scaleway'),
  range('100.100.100.200/32', 'Alibaba Cloud'),
  range('168.63.129.16/32', 'Azure WireServer: looks public, and every Azure machine has it'),
  range('192.0.0.192/32', 'Oracle Cloud Classic'),
  range('fd00:ec2::254/128', 'AWS'),
  range('fd00:ec2::253/128', 'AWS resolver'),
  range('fd00:ec2::23/128', 'AWS EKS pod identity'),
  range('fd20:ce::254/128', 'Google'),
  range('fd00:42::42/128', 'Scaleway'),
  range('fd00:a9fe:a9fe::1/128', 'Akamai'),
  range('fd00:c1::a9fe:a9fe/128', 'Oracle Cloud'),
  range('fe80::a9fe:a9fe/128', 'OpenStack'),
];

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Network = readonly [Address, number];

interface ReadRange {
  readonly network: Network;
  readonly reason: string;
}

const ranges = specialRanges.map(readRange);
const metadata = metadataAddresses.map(readRange);
const globalUnicastIpv6 = readNetwork(GLOBAL_UNICAST_IPV6);

/** Throws on a network that isn't CIDR notation, or that has bits beyond its prefix. */
export function createAddressRules(allowNetworks: readonly string[]) {
  const allowed = allowNetworks.map(readNetwork);

  function whyRefusedItself(address: Address): string | null {
    const service = metadata.find(({ network }) => isIn(address, network));
    if (service !== undefined) return `metadata service: ${service.reason}`;
    return allowed.some((network) => isIn(address, network)) ? null : whyNotPublic(address);
  }

  return {
    /** Why the address may not be dialled, for the operator's eyes; null when it may. */
    whyRefused(text: string): string | null {
      const address = readAddress(text);
      if (address === null) return 'not an address';
      for (const each of [address, ...carriedAddresses(address)]) {
        const reason = whyRefusedItself(each);
        if (reason !== null) return reason;
      }
      return null;
    },
  };
}

function whyNotPublic(address: Address): string | null {
  const special = ranges.find(({ network }) => isIn(address, network));
  if (special !== undefined) return special.reason;
  return address.kind() === 'ipv6' && !isIn(address, globalUnicastIpv6) ? 'not global unicast' : null;
}

/** The one strict spelling of IPv4, any of IPv6 (RFC 4291 section 2.2). Zone ids name an interface of ours: refused. */
function readAddress(text: string): Address | null {
  const version = isIP(text);
  if (version === 0 || text.includes('%')) return null;
  // Through the URL parser, which writes hexadecimal groups: ipaddr.js 2.5 takes ::8.8.8.8 for ::ffff:8.8.8.8.
  return version === 4 ? ipaddr.IPv4.parse(text) : ipaddr.IPv6.parse(new URL(`http://[${text}]`).hostname.slice(1, -1));
}

function readRange({ network, reason }: SpecialRange): ReadRange {
  return { network: readNetwork(network), reason };
}

function readNetwork(text: string): Network {
  const [, start, bits] = /^([^/]+)\/(0|[1-9]\d{0,2})$/.exec(text) ?? [];
  const address = start === undefined ? null : readAddress(start);
  if (address === null) throw new Error(`Not a network in CIDR notation: ${text}`);
  const prefix = Number(bits);
  const bytes = address.toByteArray();
  if (prefix > bytes.length * 8) throw new Error(`The prefix is too long: ${text}`);
  // 10.1.2.3/8 may be meant as one host or as sixteen million; the operator must say which.
  if (bytes.some((byte, index) => (byte & (0xff >> Math.min(8, Math.max(0, prefix - index * 8)))) !== 0)) {
    throw new Error(`The network has bits beyond its prefix: ${text}`);
  }
  return [address, prefix];
}

function isIn(address: Address, [start, prefix]: Network): boolean {
  return address.kind() === start.kind() && address.match(start, prefix);
}

/** Where a prefix holds an IPv4 address: the places of its four bytes among the sixteen. */
interface Carrier {
  readonly network: Network;
  readonly places: readonly (readonly [number, number, number, number])[];
  /** Every byte is stored inverted (Teredo hides the client from NATs that rewrite addresses). */
  readonly inverted?: true;
}

const LAST = [12, 13, 14, 15] as const;

const carriers: readonly Carrier[] = [
  { network: readNetwork('::/96'), places: [LAST] },
  { network: readNetwork('::ffff:0:0/96'), places: [LAST] },
  { network: readNetwork('::ffff:0:0:0/96'), places: [LAST] },
  { network: readNetwork('64:ff9b::/96'), places: [LAST] },
  // RFC 6052 section 2.2. Only its operator knows the length of the prefix (/48, /56, /64, /96), so every place counts. The
  // zeros of the others count as 0.0.0.0, so that opening this range alone opens next to nothing: the safe side of unknown.
  { network: readNetwork('64:ff9b:1::/48'), places: [[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12], LAST] },
  { network: readNetwork('2002::/16'), places: [[2, 3, 4, 5]] },
  { network: readNetwork('2001::/32'), places: [[4, 5, 6, 7]] },
  { network: readNetwork('2001::/32'), places: [LAST], inverted: true },
];

/** :: and ::1 look IPv4-compatible and aren't (RFC 4291 section 2.5.5.1). */
const notCompatible = readNetwork('::/127');

/** Every IPv4 address inside an IPv6 one. An operator who opens a carrier (NAT64, say) doesn't open what lies behind it. */
function carriedAddresses(address: Address): ipaddr.IPv4[] {
  if (address.kind() === 'ipv4' || isIn(address, notCompatible)) return [];
  const bytes = address.toByteArray();
  const carried = carriers
    .filter(({ network }) => isIn(address, network))
    .flatMap(({ places, inverted }) => places.map((place) => pick(bytes, place, inverted === true ? 0xff : 0)));
  return isIsatap(bytes) ? [...carried, pick(bytes, LAST, 0)] : carried;
}

function pick(bytes: readonly number[], places: readonly number[], mask: number): ipaddr.IPv4 {
  return new ipaddr.IPv4(places.map((place) => (bytes[place] ?? 0) ^ mask));
}

/** RFC 5214 section 6.1: interface identifier 0000:5efe or 0200:5efe, under any prefix. */
function isIsatap(bytes: readonly number[]): boolean {
  const [high, low, oui, type] = bytes.slice(8, 12);
  return high !== undefined && (high & ~0x02) === 0 && low === 0 && oui === 0x5e && type === 0xfe;
}
