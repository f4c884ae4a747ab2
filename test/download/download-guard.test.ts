// Downloads against a hostile DNS server and hostile redirects: nothing that the guard refuses is ever dialled.
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { createResolve } from '../../src/download/downloads.js';
import { ORIGIN_ADDRESSES } from '../../src/limits.js';
import { makeCertificate } from '../fixtures/certificate.js';
import { addressRecords, type DnsAnswer, type Question, startDnsServer } from '../fixtures/dns-server.js';
import { redirect, response } from '../fixtures/origin.js';
import { dotted, groups, isMetadata, isPublicIpv4, isPublicIpv6 } from './address-registries.js';
import { type Harness, openHarness, PUBLIC, refusal } from './harness.js';
import { urlCases } from './url-table.js';

const NOT_PUBLIC = 'urlRejected: address is not public';
const UNKNOWN = 'downloadFailed: the host name does not resolve';
const never = new AbortController().signal;

function untouched(t: Test, { dialled, origin, memory, downloads }: Harness, message: string): void {
  t.strictSame(dialled, [], `${message}: nothing was dialled`);
  t.equal(origin.accepted, 0);
  t.equal(memory.lentBytes, 0);
  t.equal(downloads.running, 0);
}

/** Answers with the addresses of a name; a name that isn't listed doesn't exist. */
function zone(names: Readonly<Record<string, readonly string[]>>): (question: Question) => DnsAnswer {
  return (question) => {
    const addresses = names[question.name];
    return addresses === undefined ? { code: 3 } : addressRecords(question, addresses);
  };
}

t.test('one address that may not be dialled spoils the host, whatever is beside it', async (t) => {
  const mixes: string[][] = [
    ['127.0.0.1'],
    [PUBLIC, '127.0.0.1'],
    ['127.0.0.1', PUBLIC],
    [PUBLIC, '::1'],
    ['2606:2800:220:1::1', '169.254.169.254'],
    [PUBLIC, '8.8.8.8', '1.1.1.1', '10.0.0.1'],
    [PUBLIC, '::ffff:8.8.8.8'],
    [PUBLIC, '64:ff9b::7f00:1'],
    // More than are dialled: the last one counts as well.
    [...Array.from({ length: 60 }, (_, index) => `8.8.${index}.8`), '192.168.0.1'],
  ];
  for (const addresses of mixes) {
    const harness = await openHarness(t, { dns: zone({ 'mixed.example': addresses }) });
    t.equal(await refusal(harness.fetch('http://mixed.example/a')), NOT_PUBLIC, addresses.slice(-3).join());
    untouched(t, harness, addresses.slice(-3).join());
  }
});

t.test('the address that is checked is the one that is dialled: a name that changes gains nothing', async (t) => {
  let asked = 0;
  const harness = await openHarness(t, {
    dns(question) {
      if (question.type !== 'A') return [];
      asked += 1;
      return addressRecords(question, [asked % 2 === 1 ? PUBLIC : '127.0.0.1']);
    },
    answer: ({ send, path }) => send(path === '/again' ? redirect('/a') : response('public content')),
  });
  t.match(await harness.fetch('http://rebind.example/a'), { text: 'public content' });
  t.equal(asked, 1, 'asked once for one connection');
  t.equal(await refusal(harness.fetch('http://rebind.example/a')), NOT_PUBLIC);
  t.match(await harness.fetch('http://rebind.example/a'), { text: 'public content' });
  asked = 0;
  t.equal(
    await refusal(harness.fetch('http://rebind.example/again')),
    NOT_PUBLIC,
    'a redirect to itself is resolved anew',
  );
  t.strictSame(harness.dialled, [PUBLIC, PUBLIC, PUBLIC]);
});

