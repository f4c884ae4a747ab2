// Addresses: each special range at its edges, and random ones against a second reading of the registries.
import fc from 'fast-check';
import t from 'tap';
import { createGuard } from '../../src/download/guard.js';
import { holds } from '../fixtures/holds.js';
import {
  carriersOf,
  dotted,
  groups,
  ipv4,
  isMetadata,
  isPublicIpv4,
  isPublicIpv6,
  metadata,
  registryIpv4,
  registryIpv6,
} from './address-registries.js';

const guard = createGuard({ allowNetworks: [] });

/** The colon form without compression, which needs no cleverness to write. */
function plain(value: bigint): string {
  return groups(value)
    .map((group) => group.toString(16))
    .join(':');
}

t.test('both edges of every range of the registries are refused, their neighbours judged on their own', async (t) => {
  for (const [first, last] of registryIpv4) {
    const [from, to] = [ipv4(first), ipv4(last)];
    for (const inside of [from, to, Math.floor((from + to) / 2)])
      t.notOk(guard.checkAddress(dotted(inside)).allowed, dotted(inside));
    for (const beside of [from - 1, to + 1].filter((value) => value >= 0 && value <= 0xffffffff)) {
      t.equal(guard.checkAddress(dotted(beside)).allowed, isPublicIpv4(beside), dotted(beside));
    }
  }
  for (const [from, to] of registryIpv6) {
    for (const inside of [from, to, (from + to) / 2n])
      t.notOk(guard.checkAddress(plain(inside)).allowed, plain(inside));
    for (const beside of [from - 1n, to + 1n].filter((value) => value >= 0n && value < 1n << 128n)) {
      t.equal(guard.checkAddress(plain(beside)).allowed, isPublicIpv6(beside), plain(beside));
    }
  }
});

/** At least one of each range. */
const special =
  `0.0.0.0 0.1.2.3 10.255.0.1 100.100.0.1 127.0.0.53 169.254.1.1 172.20.0.1 192.0.0.8 192.0.0.9 192.0.0.171
  192.0.2.77 192.31.196.1 192.52.193.1 192.88.99.2 192.168.178.1 192.175.48.6 198.19.0.1 198.51.100.1 203.0.113.1
  239.255.255.250 250.0.0.1 255.255.255.255 :: ::1 ::ffff:8.8.8.8 ::ffff:0:8.8.8.8 ::8.8.8.8 64:ff9b::8.8.8.8
  64:ff9b:1:808:8:800:: 64:ff9b:2::1 100::1 100:0:0:1::1 2001:0:808:808::1 2001:1::1 2001:2::1 2001:3::1
  2001:4:112::1 2001:1f::1 2001:2f::1 2001:3f::1 2001:1ff::1 2001:db8::1 2002:808:808::1 2620:4f:8000::1
  3fff:fff::1 4000::1 5f00::1 fd12:3456::1 fe80::1 febf::1 fec0::1 ff02::1 f000:: 2606:4700::200:5efe:10.0.0.1
  2606:4700::5efe:127.0.0.1`.split(/\s+/);
/** Metadata services, the last three in what carries their address. */
const services = [
  ...metadata,
  ...`fd00:ec2::254 fd00:ec2::253 fd00:ec2::23 fd20:ce::254 fd00:42::42 fd00:a9fe:a9fe::1 fd00:c1::a9fe:a9fe fe80::a9fe:a9fe
  ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 2606:4700::5efe:169.254.169.254`.split(/\s+/),
];
/** No address at all, or not in the one spelling that a resolver gives. */
const malformed = [
  '',
  '8.8.8',
  '8.8.8.8 ',
  '08.8.8.8',
  '0x8.8.8.8',
  '134744072',
  '8.8.8.8/32',
  '[2606:4700::1]',
  '2606:4700::1%eth0',
  '2606:4700::1%',
  'fe80::1%lo',
  '2606:4700:::1',
  'example.com',
];

t.test(
  'what may not be dialled is refused with one word, and only a network that is opened changes that',
  async (t) => {
    const wide = createGuard({ allowNetworks: ['0.0.0.0/0', '::/0'] });
    for (const address of [...special, ...services, ...malformed]) {
      t.same(guard.checkAddress(address), { allowed: false, reason: 'address is not public' }, address);
      t.equal(wide.checkAddress(address).allowed, special.includes(address), `${address} with everything opened`);
    }
  },
);

t.test('public addresses are allowed', async (t) => {
  const addresses = `1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 44.37.112.180 93.184.215.14 100.63.255.255 100.128.0.0 126.255.255.255
    128.0.0.0 168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.0.3.0 192.167.255.255
    192.169.0.0 198.17.255.255 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255 2000:: 2001:200::
    2001:4860:4860::8888 2001:db7:ffff::1 2001:db9::1 2003::1 2606:2800:220:1:248:1893:25c8:1946 2620:4f:7fff::1 2620:4f:8001::1
    2A00:1450:4001:830::200E 3ffe::1 3fff:1000::1 2606:4700::200:5efe:8.8.8.8 2606:4700::300:5efe:10.0.0.1`;
  for (const address of addresses.split(/\s+/)) t.same(guard.checkAddress(address), { allowed: true }, address);
});

