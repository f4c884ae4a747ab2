// Downloads from an origin that misbehaves: cuts, floods, drops, nonsense, wrong certificates; and on a machine with nothing left. None hangs, all memory comes back.
import { execFileSync } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import t from 'tap';
import { makeCertificate } from '../fixtures/certificate.js';
import { type OriginConnection, redirect, response } from '../fixtures/origin.js';
import { until } from '../fixtures/until.js';
import { cleared, flood, LOST, MIB, openHarness, refusal, URL_OF_FILE } from './harness.js';

const NOT_HTTP = 'downloadFailed: the response is not valid HTTP';
const TOO_SLOW = 'downloadFailed: the origin took too long';

t.test('a body that is cut is no content, wherever it is cut', async (t) => {
  const cut: Record<string, string> = {
    'fewer bytes than declared': 'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\ncontent',
    'a chunk cut': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\ncontent',
    'chunked without its end': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ncontent\r\n',
    'the last chunk cut': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ncontent\r\n0\r\n',
    'headers cut': 'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n',
    'status line cut': 'HTTP/1.1 2',
    nothing: '',
  };
  for (const [name, bytes] of Object.entries(cut)) {
    for (const isReset of [false, true]) {
      const harness = await openHarness(t, {
        async answer({ send, end, socket }) {
          if (bytes !== '') await send(bytes);
          if (isReset) socket.resetAndDestroy();
          else end();
        },
      });
      t.match(
        await refusal(harness.fetch(URL_OF_FILE)),
        /^downloadFailed: the (connection was lost|response is not)/,
        name,
      );
      cleared(t, harness);
    }
  }
  const connections: OriginConnection[] = [];
  const reset = await openHarness(t, {
    answer(asked) {
      connections.push(asked);
      void asked.send('HTTP/1.1 200 OK\r\n\r\ncontent without a length');
    },
  });
  const work = refusal(reset.fetch(URL_OF_FILE));
  await until(() => reset.memory.lentBytes > 0);
  connections[0]?.socket.resetAndDestroy();
  t.equal(await work, LOST, 'a reset is not the end of a body that ends with its connection');
});