t.test('whatever addresses a name has, only public ones are dialled, and only when all are', async (t) => {
  let addresses: readonly string[] = [];
  const harness = await openHarness(t, {
    dns: (question) => addressRecords(question, addresses),
    answer: ({ send }) => send(response('x')),
  });
  const any4 = fc.nat(0xffffffff);
  const any6 = fc.bigInt({ min: 0n, max: (1n << 128n) - 1n });
  const unicast6 = fc.bigInt({ min: 0x2000n << 112n, max: (0x4000n << 112n) - 1n });
  const record = fc.oneof(
    {
      weight: 4,
      arbitrary: any4.map((value) => ({ text: dotted(value), isPublic: isPublicIpv4(value) && !isMetadata(value) })),
    },
    fc.oneof(any6, unicast6).map((value) => ({
      text: new URL(
        `http://[${groups(value)
          .map((group) => group.toString(16))
          .join(':')}]`,
      ).hostname.slice(1, -1),
      isPublic: isPublicIpv6(value),
    })),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(record, { minLength: 1, maxLength: 4 }), async (records) => {
      addresses = records.map(({ text }) => text);
      harness.dialled.length = 0;
      const outcome = await refusal(harness.fetch('http://any.example/'));
      const isGood = records.every(({ isPublic }) => isPublic);
      if (outcome.startsWith('it succeeded') !== isGood) throw new Error(`${addresses.join()} ${outcome}`);
      const strange = harness.dialled.filter((address) => !addresses.includes(address));
      if (strange.length > 0 || (!isGood && harness.dialled.length > 0))
        throw new Error(`dialled ${harness.dialled.join()}`);
    }),
    { numRuns: 300 },
  );
});

t.test('when one address of a host does not answer, the next is dialled', async (t) => {
  const harness = await openHarness(t, {
    dns: zone({ 'two.example': ['8.8.8.8', PUBLIC] }),
    // Nobody listens at the first.
    dialAddress: (address) => (address === PUBLIC ? '127.0.0.1' : '127.0.0.2'),
    answer: ({ send }) => send(response('x')),
  });
  t.match(await harness.fetch('http://two.example/'), { text: 'x' });
  t.strictSame([...harness.dialled].sort(), ['8.8.8.8', PUBLIC]);
});

t.test('a host with more addresses than one has is refused before they are looked at', async (t) => {
  const many = Array.from({ length: ORIGIN_ADDRESSES }, (_, index) => `8.8.4.${index}`);
  const harness = await openHarness(t, {
    dns: zone({ 'many.example': many, 'more.example': [...many, PUBLIC] }),
    answer: ({ send }) => send(response('x')),
  });
  t.match(await harness.fetch('http://many.example/'), { text: 'x' });
  harness.dialled.length = 0;
  t.equal(await refusal(harness.fetch('http://more.example/')), 'downloadFailed: the host name has too many addresses');
  t.same(harness.dialled, []);
});

t.test('aliases are judged by where they end', async (t) => {
  const chain =
    (end: string) =>
    (question: Question): DnsAnswer => {
      const records = addressRecords(question, [end]).map((record) => ({ ...record, name: 'third.example' }));
      return [
        { type: 'CNAME', data: 'second.example' },
        { type: 'CNAME', name: 'second.example', data: 'third.example' },
        ...records,
      ];
    };
  for (const end of ['127.0.0.1', '10.0.0.1', '169.254.169.254', '::1', 'fd00:ec2::254']) {
    const harness = await openHarness(t, { dns: chain(end) });
    t.equal(await refusal(harness.fetch('http://alias.example/')), NOT_PUBLIC, end);
    untouched(t, harness, end);
  }
  const harness = await openHarness(t, { dns: chain(PUBLIC), answer: ({ send }) => send(response('x')) });
  t.match(await harness.fetch('http://alias.example/'), { text: 'x', filename: 'alias.example' });
  const loop = await openHarness(t, { dns: ({ name }) => [{ type: 'CNAME', data: name }] });
  t.equal(await refusal(loop.fetch('http://alias.example/')), UNKNOWN, 'an alias of itself');
  untouched(t, loop, 'loop');
});

