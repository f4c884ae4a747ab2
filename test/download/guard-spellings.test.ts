// Every spelling of one address is judged alike.
import fc from 'fast-check';
import t from 'tap';
import { createGuard } from '../../src/download/guard.js';
import { holds } from '../fixtures/holds.js';
import { dotted, groups } from './address-registries.js';
import { ADDRESS } from './guard-reasons.js';

const guard = createGuard({ allowNetworks: [] });

/** The ways to write one number of an IPv4 address: decimal, octal and hexadecimal, padded, in either case. */
function spelledNumber(value: number): fc.Arbitrary<string> {
  const padding = fc.nat({ max: 6 }).map((length) => '0'.repeat(length));
  return fc.oneof(
    fc.constant(String(value)),
    padding.map((zeros) => `0${zeros}${value.toString(8)}`),
    padding.map((zeros) => `0x${zeros}${value.toString(16)}`),
    padding.map((zeros) => `0X${zeros}${value.toString(16).toUpperCase()}`),
  );
}

/** One to four numbers, of which the last fills what is left. */
function spelledIpv4(address: number): fc.Arbitrary<string> {
  return fc.integer({ min: 0, max: 3 }).chain((leading) => {
    const octets = [24, 16, 8].slice(0, leading).map((shift) => Math.floor(address / 2 ** shift) % 256);
    const rest = address % 2 ** (32 - 8 * leading);
    return fc.tuple(...[...octets, rest].map(spelledNumber)).map((numbers) => numbers.join('.'));
  });
}

/** What the URL parser undoes before it reads numbers. */
const disguises: readonly ((host: string) => string)[] = [
  (host) => host,
  (host) => `${host}.`,
  (host) => [...host].map((character) => `%${character.charCodeAt(0).toString(16)}`).join(''),
  (host) => [...host].map((character) => String.fromCharCode(character.charCodeAt(0) + 0xfee0)).join(''),
  (host) => host.replaceAll('.', '\u3002'),
  (host) => [...host].join('\u00ad'),
];

/** The eight groups with leading zeros, in either case, with any one run of zeros left out, and a dotted end if wanted. */
function spelledIpv6(address: bigint): fc.Arbitrary<string> {
  const values = groups(address);
  return fc
    .record({ padded: fc.boolean(), upper: fc.boolean(), dottedEnd: fc.boolean(), from: fc.nat(7), length: fc.nat(8) })
    .map(({ padded, upper, dottedEnd, from, length }) => {
      const words = values.map((value) => value.toString(16).padStart(padded ? 4 : 1, '0'));
      const tail = dottedEnd ? [dotted(Number(address & 0xffffffffn))] : words.slice(6);
      const parts = [...words.slice(0, 6), ...tail];
      const end = Math.min(from + length, dottedEnd ? 6 : 8);
      const isZeroRun = end > from && values.slice(from, end).every((value) => value === 0);
      const text = isZeroRun ? `${parts.slice(0, from).join(':')}::${parts.slice(end).join(':')}` : parts.join(':');
      return upper ? text.toUpperCase() : text;
    });
}

/** Public, private and metadata, so that both verdicts are spelled. */
const anyIpv4 = fc.oneof(
  fc.integer({ min: 0, max: 0xffffffff }),
  fc.constantFrom(0x7f000001, 0x0a000001, 0xa9fea9fe, 0xc0a80101, 0x08080808, 0x01010101, 0, 0xffffffff, 0xa83f8110),
);

t.test('every spelling of an IPv4 address is judged alike', async (t) => {
  const spelled = anyIpv4.chain((address) =>
    fc.record({ address: fc.constant(address), host: spelledIpv4(address), disguise: fc.constantFrom(...disguises) }),
  );
  holds(
    t,
    fc.property(spelled, ({ address, host, disguise }) => {
      const expected = guard.checkAddress(dotted(address));
      const checked = guard.checkUrl(`http://${disguise(host)}/`);
      return checked.allowed
        ? expected.allowed && checked.url.hostname === dotted(address)
        : !expected.allowed && checked.reason === ADDRESS;
    }),
    { numRuns: 5000 },
  );
});

t.test('every spelling of an IPv6 address is judged alike, in a URL and from the resolver', async (t) => {
  const group = fc.oneof(fc.constant(0), fc.constant(0), fc.integer({ min: 0, max: 0xffff }));
  const first = fc.constantFrom(0, 0, 0x64, 0x2001, 0x2002, 0x2606, 0x2a00, 0x3fff, 0xfd00, 0xfe80, 0xff02);
  const address = fc.oneof(
    fc.tuple(first, group, group, group, group, group, group, group),
    anyIpv4.map((inner) => [0, 0, 0, 0, 0, 0xffff, Math.floor(inner / 65_536), inner % 65_536]),
    anyIpv4.map((inner) => [0x2606, 0, 0, 0, 0x200, 0x5efe, Math.floor(inner / 65_536), inner % 65_536]),
  );
  const spelled = address.chain((values) => {
    const value = values.reduce((sum, each) => (sum << 16n) | BigInt(each), 0n);
    return fc.record({
      plain: fc.constant(values.map((each) => each.toString(16)).join(':')),
      text: spelledIpv6(value),
    });
  });
  holds(
    t,
    fc.property(spelled, ({ plain, text }) => {
      const expected = guard.checkAddress(plain).allowed;
      const inUrl = guard.checkUrl(`http://[${text}]/`);
      const reason = inUrl.allowed ? null : inUrl.reason;
      return guard.checkAddress(text).allowed === expected && reason === (expected ? null : ADDRESS);
    }),
    { numRuns: 5000 },
  );
});