/** IPv4 addresses, half of them in or beside a range of the registry: chance alone would visit only the large ones. */
const anyIpv4 = fc.oneof(
  fc.integer({ min: 0, max: 0xffffffff }),
  fc
    .constantFrom(...registryIpv4)
    .chain(([first, last]) =>
      fc.integer({ min: Math.max(0, ipv4(first) - 2), max: Math.min(0xffffffff, ipv4(last) + 2) }),
    ),
);

const HIGHEST = (1n << 128n) - 1n;

function clamp(value: bigint): bigint {
  return value < 0n ? 0n : value > HIGHEST ? HIGHEST : value;
}

/** IPv6 addresses: of any kind, of 2000::/3, of each range, and with an IPv4 address where a carrier would have it. */
const anyIpv6 = fc.oneof(
  fc.bigInt({ min: 0n, max: HIGHEST }),
  fc.bigInt({ min: 0x2000n << 112n, max: (0x4000n << 112n) - 1n }),
  fc
    .constantFrom(...registryIpv6)
    .chain(([first, last]) => fc.bigInt({ min: clamp(first - 2n), max: clamp(last + 2n) })),
  fc
    .tuple(fc.bigInt({ min: 0x2000n << 48n, max: (0x4000n << 48n) - 1n }), fc.constantFrom(0n, 0x200n), anyIpv4)
    .map(([prefix, flag, inner]) => (prefix << 64n) | (flag << 48n) | (0x5efen << 32n) | BigInt(inner)),
);

t.test('random addresses fare as the registries say', async (t) => {
  holds(
    t,
    fc.property(anyIpv4, (value) => guard.checkAddress(dotted(value)).allowed === isPublicIpv4(value)),
    { numRuns: 3000 },
  );
  holds(
    t,
    fc.property(anyIpv6, (value) => guard.checkAddress(plain(value)).allowed === isPublicIpv6(value)),
    { numRuns: 5000 },
  );
});

t.test('no IPv6 form opens what its IPv4 address may not, even with every IPv6 network allowed', async (t) => {
  const open = createGuard({ allowNetworks: ['::/0'] });
  fc.assert(
    fc.property(anyIpv4, fc.bigInt({ min: 0n, max: HIGHEST }), (inner, noise) => {
      const expected = isPublicIpv4(inner);
      return carriersOf(inner, noise).every((value) => {
        // Refused unless opened; opened, it is as good as what is inside.
        return !guard.checkAddress(plain(value)).allowed && open.checkAddress(plain(value)).allowed === expected;
      });
    }),
    { numRuns: 2000 },
  );
  // 10.8.8.8 behind a local-use NAT64 prefix of each length; at the other three places a public address.
  for (const place of ['a08:808:808:808:808', '80a:808:808:808:808', '808:80a:808:808:808', '808:808:808:a08:808']) {
    t.notOk(open.checkAddress(`64:ff9b:1:${place}`).allowed, place);
  }
  t.ok(open.checkAddress('64:ff9b:1:808:8:808:808:808').allowed, 'public at every place');
});

t.test('a network of the policy opens itself and nothing beside it; metadata services stay closed', async (t) => {
  fc.assert(
    fc.property(anyIpv4, fc.integer({ min: 0, max: 32 }), anyIpv4, (start, prefix, other) => {
      const size = 2 ** (32 - prefix);
      const base = Math.floor(start / size) * size;
      const opened = createGuard({ allowNetworks: [`${dotted(base)}/${prefix}`] });
      const near = base + (other % size);
      return [start, near, other].every((value) => {
        const inside = value >= base && value < base + size;
        return opened.checkAddress(dotted(value)).allowed === (!isMetadata(value) && (inside || isPublicIpv4(value)));
      });
    }),
    { numRuns: 1000 },
  );
  t.notOk(createGuard({ allowNetworks: ['10.0.0.0/8'] }).checkAddress('::ffff:10.0.0.1').allowed, 'mapped is not IPv4');
  t.ok(createGuard({ allowNetworks: ['::1/128'] }).checkAddress('0:0:0:0:0:0:0:1').allowed);
  t.notOk(createGuard({ allowNetworks: ['::1/128'] }).checkAddress('::').allowed);
});

t.test('a malformed network stops the service from starting', async (t) => {
  const malformed = `10.0.0.0 10.0.0.0/ 10.0.0.0/33 10.0.0.0/08 10.0.0.0/-1 10.0.0.0/8.0 10.0.0.0/255.0.0.0 10/8 10.0.0.1/8 0.0.0.1/0
    010.0.0.0/8 0xa.0.0.0/8 167772160/8 10.0.0.0/8/8 10.0.0.0-10.0.0.9 /8 ::1 ::/129 ::1/64 fe80::%eth0/64 [::]/0 localhost/8 *`;
  for (const network of ['', ' ', ' 10.0.0.0/8', '10.0.0.0/8 ', '10.0.0.0 /8', ...malformed.split(/\s+/)]) {
    t.throws(
      () => createGuard({ allowNetworks: ['192.168.0.0/16', network] }),
      /network|prefix/,
      JSON.stringify(network),
    );
  }
  for (const network of ['0.0.0.0/0', '10.1.2.3/32', '10.128.0.0/9', '::/0', 'fd00::/8', '::1/128', 'FD00:0::/16']) {
    t.doesNotThrow(() => createGuard({ allowNetworks: [network] }), network);
  }
});