t.test('a name without an address does not resolve, whatever the DNS says', async (t) => {
  const scripts: Record<string, (question: Question) => DnsAnswer> = {
    'no such name': () => ({ code: 3 }),
    'no addresses': () => [],
    refused: () => ({ code: 5 }),
    'server failure': () => ({ code: 2 }),
    'not an answer': () => ({ raw: Buffer.from('nonsense') }),
    'cut in the header': () => ({ raw: Buffer.from([0x81]) }),
    'records that are not there': () => ({ raw: Buffer.from([0x81, 0x80, 0, 1, 0, 9, 0, 0, 0, 0]) }),
  };
  for (const [name, dns] of Object.entries(scripts)) {
    const harness = await openHarness(t, { dns, dnsMs: 500 });
    t.equal(await refusal(harness.fetch('http://nowhere.example/')), UNKNOWN, name);
    untouched(t, harness, name);
  }
});

t.test('one family that fails does not keep the other from being used', async (t) => {
  const silent = await openHarness(t, {
    dnsMs: 500,
    dns: (question) => (question.type === 'AAAA' ? 'silence' : addressRecords(question, [PUBLIC])),
    answer: ({ send }) => send(response('x')),
  });
  t.match(await silent.fetch('http://half.example/'), { text: 'x' });
  t.strictSame(silent.dialled, [PUBLIC]);
});

t.test('names are asked for as they are, and an answer too long for a datagram is asked for again', async (t) => {
  const many = Array.from({ length: 60 }, (_, index) => `8.8.${index}.8`);
  const server = await startDnsServer(zone({ 'many.example': many, single: [PUBLIC] }));
  t.teardown(() => server.stop());
  const hosts = new Map([['listed.example', ['10.0.0.1', '::1']]]);
  const resolve = createResolve({ servers: [server.address], hosts });
  t.strictSame(await resolve('many.example', never), many);
  t.ok(server.questions.some(({ transport }) => transport === 'tcp'));
  t.strictSame(await resolve('single', never), [PUBLIC]);
  t.strictSame(await resolve('many.example.', never), many, 'the root dot changes nothing');
  const before = server.questions.length;
  t.strictSame(await resolve('listed.example', never), ['10.0.0.1', '::1'], 'all that the hosts file says');
  t.equal(server.questions.length, before, 'and the DNS is not asked');
  await t.rejects(resolve('unknown', never), { code: 'downloadFailed' });
  t.ok(
    server.questions.every(({ name }) => ['many.example', 'single', 'unknown'].includes(name)),
    'no search domain',
  );
});

