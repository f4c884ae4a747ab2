// Which addresses may be dialled: ranges, metadata services and the IPv4 addresses that IPv6 carries. Text in, verdict out.
// ipaddr.js reads addresses to bytes and matches prefixes; net.BlockList can't say which range it was, and its answer for
// IPv4-mapped addresses has changed between versions of Node. What is special is our own table: the library's is older.
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { GLOBAL_UNICAST_IPV6, metadataAddresses, type SpecialRange, specialRanges } from './guard-ranges.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Network = readonly [Address, number];

interface ReadRange {
  readonly network: Network;
  readonly reason: string;
}

const ranges = specialRanges.map(readRange);
const metadata = metadataAddresses.map(readRange);
const globalUnicastIpv6 = readNetwork(GLOBAL_UNICAST_IPV6);

export interface AddressRules {
  /** Why the address may not be dialled, for the operator's eyes; null when it may. */
  whyRefused(address: string): string | null;
}

/** Throws on a network that isn't CIDR notation, or that has bits beyond its prefix. */
export function createAddressRules(allowNetworks: readonly string[]): AddressRules {
  const allowed = allowNetworks.map(readNetwork);

  function whyRefusedItself(address: Address): string | null {
    const service = metadata.find(({ network }) => isIn(address, network));
    if (service !== undefined) return `metadata service: ${service.reason}`;
    return allowed.some((network) => isIn(address, network)) ? null : whyNotPublic(address);
  }

  return {
    whyRefused(text) {
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
