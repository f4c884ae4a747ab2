// The networks that no URL scan may reach, each with its reason: the IANA special-purpose registries and what they leave out.
// https://www.iana.org/assignments/iana-ipv4-special-registry (state of 2025)
// https://www.iana.org/assignments/iana-ipv6-special-registry (state of 2025)

export interface SpecialRange {
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
export const specialRanges: readonly SpecialRange[] = [
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
export const GLOBAL_UNICAST_IPV6 = '2000::/3';

/**
 * Where clouds answer with credentials. Refused even inside a network the operator has opened: a tailnet (100.64.0.0/10) or
 * fd00::/8 is opened for its file servers, never for these.
 */
export const metadataAddresses: readonly SpecialRange[] = [
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