t.test('every redirect is judged as the first URL was, and none is dialled before', async (t) => {
  const targets: [string, string][] = [
    ['http://127.0.0.1/', NOT_PUBLIC],
    ['http://127.1/', NOT_PUBLIC],
    ['http://0x7f000001/', NOT_PUBLIC],
    ['http://2130706433/', NOT_PUBLIC],
    ['http://0177.0.0.1/', NOT_PUBLIC],
    ['http://0/', NOT_PUBLIC],
    ['http://10.0.0.1/', NOT_PUBLIC],
    ['http://172.16.0.1/', NOT_PUBLIC],
    ['http://192.168.0.1/', NOT_PUBLIC],
    ['http://100.64.0.1/', NOT_PUBLIC],
    ['http://169.254.169.254/latest/meta-data/', NOT_PUBLIC],
    ['http://168.63.129.16/', NOT_PUBLIC],
    ['http://198.18.0.1/', NOT_PUBLIC],
    ['http://224.0.0.1/', NOT_PUBLIC],
    ['http://255.255.255.255/', NOT_PUBLIC],
    ['http://[::1]/', NOT_PUBLIC],
    ['http://[::]/', NOT_PUBLIC],
    ['http://[::ffff:127.0.0.1]/', NOT_PUBLIC],
    ['http://[64:ff9b::7f00:1]/', NOT_PUBLIC],
    ['http://[2002:7f00:1::]/', NOT_PUBLIC],
    ['http://[fe80::1]/', NOT_PUBLIC],
    ['http://[fd00::1]/', NOT_PUBLIC],
    ['//127.0.0.1/', NOT_PUBLIC],
    ['http://inside.example/', NOT_PUBLIC],
    ['//inside.example/', NOT_PUBLIC],
    ['http://localhost/', 'urlRejected: host is not allowed'],
    ['http://metadata.google.internal/', 'urlRejected: host is not allowed'],
    ['http://printer/', 'urlRejected: host is not allowed'],
    ['http://kubernetes.default.svc/', 'urlRejected: host is not allowed'],
    ['file:///etc/passwd', 'urlRejected: scheme is not http or https'],
    ['gopher://files.example/', 'urlRejected: scheme is not http or https'],
    ['data:text/plain,x', 'urlRejected: scheme is not http or https'],
    ['javascript:x', 'urlRejected: scheme is not http or https'],
    ['ws://files.example/', 'urlRejected: scheme is not http or https'],
    ['http://user:password@files.example/', 'urlRejected: credentials in the URL'],
    ['//user@files.example/', 'urlRejected: credentials in the URL'],
    ['http://files.example:22/', 'urlRejected: port is not allowed'],
    ['//files.example:6379/', 'urlRejected: port is not allowed'],
    ['http:files.example', 'urlRejected: malformed URL'],
    ['http:///files.example', 'urlRejected: malformed URL'],
    ['///127.0.0.1/', 'urlRejected: malformed URL'],
    ['http://', 'urlRejected: malformed URL'],
    ['\\\\127.0.0.1\\', 'urlRejected: control character, white space or backslash in the URL'],
    ['/\\127.0.0.1/', 'urlRejected: control character, white space or backslash in the URL'],
    ['http://files.example/a b', 'urlRejected: control character, white space or backslash in the URL'],
    ['ht\ttp://127.0.0.1/', 'urlRejected: control character, white space or backslash in the URL'],
    ['http://nowhere.example/', UNKNOWN],
    ['', 'downloadFailed: a redirect without a target'],
  ];
  for (const status of [
    '301 Moved Permanently',
    '302 Found',
    '303 See Other',
    '307 Temporary Redirect',
    '308 Permanent Redirect',
  ]) {
    for (const [target, expected] of targets) {
      const harness = await openHarness(t, {
        dns: zone({ 'files.example': [PUBLIC], 'inside.example': ['10.0.0.1'] }),
        answer: ({ send }) => send(redirect(target, status)),
      });
      t.equal(await refusal(harness.fetch('http://files.example/start')), expected, `${status} ${target}`);
      t.strictSame(harness.dialled, [PUBLIC]);
    }
  }
  const twice = await openHarness(t, {
    answer: ({ send }) => send(redirect('/a', '302 Found\r\nLocation: /b')),
  });
  t.equal(
    await refusal(twice.fetch('http://files.example/start')),
    'downloadFailed: a redirect without a target',
    'two of them',
  );
});

t.test('redirects are followed as the URL standard says, without Referer, cookies or credentials', async (t) => {
  const steps: Record<string, string> = {
    '/start': 'relative?q=1#fragment',
    '/relative?q=1': './up/x/../to',
    '/up/to': '?only=query',
    '/up/to?only=query': '//other.example/b%20c',
    '/b%20c': 'http://third.example:8443/f%C3%BC',
  };
  const harness = await openHarness(t, {
    answer: ({ send, path }) => {
      const step = steps[path];
      return send(step === undefined ? response('the end') : redirect(step, '302 Found\r\nSet-Cookie: a=b'));
    },
  });
  t.match(await harness.fetch('http://files.example/start'), { filename: 'start', text: 'the end' });
  const asked = harness.origin.heads.map((head) => {
    const host = /^host: (.*)$/m.exec(head)?.[1];
    return `${host}${head.split(' ')[1]}`;
  });
  t.strictSame(asked, [
    'files.example/start',
    'files.example/relative?q=1',
    'files.example/up/to',
    'files.example/up/to?only=query',
    'other.example/b%20c',
    'third.example:8443/f%C3%BC',
  ]);
  t.ok(harness.origin.heads.every((head) => !/^(referer|cookie|authorization):/im.test(head)));
});

