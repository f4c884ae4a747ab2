// The parser of ICAP: whatever the split of the bytes, it hears the same requests and the same bodies.
import t from 'tap';
import {
  ICAP_CHUNK_LINE_BYTES,
  ICAP_HEADER_BYTES,
  ICAP_HEADER_LINES,
  ICAP_TRAILER_BYTES,
  PARSED_AT_ONCE,
} from '../../src/limits.js';
import { wholeNumbers } from '../fixtures/random.js';
import { type Asked, chunks, request } from './client.js';
import { heard, listen } from './heard.js';

function randomSession(random: (below: number) => number): Buffer {
  const parts: Buffer[] = [];
  for (let left = 1 + random(4); left > 0; left -= 1) {
    const methods = ['OPTIONS', 'REQMOD', 'RESPMOD', 'RESPMOD'] as const;
    const method = methods[random(methods.length)] ?? 'RESPMOD';
    const body =
      method === 'OPTIONS' || random(4) === 0
        ? null
        : Buffer.from(Array.from({ length: random(120) }, () => random(256)));
    const asked: Asked = {
      method,
      body,
      preview: random(2) === 0 ? null : random(100),
      piece: 1 + random(40),
      http: method === 'REQMOD' ? 'POST /upload HTTP/1.1\r\nHost: a\r\n\r\n' : 'HTTP/1.1 200 OK\r\n\r\n',
      headers: random(2) === 0 ? ['Allow: 204, 206'] : ['X-Client-IP: 10.0.0.1', 'Connection: close'],
    };
    const { bytes, rest } = request(asked);
    parts.push(bytes, rest);
  }
  const whole = Buffer.concat(parts);
  const kind = random(6);
  if (kind === 0) return whole.subarray(0, random(whole.length));
  if (kind === 1) whole[random(whole.length)] = random(256);
  return whole;
}

function split(session: Buffer, pieceBytes: () => number): Buffer[] {
  const parts: Buffer[] = [];
  for (let at = 0; at < session.length; ) {
    const end = at + pieceBytes();
    parts.push(session.subarray(at, end));
    at = end;
  }
  return parts;
}

t.test('any split of a session says the same: whole, cut, or with a wrong byte', async (t) => {
  const random = wholeNumbers(33);
  let bodies = 0;
  let problems = 0;
  for (let round = 0; round < 3_000; round += 1) {
    const session = randomSession(random);
    const whole = heard([session]);
    bodies += whole.filter((word) => word.startsWith('body ')).length;
    problems += whole.filter((word) => /^\d/.test(word)).length;
    for (const parts of [split(session, () => 1 + random(9)), split(session, () => 1)]) {
      if (JSON.stringify(heard(parts)) !== JSON.stringify(whole)) t.fail(session.toString('latin1'));
    }
  }
  t.ok(bodies > 2_000 && problems > 100, `${bodies} bodies, ${problems} problems`);
});

t.test('what a client says is what is heard', async (t) => {
  const { bytes, rest } = request({
    method: 'RESPMOD',
    body: Buffer.from('abcdef'),
    preview: 4,
    headers: ['Allow: 204'],
  });
  const [head = '', ...others] = heard([bytes, rest]);
  t.match(head, /"previewBytes":4,"allows204":true,"isLast":false/);
  t.strictSame(others, ['chunk', 'preview 61626364', 'chunk', 'body 6566']);
  const whole = request({ body: Buffer.from('ab'), preview: 4 }).bytes;
  t.strictSame(heard([whole]).slice(1), ['chunk', 'body 6162'], 'ieof: the preview is all');
  const zero = request({ body: Buffer.from('ab'), preview: 0 });
  t.strictSame(heard([zero.bytes, zero.rest]).slice(1), ['preview ', 'chunk', 'body 6162']);
  t.strictSame(heard([zero.bytes, whole], false).slice(1, 2), ['preview ']);
  t.equal(heard([zero.bytes, whole], false).length, 5, 'the next request follows where the rest is not wanted');
  const trailed = Buffer.concat([bytes.subarray(0, -2), Buffer.from('Digest: x\r\n\r\n')]);
  t.strictSame(heard([trailed, rest]).slice(1), others, 'trailers are dropped');
  t.equal(heard([Buffer.from('\r\n\r\n'), whole]).length, 3, 'empty lines before a request');
});