t.test('what is not HTTP is refused, and floods are cut', async (t) => {
  const bad: Record<string, string> = {
    'not HTTP': 'SSH-2.0-OpenSSH_9.2\r\n',
    'two lengths': 'HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 8\r\n\r\ncontent',
    'the same length twice': 'HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 7\r\n\r\ncontent',
    'a list of lengths': 'HTTP/1.1 200 OK\r\nContent-Length: 7, 7\r\n\r\ncontent',
    'a length beyond counting': `HTTP/1.1 200 OK\r\nContent-Length: ${'9'.repeat(23)}\r\n\r\ncontent`,
    'chunks of chunks':
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ncontent\r\n0\r\n\r\n',
    'chunks within another coding':
      'HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked, gzip\r\n\r\n7\r\ncontent\r\n0\r\n\r\n',
    'length and chunks': 'HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'a chunk size that is none': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\ncontent\r\n',
    'a chunk size beyond counting': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n',
    'one long header': `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`,
    'many headers': `HTTP/1.1 200 OK\r\n${'X: y\r\n'.repeat(20_000)}\r\n`,
    'a null byte': 'HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n',
    'HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'a switch that nobody asked for': 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n',
  };
  for (const [name, bytes] of Object.entries(bad)) {
    const harness = await openHarness(t, { answer: ({ send }) => send(bytes) });
    const isSwitch = name.startsWith('a switch');
    t.equal(await refusal(harness.fetch(URL_OF_FILE)), isSwitch ? LOST : NOT_HTTP, name);
    cleared(t, harness);
  }
  for (const [name, head, piece] of [
    ['headers without end', 'HTTP/1.1 200 OK\r\n', 'X-Some-Header: and its value\r\n'.repeat(50)],
    ['a header without end', 'HTTP/1.1 200 OK\r\nX: ', 'x'.repeat(1000)],
    [
      'trailers without end',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n',
      'X-Trailer: value\r\n'.repeat(50),
    ],
    ['responses ahead of the response', '', 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(2500)],
    ['chunks of one byte', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', '1\r\nx\r\n'.repeat(10_000)],
    ['a chunk extension without end', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;', 'x'.repeat(60_000)],
  ] as const) {
    let sent: Promise<number> = Promise.resolve(0);
    const harness = await openHarness(t, {
      async answer(connection) {
        await connection.send(head);
        sent = flood(connection, piece);
      },
    });
    t.equal(await refusal(harness.fetch(URL_OF_FILE)), NOT_HTTP, name);
    t.ok((await sent) < 8 * MIB, `${await sent} bytes, kernel buffers included`);
    cleared(t, harness);
  }
});

t.test('an origin that is too slow is left, at each stage', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n';
  const trickle = async (connection: OriginConnection, start: string, byte: string): Promise<void> => {
    await connection.send(start);
    const timer = setInterval(() => void connection.send(byte), 20);
    await connection.closed;
    clearInterval(timer);
  };
  const hints = async (connection: OriginConnection): Promise<void> => {
    for (let count = 0; count < 30; count += 1) {
      await connection.send('HTTP/1.1 103 Early Hints\r\n\r\n');
      await delay(50);
    }
    await connection.send('HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncontent');
  };
  const stages: Record<string, [Parameters<typeof openHarness>[1], string]> = {
    'no answer': [{ headersMs: 200 }, TOO_SLOW],
    'headers in drops': [{ timeoutMs: 400, answer: (c) => trickle(c, 'HTTP/1.1 200 OK\r\nX: ', 'x') }, TOO_SLOW],
    'early hints without end': [
      { timeoutMs: 400, answer: (c) => trickle(c, '', 'HTTP/1.1 103 Early Hints\r\n\r\n') },
      TOO_SLOW,
    ],
    'an answer behind many early hints': [{ headersMs: 400, answer: hints }, TOO_SLOW],
    'silence in the body': [{ idleMs: 200, answer: ({ send }) => send(`${head}content`) }, TOO_SLOW],
    'a body in drops': [{ timeoutMs: 400, answer: (c) => trickle(c, head, 'x') }, TOO_SLOW],
    'a body in drops, silent end': [{ timeoutMs: 400, answer: ({ send }) => send(head) }, TOO_SLOW],
    'chunk extensions without end': [
      { timeoutMs: 400, answer: (c) => trickle(c, 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;', 'x') },
      TOO_SLOW,
    ],
    'a DNS server that is silent': [
      { dnsMs: 300, dns: () => 'silence' },
      'downloadFailed: the host name does not resolve',
    ],
    'a DNS server that is silent for all of it': [{ timeoutMs: 300, dns: () => 'silence' }, TOO_SLOW],
    'redirects in drops': [
      {
        timeoutMs: 700,
        answer: ({ send }) => setTimeout(() => void send(redirect('/again')), 200),
      },
      TOO_SLOW,
    ],
  };
  for (const [name, [settings, expected]] of Object.entries(stages)) {
    const harness = await openHarness(t, settings);
    t.equal(await refusal(harness.fetch(URL_OF_FILE)), expected, name);
    cleared(t, harness);
  }
});

t.test('certificates are verified, and plain text where TLS belongs is no answer', async (t) => {
  const TLS = 'downloadFailed: TLS failed, or the certificate is not valid for the host';
  const selfSigned = makeCertificate({ name: 'files.example', hosts: ['files.example'] });
  const before = process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
  t.teardown(() => {
    if (before === undefined) delete process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
  });
  for (const setting of [undefined, '0']) {
    if (setting !== undefined) process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = setting;
    const harness = await openHarness(t, { tls: selfSigned, answer: ({ send }) => send(response('content')) });
    t.equal(await refusal(harness.fetch('https://files.example/a')), TLS, 'a certificate that signs itself');
    t.equal(harness.origin.heads.length, 0);
    cleared(t, harness);
  }
  // Plain HTTP is spoken at the port of https, and TLS at that of http.
  const stray = await openHarness(t, { timeoutMs: 2_000, answer: ({ send }) => send(response('content')) });
  t.match(
    await refusal(stray.fetch('https://files.example/a')),
    /^downloadFailed: (TLS failed|no connection|the origin took)/,
  );
  cleared(t, stray);
  const secure = await openHarness(t, { tls: selfSigned });
  t.match(
    await refusal(secure.fetch(`http://files.example:443/a`)),
    /^downloadFailed: the (connection was|response is)/,
  );
  cleared(t, secure);
});

t.test('nobody listens', async (t) => {
  const harness = await openHarness(t);
  await harness.origin.stop();
  t.equal(await refusal(harness.fetch(URL_OF_FILE)), 'downloadFailed: no connection to the host');
  t.equal(await refusal(harness.fetch('https://files.example/')), 'downloadFailed: no connection to the host');
  cleared(t, harness);
});

t.test('whatever an origin says, in whatever pieces, is content or a failure', async (t) => {
  const fragment = fc.oneof(
    fc.constantFrom(
      'HTTP/1.1 200 OK\r\n',
      'HTTP/1.0 200 OK\r\n',
      'HTTP/1.1 100 Continue\r\n\r\n',
      'HTTP/1.1 103 X\r\n\r\n',
    ),
    fc.constantFrom(
      'Content-Length: 5\r\n',
      'Content-Length: 0\r\n',
      'Transfer-Encoding: chunked\r\n',
      'Transfer-Encoding: gzip\r\n',
    ),
    fc.constantFrom(
      'Connection: keep-alive\r\n',
      'Connection: close\r\n',
      'Connection: upgrade\r\nUpgrade: x\r\n',
      'Keep-Alive: timeout=0\r\n',
    ),
    fc.constantFrom(
      '\r\n',
      '\r\n\r\n',
      '0\r\n\r\n',
      '5\r\nhello\r\n',
      'hello',
      '\0',
      'HTTP/1.1 304 X\r\n\r\n',
      'Trailer: x\r\n',
    ),
    fc.constantFrom(
      'HTTP/1.1 204 X\r\n',
      'HTTP/1.1 302 X\r\nLocation: /\r\n',
      'HTTP/1.1 101 X\r\n\r\n',
      'x'.repeat(70_000),
    ),
  );
  const said = fc.record({
    pieces: fc.array(
      fc.array(fragment, { maxLength: 6 }).map((parts) => parts.join('')),
      { minLength: 1, maxLength: 6 },
    ),
    isReset: fc.boolean(),
  });
  let now: { readonly pieces: readonly string[]; readonly isReset: boolean } = { pieces: [], isReset: false };
  const harness = await openHarness(t, {
    async answer({ send, end, socket }) {
      const { pieces, isReset } = now;
      for (const piece of pieces.filter((each) => each !== '')) await send(piece);
      if (isReset) socket.resetAndDestroy();
      else end();
    },
  });
  const head = 'HTTP/1.1 200 OK\r\n';
  await fc.assert(
    fc.asyncProperty(said, fc.boolean(), async (script, isLikely) => {
      now = isLikely ? { ...script, pieces: [head, ...script.pieces] } : script;
      const outcome = await refusal(harness.fetch(URL_OF_FILE));
      if (!/^(it succeeded|fileEmpty$|downloadFailed: |urlRejected: too many redirects$)/.test(outcome))
        throw new Error(outcome);
      if (harness.memory.lentBytes + harness.downloads.running !== 0) throw new Error('something was kept');
    }),
    { numRuns: 600 },
  );
});

t.test('without a descriptor left it is not the origin that fails, and later downloads succeed', (t) => {
  const script = fileURLToPath(new URL('few-descriptors.js', import.meta.url));
  const output = execFileSync('sh', ['-c', 'ulimit -n 256; exec "$@"', 'sh', process.execPath, script]);
  const none = 'unavailable.downloadSlotsTaken';
  t.strictSame(JSON.parse(String(output)), [none, 'content', none, 'content']);
  t.end();
});
