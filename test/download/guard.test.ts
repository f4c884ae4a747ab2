// URLs: what is refused before DNS and with which words, and what is let through unchanged.
import fc from 'fast-check';
import t from 'tap';
import { classifyHostName, createGuard } from '../../src/download/guard.js';
import { holds } from '../fixtures/holds.js';
import { ADDRESS, BLANK, CHARACTER, CREDENTIALS, HOST, MALFORMED, NAME, PORT, SCHEME } from './guard-reasons.js';

const guard = createGuard({ allowNetworks: [] });
const intranet = createGuard({ allowNetworks: ['10.0.0.0/8', '127.0.0.0/8', 'fd00::/8'] });

/** Reason to the URLs that are refused with it. */
const refused: ReadonlyMap<string, readonly string[]> = new Map([
  [BLANK, ['', ' ', '\t\r\n', '\u00a0', '\u3000 ']],
  [
    CHARACTER,
    [
      ' http://example.com/',
      'http://example.com/ ',
      'http://example.com/\n',
      'http://exam\tple.com/',
      'http://exam\r\nple.com/',
      'ht\ntp://example.com/',
      'http://example.com/a b',
      'http://example.com/?q=a b',
      'http://example.com/#a b',
      'http://example.com/\u0000',
      'http://example.com/\u007f',
      'http://example.com/\u0085',
      'http://example.com/a\u00a0b',
      'http://example.com/a\u2028b',
      'http://example.com/a\u3000b',
      'http:\\\\example.com\\',
      'http://example.com\\@127.0.0.1/',
      'http://127.0.0.1\\@example.com/',
      'http://example.com/a\\b',
      'http://example.com /',
      'http://example.com\r\nHost: 127.0.0.1/',
    ],
  ],
  [
    SCHEME,
    `ftp://example.com/ file:///etc/passwd file://example.com/ gopher://example.com:70/ ws://example.com/ wss://example.com/
    data:text/plain,x javascript:alert(1) blob:https://example.com/1 about:blank ldap://example.com/ dict://example.com/ jar:http://example.com!/
    http2://example.com/ httpx://example.com/ hxxp://example.com/ xhttp://example.com/ view-source:http://example.com/ feed:http://example.com/
    unix:///var/run/docker.sock http+unix://%2Fvar%2Frun/ ://example.com //example.com/ /etc/passwd example.com example.com:80 example.com/http://
    ?http://example.com/ #http://example.com/ <http://example.com/> "http://example.com/" http httpſ://example.com/ http.://example.com/
    1http://example.com/ -http://example.com/ url:http://example.com/`.split(/\s+/),
  ],
  [
    MALFORMED,
    `http: http:/ http:// http:/// https:///example.com/ http:////example.com/ http:example.com http:/example.com http://?a http://#a http://:80/
    http://[ http://[] http://[]/ http://] http://[::1 http://::1]/ http://::1/ http://1:2:3:4:5:6:7:8/ http://[::g]/ http://[:::1]/ http://[1::2::3]/
    http://[127.0.0.1]/ http://[example.com]/ http://[fe80::1%25eth0]/ http://[fe80::1%eth0]/ http://[::1%25]/ http://[::1]a/ http://[v1.x]/ http://[::1.2.3]/
    http://[::1.2.3.256]/ http://[::ffff:01.2.3.4]/ http://256.256.256.256/ http://1.2.3.256/ http://1.2.3.08/ http://1.2.3.4.5/ http://4294967296/ http://0x100000000/
    http://1.2.65536/ http://example.com:65536/ http://example.com:-1/ http://example.com:80a/ http://example.com:+80/ http://example.com:80:80/ http://a.0x4/
    http://a.1/ http://example.1e3.9/ http://exa%mple.com/ http://exa%00mple.com/ http://a%2fb/ http://a%5cb/ http://a%40b/ http://a%20b/ http://a%25b/ http://%/
    http://a<b/ http://a>b/ http://a^b/ http://a|b/ http://\u00ad/ http://\ufffd/ http://exam\u2100ple.com:x/`.split(
      /\s+/,
    ),
  ],
  [
    CREDENTIALS,
    `http://user@example.com/ http://user:password@example.com/ https://:password@example.com/ http://:@example.com/ http://@example.com/
    http://example.com@127.0.0.1/ http://127.0.0.1@example.com/ http://127.0.0.1:80@@example.com:80/ http://a%40b@example.com/ http://user@[::1]/
    http://example.com:80@127.0.0.1/ http://a;b@example.com/ http://metadata.google.internal@example.com/`.split(/\s+/),
  ],
  [
    NAME,
    [
      'http://a..b.com/',
      'http://example.com../',
      'http://.example.com/',
      'http://./',
      'http://.../',
      'http://a*b.com/',
      'http://*.example.com/',
      'http://a!b.com/',
      'http://a~b.com/',
      "http://a'b.com/",
      'http://a,b.com/',
      'http://a;b.com/',
      'http://a=b.com/',
      'http://a&b.com/',
      'http://a(b).com/',
      'http://{host}.com/',
      'http://a"b.com/',
      `http://${'a'.repeat(64)}.com/`,
      `http://${'a.'.repeat(126)}com/`,
    ],
  ],
  [
    HOST,
    `localhost localhost. LOCALHOST LocalHost. a.localhost a.b.localhost. localhost.localdomain localhost6.localdomain6 localhost4 localhost6 ip6-localhost
    ip6-loopback localdomain printer.local printer.local. db.internal host.docker.internal gateway.docker.internal host.containers.internal wiki.intranet wiki.intra
    wiki.corp nas.home nas.lan nas.home.arpa vault.private smtp.mail redis.service.consul web.docker db.prod.svc db.prod.svc.cluster.local a.cluster.local
    intranet metadata metadata. instance-data instance-data.ec2.internal ip-10-0-0-1.eu-west-1.compute.internal metadata.google.internal METADATA.GOOGLE.INTERNAL.
    a.metadata.google.internal metadata.goog www.metadata.goog metadata.azure.internal metadata.azure.com api.metadata.cloud.ibm.com metadata.tencentyun.com
    metadata.packet.net metadata.platformequinix.com metadata.exoscale.com data-server rancher-metadata rancher-metadata.rancher.internal kubernetes
    kubernetes.default kubernetes.default.svc kubernetes.default.svc. kubernetes.default.svc.cluster.local ai com a f router wpad exampleonion.onion name.alt
    ⓛⓞⓒⓐⓛⓗⓞⓢⓣ ｌｏｃａｌｈｏｓｔ localhost。 loc\u00adalhost l%6fcalhost metadata。google。internal metadata\uff0egoogle\uff0einternal METADATA.ＧＯＯＧＬＥ.internal
    metadata%2egoogle%2einternal ℒocalhost 𝐥𝐨𝐜𝐚𝐥𝐡𝐨𝐬𝐭 bücher`
      .split(/\s+/)
      .map((host) => `http://${host}/latest/meta-data/`),
  ],
  [
    ADDRESS,
    `0 0.0.0.0 0x0 00 127.0.0.1 127.0.0.1. 127.1 127.0.1 0177.1 0x7f.1 2130706433 017700000001 0x7f000001 0x7F.0.0.0X1 127.0.0.01 0x0000007f.1 %31%32%37.0.0.1
    １２７.0.0.1 ①②⑦.0.0.1 127。0。0。1 127.0.0.1%2e 169.254.169.254 2852039166 0xa9fea9fe 0251.0376.0251.0376 169.254.43518 169.16689662 10.0.0.1 172.31.255.255 192.168.0.1
    100.64.0.1 168.63.129.16 192.0.0.192 198.18.0.1 224.0.0.1 255.255.255.255 4294967295 [::] [::1] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1] [::ffff:7f00:1] [::FFFF:A9FE:A9FE]
    [::127.0.0.1] [64:ff9b::7f00:1] [64:ff9b:1::1] [2002:7f00:1::] [2001::1] [fe80::1] [fc00::1] [fd00:ec2::254] [ff02::1] [2001:db8::1] [3fff::1] [4000::1]
    [2606:4700::5efe:7f00:1] [::ffff:8.8.8.8] [64:ff9b::8.8.8.8]`
      .split(/\s+/)
      .flatMap((host) => [`http://${host}/`, `https://${host}:8443/a?b#c`]),
  ],
]);