const wrong: Readonly<Record<string, [string, number]>> = {
  'another protocol': ['GET / HTTP/1.1\r\n\r\n', 400],
  'another version': ['OPTIONS icap://a/b ICAP/1.1\r\n\r\n', 505],
  'another method': ['PATCHMOD icap://a/b ICAP/1.0\r\n\r\n', 501],
  'no Encapsulated': ['RESPMOD icap://a/b ICAP/1.0\r\n\r\n', 400],
  'two Encapsulated': [
    'RESPMOD icap://a/b ICAP/1.0\r\nEncapsulated: res-body=0\r\nEncapsulated: null-body=0\r\n\r\n',
    400,
  ],
  'a section of the other method': ['RESPMOD icap://a/b ICAP/1.0\r\nEncapsulated: req-body=0\r\n\r\n', 400],
  'a section twice': ['REQMOD icap://a/b ICAP/1.0\r\nEncapsulated: req-hdr=0, req-hdr=4, null-body=8\r\n\r\n', 400],
  'offsets that go back': [
    'RESPMOD icap://a/b ICAP/1.0\r\nEncapsulated: req-hdr=0, res-hdr=9, res-body=4\r\n\r\n',
    400,
  ],
  'a first offset above 0': ['RESPMOD icap://a/b ICAP/1.0\r\nEncapsulated: res-hdr=4, res-body=9\r\n\r\n', 400],
  'headers without an end': ['REQMOD icap://a/b ICAP/1.0\r\nEncapsulated: req-hdr=0, null-body=4\r\n\r\nabcd', 400],
  'headers that are far too long': [
    'REQMOD icap://a/b ICAP/1.0\r\nEncapsulated: req-hdr=0, null-body=999999\r\n\r\n',
    431,
  ],
  'a preview that is no number': [
    'RESPMOD icap://a/b ICAP/1.0\r\nPreview: -1\r\nEncapsulated: res-body=0\r\n\r\n',
    400,
  ],
  'a folded header': ['OPTIONS icap://a/b ICAP/1.0\r\nA: b\r\n c\r\n\r\n', 400],
  'a line without CR': ['OPTIONS icap://a/b ICAP/1.0\nHost: a\n\n', 400],
  'too many headers': [`OPTIONS icap://a/b ICAP/1.0\r\n${'A:\r\n'.repeat(ICAP_HEADER_LINES)}`, 431],
  'a head without an end': [`OPTIONS icap://a/b ICAP/1.0\r\nA: ${'a'.repeat(ICAP_HEADER_BYTES)}`, 431],
};
const wrongBodies: Readonly<Record<string, string>> = {
  'no size': '\r\n',
  'a size that is no number': 'xyz\r\n',
  'a negative size': '-1\r\n',
  'a size above 32 bits': '100000000\r\n',
  'a size line without an end': '1'.repeat(ICAP_CHUNK_LINE_BYTES + 1),
  'an extension without an end': `1;${'a'.repeat(ICAP_CHUNK_LINE_BYTES)}`,
  'a chunk that is longer than its size': '1\r\nab\r\n',
  'trailers without an end': `0\r\n${'A: b\r\n'.repeat(ICAP_TRAILER_BYTES / 6 + 1)}`,
};

t.test('what is malformed is heard of once, with its status, and nothing after it', async (t) => {
  const cases = [
    ...Object.entries(wrong),
    ...Object.entries(wrongBodies).map(([name, text]): [string, [string, number]] => [
      name,
      [`RESPMOD icap://a/b ICAP/1.0\r\nEncapsulated: res-body=0\r\n\r\n${text}`, 400],
    ]),
  ];
  for (const [name, [text, status]] of cases) {
    const bytes = Buffer.from(`${text}\r\n\r\nOPTIONS icap://a/b ICAP/1.0\r\n\r\n`);
    const words = heard([bytes]);
    t.equal(words.at(-1)?.slice(0, 4), `${status} `, name);
    t.equal(words.filter((word) => /^\d/.test(word)).length, 1, name);
    t.strictSame(heard(split(bytes, () => 1)), words, `${name}, byte by byte`);
  }
});

t.test('a chunk of a large body is handed on in the pieces in which it comes', async (t) => {
  const body = Buffer.alloc(300_000, 7);
  const { bytes } = request({ body, piece: 100_000 });
  t.same(heard(split(bytes, () => 1_000)).at(-1), `body ${body.toString('hex')}`);
  t.equal(chunks(body, 100_000).length, 300_000 + 3 * 9);
});

t.test('of what comes at once only so much is taken: some lines, or some chunks', async (t) => {
  const { parser } = listen();
  t.equal(parser.write(Buffer.from('RESPMOD icap://a/b ICAP/1.0\r\nEncapsulated: res-body=0\r\n\r\n')), 57);
  t.ok(parser.write(Buffer.from('1\r\na\r\n'.repeat(1_000))) <= 6 * PARSED_AT_ONCE);
  t.ok(listen().parser.write(Buffer.from('\r\n'.repeat(1_000))) <= 2 * PARSED_AT_ONCE);
});
