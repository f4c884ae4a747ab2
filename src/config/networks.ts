// Addresses and networks as texts: what the configuration checks is what the guard of downloads and the throttles read.
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

export type IpAddress = ipaddr.IPv4 | ipaddr.IPv6;
/** The first address, and how many bits all of its addresses have in common. */
export type Network = readonly [IpAddress, number];

/** The one strict spelling of IPv4, any of IPv6 (RFC 4291 section 2.2). Zone ids name an interface of ours: refused. */
export function readAddress(text: string): IpAddress | null {
  const version = isIP(text);
  if (version === 0 || text.includes('%')) return null;
  // Through the URL parser, which writes hexadecimal groups: ipaddr.js 2.5 takes ::8.8.8.8 for ::ffff:8.8.8.8.
  return version === 4 ? ipaddr.IPv4.parse(text) : ipaddr.IPv6.parse(new URL(`http://[${text}]`).hostname.slice(1, -1));
}

/** CIDR notation without bits beyond the prefix: 10.1.2.3/8 may be meant as one host or as sixteen million. */
export function readNetwork(text: string): Network | null {
  const [, start = '', bits = ''] = /^([^/]+)\/(0|[1-9]\d{0,2})$/.exec(text) ?? [];
  const address = readAddress(start);
  if (address === null) return null;
  const prefix = Number(bits);
  const bytes = address.toByteArray();
  const isBeyond = (byte: number, index: number): boolean =>
    (byte & (0xff >> Math.min(8, Math.max(0, prefix - index * 8)))) !== 0;
  return prefix > bytes.length * 8 || bytes.some(isBeyond) ? null : [address, prefix];
}

/** Of networks that were checked, or that are ours. */
export function networkOf(text: string): Network {
  const network = readNetwork(text);
  if (network === null) throw new Error(`Not a network in CIDR notation without bits beyond its prefix: ${text}`);
  return network;
}

export function isIn(address: IpAddress, [start, prefix]: Network): boolean {
  return address.kind() === start.kind() && address.match(start, prefix);
}
