// Every row of the IANA special-purpose registries (as published in 2025, with their RFCs), at its edges and inside it.
// https://www.iana.org/assignments/iana-ipv4-special-registry, https://www.iana.org/assignments/iana-ipv6-special-registry
import { isIPv4 } from 'node:net';
import t from 'tap';
import { createGuard } from '../../src/download/guard.js';
import { dotted, groups, ipv4 } from './address-registries.js';

const rows: readonly (readonly [string, string])[] = [
  ['0.0.0.0/8', 'RFC 791'],
  ['0.0.0.0/32', 'RFC 1122'],
  ['10.0.0.0/8', 'RFC 1918'],
  ['100.64.0.0/10', 'RFC 6598'],
  ['127.0.0.0/8', 'RFC 1122'],
  ['169.254.0.0/16', 'RFC 3927'],
  ['172.16.0.0/12', 'RFC 1918'],
  ['192.0.0.0/24', 'RFC 6890'],
  ['192.0.0.0/29', 'RFC 7335'],
  ['192.0.0.8/32', 'RFC 7600'],
  ['192.0.0.9/32', 'RFC 7723'],
  ['192.0.0.10/32', 'RFC 8155'],
  ['192.0.0.170/32', 'RFC 8880'],
  ['192.0.0.171/32', 'RFC 8880'],
  ['192.0.2.0/24', 'RFC 5737'],
  ['192.31.196.0/24', 'RFC 7535'],
  ['192.52.193.0/24', 'RFC 7450'],
  ['192.88.99.0/24', 'RFC 7526'],
  ['192.88.99.2/32', 'RFC 6751'],
  ['192.168.0.0/16', 'RFC 1918'],
  ['192.175.48.0/24', 'RFC 7534'],
  ['198.18.0.0/15', 'RFC 2544'],
  ['198.51.100.0/24', 'RFC 5737'],
  ['203.0.113.0/24', 'RFC 5737'],
  ['240.0.0.0/4', 'RFC 1112'],
  ['255.255.255.255/32', 'RFC 8190'],
  ['::1/128', 'RFC 4291'],
  ['::/128', 'RFC 4291'],
  ['::ffff:0:0/96', 'RFC 4291'],
  ['64:ff9b::/96', 'RFC 6052'],
  ['64:ff9b:1::/48', 'RFC 8215'],
  ['100::/64', 'RFC 6666'],
  ['100:0:0:1::/64', 'RFC 9780'],
  ['2001::/23', 'RFC 2928'],
  ['2001::/32', 'RFC 4380'],
  ['2001:1::1/128', 'RFC 7723'],
  ['2001:1::2/128', 'RFC 8155'],
  ['2001:1::3/128', 'RFC 9665'],
  ['2001:2::/48', 'RFC 5180'],
  ['2001:3::/32', 'RFC 7450'],
  ['2001:4:112::/48', 'RFC 7535'],
  ['2001:10::/28', 'RFC 4843'],
  ['2001:20::/28', 'RFC 7343'],
  ['2001:30::/28', 'RFC 9374'],
  ['2001:db8::/32', 'RFC 3849'],
  ['2002::/16', 'RFC 3056'],
  ['2620:4f:8000::/48', 'RFC 7534'],
  ['3fff::/20', 'RFC 9637'],
  ['5f00::/16', 'RFC 9602'],
  ['fc00::/7', 'RFC 4193'],
  ['fe80::/10', 'RFC 4291'],
  // In registries of their own.
  ['224.0.0.0/4', 'RFC 5771'],
  ['ff00::/8', 'RFC 4291'],
];

const guard = createGuard({ allowNetworks: [] });

function edges(network: string): string[] {
  const [start = '', prefix = ''] = network.split('/');
  if (isIPv4(start)) {
    const size = 2 ** (32 - Number(prefix));
    return [0, Math.floor(size / 2), size - 1].map((offset) => dotted(ipv4(start) + offset));
  }
  const size = 1n << BigInt(128 - Number(prefix));
  const hexadecimal = (value: bigint): string =>
    groups(value)
      .map((group) => group.toString(16))
      .join(':');
  return [0n, size / 2n, size - 1n].map((offset) => hexadecimal(ipv6(start) + offset));
}

function ipv6(text: string): bigint {
  const [head = '', tail = ''] = text.split('::');
  const left = head.split(':').filter((group) => group !== '');
  const right = tail.split(':').filter((group) => group !== '');
  const all = [...left, ...Array<string>(8 - left.length - right.length).fill('0'), ...right];
  return all.reduce((value, group) => (value << 16n) | BigInt(`0x${group}`), 0n);
}

t.test('nothing of a special-purpose block may be dialled', async (t) => {
  for (const [network, rfc] of rows) {
    for (const address of edges(network)) t.notOk(guard.checkAddress(address).allowed, `${address} ${network} ${rfc}`);
  }
});
