// Whose address counts behind proxies: what a client can write must never win over what our own proxies saw.
import fc from 'fast-check';
import t from 'tap';
import { createAddressOf, throttledAs } from '../../src/account/throttle.js';

function addresses(trusted: readonly string[]) {
  const addressOf = createAddressOf(trusted);
  return (remoteAddress: string, forwardedFor?: string): string =>
    addressOf({
      remoteAddress: () => remoteAddress,
      headers: new Map(forwardedFor === undefined ? [] : [['x-forwarded-for', forwardedFor]]),
    });
}

const PROXIES = ['10.0.0.0/8', 'fd00::/8'];

t.test('without trusted proxies the header says nothing', async (t) => {
  const address = addresses([]);
  t.equal(address('192.0.2.1', '1.1.1.1'), '192.0.2.1');
  t.equal(address('192.0.2.1', undefined), '192.0.2.1');
  t.equal(address('0000:0000:0000:0000:0000:ffff:c000:0201', undefined), '192.0.2.1', 'as IPv6 sockets see IPv4');
  t.equal(address('2001:0db8:0000:0000:0000:0000:0000:0001', undefined), '2001:db8::1');
});

t.test('the right-most address that is no proxy counts', async (t) => {
  const address = addresses(PROXIES);
  const cases: [string, string | undefined, string][] = [
    ['192.0.2.1', '1.1.1.1', '192.0.2.1'],
    ['10.0.0.1', undefined, '10.0.0.1'],
    ['10.0.0.1', '', '10.0.0.1'],
    ['10.0.0.1', '192.0.2.1', '192.0.2.1'],
    ['10.0.0.1', '6.6.6.6, 192.0.2.1', '192.0.2.1'],
    ['10.0.0.1', '6.6.6.6, 192.0.2.1, 10.0.0.2', '192.0.2.1'],
    ['10.0.0.1', '10.0.0.3,10.0.0.2', '10.0.0.3'],
    ['::ffff:10.0.0.1', '192.0.2.1', '192.0.2.1'],
    ['fd00::1', '2001:db8::1', '2001:db8::1'],
    ['10.0.0.1', '192.0.2.1:4711', '192.0.2.1'],
    ['10.0.0.1', '[2001:db8::1]:4711', '2001:db8::1'],
    ['10.0.0.1', '[2001:db8::1]', '2001:db8::1'],
    ['10.0.0.1', '::ffff:192.0.2.1', '192.0.2.1'],
    ['10.0.0.1', 'unknown', '10.0.0.1'],
    ['10.0.0.1', '192.0.2.1, unknown', '10.0.0.1'],
    ['10.0.0.1', '192.0.2.1, nonsense, 10.0.0.2', '10.0.0.2'],
    ['10.0.0.1', '192.0.2.1, 0x7f.1', '10.0.0.1'],
    ['10.0.0.1', '192.0.2.1, 2130706433', '10.0.0.1'],
    ['10.0.0.1', '192.0.2.1, fe80::1%eth0', '10.0.0.1'],
    ['10.0.0.1', ',,,', '10.0.0.1'],
  ];
  for (const [remote, header, expected] of cases) t.equal(address(remote, header), expected, `${remote} <- ${header}`);
});

t.test('whatever a client writes, a proxy behind it names the client', async () => {
  const address = addresses(PROXIES);
  const claim = fc.oneof(fc.ipV4(), fc.ipV6(), fc.string(), fc.constant('10.0.0.9'));
  fc.assert(
    fc.property(fc.array(claim), (claims) => address('10.0.0.1', [...claims, '192.0.2.1'].join(', ')) === '192.0.2.1'),
  );
});

t.test('IPv6 is throttled by network, IPv4 by address', async (t) => {
  t.equal(throttledAs('192.0.2.1'), '192.0.2.1');
  t.equal(throttledAs('2001:db8:1:2:3:4:5:6'), '2001:db8:1:2::/64');
  t.equal(throttledAs('2001:db8:1:2::1'), '2001:db8:1:2::/64');
  t.not(throttledAs('2001:db8:1:3::1'), '2001:db8:1:2::/64');
});
