// Which addresses may be dialled: ranges, metadata services and the IPv4 addresses that IPv6 carries. Text in, verdict out.
// ipaddr.js reads addresses to bytes and matches prefixes; the answer of net.BlockList for IPv4-mapped addresses has changed
// between versions of Node. What is special is our own table: the library's is older.
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Network = readonly [Address, number];

/**
 * Also the few that the registries call globally reachable: an anycast address is answered by whatever is nearest, so from
 * inside a network that is a part of this network; and none of them holds files.
 */
const special = [
  '0.0.0.0/8', // this network (RFC 791); 0.0.0.0 is the machine itself on Linux
  '10.0.0.0/8', // private use (RFC 1918)
  '100.64.0.0/10', // shared address space of carrier-grade NAT (RFC 6598)
  '127.0.0.0/8', // loopback (RFC 1122)
  '169.254.0.0/16', // link-local (RFC 3927)
  '172.16.0.0/12', // private use (RFC 1918)
  '192.0.0.0/24', // IETF protocol assignments (RFC 6890): DS-Lite, PCP and TURN anycast, NAT64 discovery
  '192.0.2.0/24', // documentation, TEST-NET-1 (RFC 5737)
  '192.31.196.0/24', // AS112 anycast (RFC 7535)
  '192.52.193.0/24', // AMT anycast (RFC 7450)
  '192.88.99.0/24', // 6to4 relay anycast, deprecated (RFC 7526)
  '192.168.0.0/16', // private use (RFC 1918)
  '192.175.48.0/24', // direct delegation AS112 anycast (RFC 7534)
  '198.18.0.0/15', // benchmarking (RFC 2544)
  '198.51.100.0/24', // documentation, TEST-NET-2 (RFC 5737)
  '203.0.113.0/24', // documentation, TEST-NET-3 (RFC 5737)
  // Not in the registry: it has a registry of its own.
  '224.0.0.0/4', // multicast (RFC 5771)
  '240.0.0.0/4', // reserved, with the limited broadcast (RFC 1112, RFC 8190)

  '2001::/23', // IETF protocol assignments (RFC 2928): Teredo, anycast, benchmarking, ORCHID, drones, and more to come
  '2001:db8::/32', // documentation (RFC 3849)
  '2002::/16', // 6to4 (RFC 3056)
  '2620:4f:8000::/48', // direct delegation AS112 anycast (RFC 7534)
  '3fff::/20', // documentation (RFC 9637)
].map(readNetwork);

/**
 * Default deny: IANA has handed out nothing for the public outside of it (RFC 4291 section 2.4, RFC 3587). Loopback, link-local, unique local, multicast
 * and all forms of IPv4 lie there.
 */
const globalUnicastIpv6 = readNetwork('2000::/3');

/**
 * Where clouds answer with credentials. Refused even inside a network the operator has opened: a tailnet (100.64.0.0/10) or
 * fd00::/8 is opened for its file servers, never for these.
 */
const metadata = [
  '169.254.169.254/32', // AWS, Azure, Google, DigitalOcean, Hetzner, IBM, OpenStack, Oracle, Vultr
  '169.254.169.250/32', // Rancher
  '169.254.169.253/32', // AWS resolver
  '169.254.170.2/32', // AWS ECS task credentials
  '169.254.170.23/32', // AWS EKS pod identity
  '169.254.0.23/32', // Tencent Cloud
  '169.254.42.42/32', // Scaleway
  '100.100.100.200/32', // Alibaba Cloud
  '168.63.129.16/32', // Azure WireServer: looks public, and every Azure machine has it
  '192.0.0.192/32', // Oracle Cloud Classic
  'fd00:ec2::254/128', // AWS
  'fd00:ec2::253/128', // AWS resolver
  'fd00:ec2::23/128', // AWS EKS pod identity
  'fd20:ce::254/128', // Google
  'fd00:42::42/128', // Scaleway
  'fd00:a9fe:a9fe::1/128', // Akamai
  'fd00:c1::a9fe:a9fe/128', // Oracle Cloud
  'fe80::a9fe:a9fe/128', // OpenStack
].map(readNetwork);

/** Returns what says whether an address may be dialled. Throws on a network that isn't CIDR notation, or that has bits beyond its prefix. */
export function createAddressRules(allowNetworks: readonly string[]): (text: string) => boolean {
  const allowed = allowNetworks.map(readNetwork);

  function isAllowed(address: Address): boolean {
    if (metadata.some((network) => isIn(address, network))) return false;
    return allowed.some((network) => isIn(address, network)) || isPublic(address);
  }

  return (text) => {
    const address = readAddress(text);
    return address !== null && [address, ...carriedAddresses(address)].every(isAllowed);
  };
}

function isPublic(address: Address): boolean {
  if (special.some((network) => isIn(address, network))) return false;
  return address.kind() === 'ipv4' || isIn(address, globalUnicastIpv6);
}

/** The one strict spelling of IPv4, any of IPv6 (RFC 4291 section 2.2). Zone ids name an interface of ours: refused. */
function readAddress(text: string): Address | null {
  const version = isIP(text);
  if (version === 0 || text.includes('%')) return null;
  // Through the URL parser, which writes hexadecimal groups: ipaddr.js 2.5 takes ::8.8.8.8 for ::ffff:8.8.8.8.
  return version === 4 ? ipaddr.IPv4.parse(text) : ipaddr.IPv6.parse(new URL(`http://[${text}]`).hostname.slice(1, -1));
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
