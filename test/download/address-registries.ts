// A second reading of the IANA special-purpose registries for the tests: plain first and last addresses, plain arithmetic, nothing of src/.

export const registryIpv4: readonly (readonly [string, string])[] = [
  ['0.0.0.0', '0.255.255.255'],
  ['10.0.0.0', '10.255.255.255'],
  ['100.64.0.0', '100.127.255.255'],
  ['127.0.0.0', '127.255.255.255'],
  ['168.63.129.16', '168.63.129.16'], // Azure WireServer: in no registry.
  ['169.254.0.0', '169.254.255.255'],
  ['172.16.0.0', '172.31.255.255'],
  ['192.0.0.0', '192.0.0.255'],
  ['192.0.2.0', '192.0.2.255'],
  ['192.31.196.0', '192.31.196.255'],
  ['192.52.193.0', '192.52.193.255'],
  ['192.88.99.0', '192.88.99.255'],
  ['192.168.0.0', '192.168.255.255'],
  ['192.175.48.0', '192.175.48.255'],
  ['198.18.0.0', '198.19.255.255'],
  ['198.51.100.0', '198.51.100.255'],
  ['203.0.113.0', '203.0.113.255'],
  ['224.0.0.0', '239.255.255.255'], // Multicast has a registry of its own.
  ['240.0.0.0', '255.255.255.255'],
];

/** First and last as 32 hexadecimal digits. */
export const registryIpv6: readonly (readonly [bigint, bigint])[] = [
  [0x00000000000000000000000000000000n, 0x00000000000000000000000000000000n],
  [0x00000000000000000000000000000001n, 0x00000000000000000000000000000001n],
  [0x00000000000000000000000000000000n, 0x000000000000000000000000ffffffffn],
  [0x00000000000000000000ffff00000000n, 0x00000000000000000000ffffffffffffn],
  [0x0064ff9b000000000000000000000000n, 0x0064ff9b0000000000000000ffffffffn],
  [0x0064ff9b000100000000000000000000n, 0x0064ff9b0001ffffffffffffffffffffn],
  [0x01000000000000000000000000000000n, 0x0100000000000000ffffffffffffffffn],
  [0x01000000000000010000000000000000n, 0x0100000000000001ffffffffffffffffn],
  [0x20010000000000000000000000000000n, 0x200101ffffffffffffffffffffffffffn],
  [0x20010000000000000000000000000000n, 0x20010000ffffffffffffffffffffffffn],
  [0x20010001000000000000000000000001n, 0x20010001000000000000000000000003n],
  [0x20010002000000000000000000000000n, 0x200100020000ffffffffffffffffffffn],
  [0x20010003000000000000000000000000n, 0x20010003ffffffffffffffffffffffffn],
  [0x20010004011200000000000000000000n, 0x200100040112ffffffffffffffffffffn],
  [0x20010010000000000000000000000000n, 0x2001001fffffffffffffffffffffffffn],
  [0x20010020000000000000000000000000n, 0x2001002fffffffffffffffffffffffffn],
  [0x20010030000000000000000000000000n, 0x2001003fffffffffffffffffffffffffn],
  [0x20010db8000000000000000000000000n, 0x20010db8ffffffffffffffffffffffffn],
  [0x20020000000000000000000000000000n, 0x2002ffffffffffffffffffffffffffffn],
  [0x2620004f800000000000000000000000n, 0x2620004f8000ffffffffffffffffffffn],
  [0x3fff0000000000000000000000000000n, 0x3fff0fffffffffffffffffffffffffffn],
  [0x5f000000000000000000000000000000n, 0x5f00ffffffffffffffffffffffffffffn],
  [0xfc000000000000000000000000000000n, 0xfdffffffffffffffffffffffffffffffn],
  [0xfe800000000000000000000000000000n, 0xfebfffffffffffffffffffffffffffffn],
  [0xfec00000000000000000000000000000n, 0xfeffffffffffffffffffffffffffffffn],
  [0xff000000000000000000000000000000n, 0xffffffffffffffffffffffffffffffffn],
];

/** The IPv4 ones of the metadata services. */
export const metadata = [
  '100.100.100.200',
  '168.63.129.16',
  '169.254.0.23',
  '169.254.42.42',
  '169.254.169.250',
  '169.254.169.253',
  '169.254.169.254',
  '169.254.170.2',
  '169.254.170.23',
  '192.0.0.192',
];

export function ipv4(text: string): number {
  return text.split('.').reduce((value, octet) => value * 256 + Number(octet), 0);
}

export function dotted(value: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join('.');
}

/** The eight groups of an IPv6 address. */
export function groups(value: bigint): number[] {
  return [112n, 96n, 80n, 64n, 48n, 32n, 16n, 0n].map((shift) => Number((value >> shift) & 0xffffn));
}

export function isMetadata(value: number): boolean {
  return metadata.includes(dotted(value));
}

export function isPublicIpv4(value: number): boolean {
  return !registryIpv4.some(([first, last]) => value >= ipv4(first) && value <= ipv4(last));
}

export function isPublicIpv6(value: bigint): boolean {
  const isUnicast = value >= 0x2000n << 112n && value < 0x4000n << 112n;
  if (!isUnicast || registryIpv6.some(([first, last]) => value >= first && value <= last)) return false;
  const interfaceHigh = (value >> 32n) & 0xffffffffn;
  const isIsatap = interfaceHigh === 0x00005efen || interfaceHigh === 0x02005efen;
  return !isIsatap || isPublicIpv4(Number(value & 0xffffffffn));
}

/** One IPv4 address in every carrier that has it at one place, with `noise` where the carrier leaves bits free. */
export function carriersOf(address: number, noise: bigint): bigint[] {
  const inner = BigInt(address);
  const publicServer = 0x08080808n;
  return [
    (0xffffn << 32n) | inner,
    (0xffff0000n << 32n) | inner,
    (0x0064ff9bn << 96n) | inner,
    // The low bits are set, so that it isn't taken for ISATAP.
    (0x2002n << 112n) | (inner << 80n) | (noise & ((1n << 80n) - 1n)) | (1n << 63n),
    (0x20010000n << 96n) | (publicServer << 64n) | (1n << 63n) | (noise & (0xffffn << 32n)) | (inner ^ 0xffffffffn),
    (0x20010000n << 96n) | (inner << 64n) | (1n << 63n) | (noise & (0xffffn << 32n)) | (publicServer ^ 0xffffffffn),
  ];
}