t.test('five redirects are followed and a sixth is not', async (t) => {
  const harness = await openHarness(t, {
    answer: ({ send, path }) => {
      const left = Number(path.slice(1));
      return send(left === 0 ? response('the end') : redirect(`/${left - 1}`));
    },
  });
  t.match(await harness.fetch('http://files.example/5'), { text: 'the end', filename: '5' });
  t.equal(harness.origin.heads.length, 6);
  for (const hops of ['6', '100']) {
    const before = harness.origin.heads.length;
    t.equal(await refusal(harness.fetch(`http://files.example/${hops}`)), 'urlRejected: too many redirects');
    t.equal(harness.origin.heads.length - before, 6);
  }
  const loop = await openHarness(t, { answer: ({ send }) => send(redirect('/again')) });
  t.equal(await refusal(loop.fetch('http://files.example/again')), 'urlRejected: too many redirects');
});

t.test('what stands behind a blocked address changes nothing of the answer', async (t) => {
  const open = await openHarness(t, { answer: ({ send }) => send(response('secret')) });
  const closed = await openHarness(t);
  await closed.origin.stop();
  for (const harness of [open, closed]) {
    for (const port of [harness.origin.port, 80, 65_000]) {
      t.equal(await refusal(harness.fetch(`http://127.0.0.1:${port}/`)), NOT_PUBLIC);
    }
    t.strictSame(harness.dialled, []);
  }
  t.equal(open.origin.accepted, 0);
});

t.test('a network that is opened is reached, also by names of the intranet, and nothing beside it', async (t) => {
  const harness = await openHarness(t, {
    allowNetworks: ['10.1.0.0/16'],
    dns: zone({ 'files.intra': ['10.1.2.3'], 'other.intra': ['10.2.0.1'], 'both.intra': ['10.1.2.3', '10.2.0.1'] }),
    answer: ({ send, path }) => send(path === '/out' ? redirect('http://10.2.0.1/') : response('inside')),
  });
  t.match(await harness.fetch('http://files.intra/a'), { text: 'inside' });
  t.match(await harness.fetch('http://10.1.255.255/a'), { text: 'inside' });
  for (const url of ['http://other.intra/', 'http://both.intra/', 'http://10.2.0.1/', 'http://10.1.0.1/out']) {
    t.equal(await refusal(harness.fetch(url)), NOT_PUBLIC, url);
  }
  t.notOk(harness.dialled.includes('10.2.0.1'));
});

t.test('every URL of the table ends as it should, by the whole way of a download', async (t) => {
  const names = new Map<string, readonly string[]>();
  const harness = await openHarness(t, {
    tls: makeCertificate({ name: 'nobody trusts this' }),
    dns: (question) => addressRecords(question, names.get(question.name) ?? []),
    // The table redirects from /start only, and the last hop has content.
    answer: ({ send, path }) =>
      send(path === '/start' && location !== undefined ? redirect(location) : response('content')),
  });
  let location: string | undefined;
  for (const each of urlCases) {
    const { resolves = [], resolvesSequence = [resolves], redirectResolves = [] } = each;
    location = each.redirect;
    // The first hop of a redirect over plain HTTP: nobody trusts the certificate here, and the guard doesn't see it.
    const url = location === undefined ? each.url : each.url.replace(/^https:/, 'http:');
    for (const addresses of resolvesSequence) {
      names.clear();
      const target = location === undefined ? null : hostOf(location, url);
      if (target !== null) names.set(target, redirectResolves);
      const first = hostOf(url);
      if (first !== null) names.set(first, addresses);
      harness.dialled.length = 0;
      const outcome = await refusal(harness.fetch(url));
      const isAllowed = outcome.startsWith('it succeeded') || outcome.startsWith('downloadFailed: TLS failed');
      t.equal(isAllowed ? 'allow' : 'block', each.expected, `${JSON.stringify(url)} <- ${outcome}`);
      const known = [...addresses, ...redirectResolves];
      const strange = harness.dialled.filter((address) => !known.includes(address));
      // An address in the URL itself is all else that may be dialled, and only when the URL is allowed.
      if (each.expected === 'block') t.strictSame(strange, [], `${each.url} dials nothing else`);
    }
  }
});

/** As the DNS is asked for it; null for a URL without a readable one. */
function hostOf(url: string, base?: string): string | null {
  try {
    return new URL(url, base).hostname.replace(/\.$/, '');
  } catch {
    return null;
  }
}