/** The name of an assertion: line separators in it would end the test's protocol. */
function shown(text: string): string {
  return [...text].map((character) => (/[!-~]/.test(character) ? character : encodeURIComponent(character))).join('');
}

t.test('a URL that may not be fetched is refused, and says which rule', async (t) => {
  for (const [reason, urls] of refused) {
    for (const url of urls) t.same(guard.checkUrl(url), { allowed: false, reason }, shown(url));
  }
});

t.test('a label that is no Punycode is refused as malformed, whether Node takes it for a name or not', async (t) => {
  for (const host of ['xn--', 'xn--a.com', 'www.xn--a.com', 'a.xn--999999999.com', 'xn--bcher-kva.xn--a']) {
    const reason = /^malformed (URL|host name)$/;
    t.match(guard.checkUrl(`http://${host}/`), { allowed: false, reason }, host);
    t.equal(classifyHostName(host), 'malformed', host);
  }
  t.equal(classifyHostName('xn--bcher-kva.example'), 'public');
});

/** What is sent, and what is fetched for it. */
const allowed: readonly (readonly [string, string])[] = [
  ['http://example.com', 'http://example.com/'],
  ['https://example.com/a/b.zip?c=d&e#f', 'https://example.com/a/b.zip?c=d&e#f'],
  ['HTTPS://EXAMPLE.COM/A', 'https://example.com/A'],
  ['http://example.com./', 'http://example.com./'],
  ['http://example.com:80/', 'http://example.com/'],
  ['http://example.com:/', 'http://example.com/'],
  ['http://example.com:0080/', 'http://example.com/'],
  ['https://example.com:443/', 'https://example.com/'],
  ['http://example.com:443/', 'http://example.com:443/'],
  ['https://example.com:8443/', 'https://example.com:8443/'],
  ['http://example.com:8080/', 'http://example.com:8080/'],
  ['http://example.com:3000/', 'http://example.com:3000/'],
  ['http://example.com:65535/', 'http://example.com:65535/'],
  ['http://8.8.8.8/', 'http://8.8.8.8/'],
  ['http://134744072/', 'http://8.8.8.8/'],
  ['http://0x8.010.8.8./', 'http://8.8.8.8/'],
  ['http://[2606:4700:4700::1111]/', 'http://[2606:4700:4700::1111]/'],
  ['http://[2606:4700:4700:0:0:0:0:1111]:8080/', 'http://[2606:4700:4700::1111]:8080/'],
  ['http://a_b.example.com/', 'http://a_b.example.com/'],
  ['http://-a-.example.com/', 'http://-a-.example.com/'],
  ['http://1.example.com/', 'http://1.example.com/'],
  ['http://10.0.0.1.example.com/', 'http://10.0.0.1.example.com/'],
  ['http://127.0.0.1.nip.io/', 'http://127.0.0.1.nip.io/'],
  ['http://localhost.example.com/', 'http://localhost.example.com/'],
  ['http://mylocalhost.com/', 'http://mylocalhost.com/'],
  ['http://notlocal.net/', 'http://notlocal.net/'],
  ['http://metadata.example.com/', 'http://metadata.example.com/'],
  ['http://xmetadata.goog/', 'http://xmetadata.goog/'],
  ['http://cloud.ibm.com/', 'http://cloud.ibm.com/'],
  ['http://kubernetes.io/', 'http://kubernetes.io/'],
  ['http://kubernetes.default.example/', 'http://kubernetes.default.example/'],
  ['http://bücher.example/', 'http://xn--bcher-kva.example/'],
  ['http://faß.example/', 'http://xn--fa-hia.example/'],
  ['http://пример.рф/', 'http://xn--e1afmkfd.xn--p1ai/'],
  ['http://ｅｘａｍｐｌｅ．ｃｏｍ/', 'http://example.com/'],
  ['http://example.com/你好', 'http://example.com/%E4%BD%A0%E5%A5%BD'],
  ['http://example.com/%00%0d%0a%20%5c', 'http://example.com/%00%0d%0a%20%5c'],
  ['http://example.com/@127.0.0.1/', 'http://example.com/@127.0.0.1/'],
  ['http://example.com?@127.0.0.1/', 'http://example.com/?@127.0.0.1/'],
  ['http://example.com#@127.0.0.1/', 'http://example.com/#@127.0.0.1/'],
  ['http://example.com/http://127.0.0.1/', 'http://example.com/http://127.0.0.1/'],
  ['http://example.com/../../etc/passwd', 'http://example.com/etc/passwd'],
  [`http://${'a'.repeat(63)}.com/`, `http://${'a'.repeat(63)}.com/`],
];

t.test('a public URL is let through, as the one that is fetched', async (t) => {
  for (const [sent, fetched] of allowed) {
    const checked = guard.checkUrl(sent);
    t.ok(checked.allowed, shown(sent));
    if (checked.allowed) t.equal(checked.url.href, fetched);
  }
});

/** https://fetch.spec.whatwg.org/#port-blocking, and services that must not hear from us. */
const closedPorts =
  `0 1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119 123 135 137 139
  143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060
  5061 6000 6566 6665 6666 6667 6668 6669 6679 6697 10080
  445 873 1433 1521 1883 2181 2375 2376 2377 2379 2380 3306 3389 5432 5672 5900 5984 5985 5986 6379 6443 8500 9042 9092 9200 9300 10250 10255 11211
  27017 27018 27019`
    .split(/\s+/)
    .map(Number);

t.test('of all ports exactly the dangerous ones are closed, in opened networks too', async (t) => {
  const closed = new Set(closedPorts);
  for (const [judge, host] of [
    [guard, 'example.com'],
    [guard, '8.8.8.8'],
    [intranet, '10.0.0.1'],
  ] as const) {
    const wrong = Array.from({ length: 65_536 }, (_, port) => port).filter((port) => {
      const checked = judge.checkUrl(`http://${host}:${port}/`);
      return checked.allowed === closed.has(port) || (!checked.allowed && checked.reason !== PORT);
    });
    t.same(wrong, [], host);
  }
  t.same(guard.checkUrl('https://example.com:00022/'), { allowed: false, reason: PORT });
});

t.test(
  'opened networks let in names of an intranet, whose addresses then decide, and never a metadata service',
  async (t) => {
    for (const host of [
      'localhost',
      'files',
      'files.corp',
      'files.lan.',
      'db.prod.svc.cluster.local',
      '10.1.2.3',
      '[fd12::1]',
    ]) {
      t.ok(intranet.checkUrl(`http://${host}/`).allowed, host);
    }
    for (const host of `metadata metadata.google.internal metadata.goog. instance-data instance-data.ec2.internal rancher-metadata kubernetes
    kubernetes.default.svc.cluster.local metadata.azure.internal data-server`.split(/\s+/)) {
      t.same(intranet.checkUrl(`http://${host}/`), { allowed: false, reason: HOST }, host);
    }
    for (const host of ['192.168.0.1', '169.254.169.254', '[fd00:ec2::254]', '[::1]', '[::ffff:10.0.0.1]']) {
      t.same(intranet.checkUrl(`http://${host}/`), { allowed: false, reason: ADDRESS }, host);
    }
    for (const reason of [BLANK, CHARACTER, SCHEME, MALFORMED, CREDENTIALS, NAME]) {
      for (const url of refused.get(reason) ?? [])
        t.same(intranet.checkUrl(url), { allowed: false, reason }, shown(url));
    }
  },
);

t.test('no reason repeats what was sent', async (t) => {
  holds(
    t,
    fc.property(
      fc.oneof(
        fc.webUrl(),
        fc.string(),
        fc.ipV4(),
        fc.ipV6().map((text) => `http://[${text}]/`),
      ),
      (text) => {
        const checked = guard.checkUrl(text);
        return checked.allowed || refused.has(checked.reason) || checked.reason === PORT;
      },
    ),
    { numRuns: 2000 },
  );
});

t.test('a name with an umlaut is judged the same the ten thousandth time', async (t) => {
  // URL.canParse of Node 20 changes its mind as soon as it is optimised.
  const judged = Array.from({ length: 20_000 }, () => guard.checkUrl('http://bücher.example/').allowed);
  t.equal(judged.indexOf(false), -1);
});

t.test('ports that are listed are all that is allowed', async (t) => {
  const listed = createGuard({
    allowNetworks: [],
    ports: [
      [80, 80],
      [443, 443],
      [6379, 6379],
      [8000, 8999],
    ],
  });
  for (const port of [80, 443, 6379, 8000, 8500, 8999])
    t.ok(listed.checkUrl(`http://example.com:${port}/`).allowed, `${port}`);
  for (const port of [79, 81, 444, 7999, 9000, 65_535]) {
    t.match(listed.checkUrl(`http://example.com:${port}/`), { allowed: false, reason: PORT }, `${port}`);
  }
  t.ok(listed.checkUrl('https://example.com/').allowed);
  t.notOk(createGuard({ allowNetworks: [], ports: [[443, 443]] }).checkUrl('http://example.com/').allowed);
  t.notOk(createGuard({ allowNetworks: [], ports: [] }).checkUrl('http://example.com/').allowed);
  t.match(listed.checkUrl('http://127.0.0.1:6379/'), { reason: ADDRESS }, 'a listed port opens no address');
});
