// Downloads: what is asked for and how, honest answers in every form, and sizes to the byte.
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { redirect, response } from '../fixtures/origin.js';
import { cleared, flood, LIMIT_BYTES, MIB, openHarness, PUBLIC, refusal, URL_OF_FILE } from './harness.js';

t.test('the request names Sluice and nothing else, and the content is whole', async (t) => {
  const harness = await openHarness(t, { answer: ({ send }) => send(response('content', 'Set-Cookie: a=b\r\n')) });
  const fetched = await harness.fetch(URL_OF_FILE);
  const sha256 = createHash('sha256').update('content').digest('hex');
  t.strictSame(fetched, { filename: 'report.pdf', sizeBytes: 7, sha256, text: 'content' });
  const lines = (harness.origin.heads[0] ?? '').trim().split('\r\n');
  t.equal(lines[0], 'GET /a/report.pdf?version=2 HTTP/1.1');
  t.strictSame(lines.slice(1).sort(), [
    'accept-encoding: identity',
    'accept: */*',
    'connection: close',
    'host: files.example',
    'user-agent: Sluice/1.2.3',
  ]);
  t.strictSame(harness.dialled, [PUBLIC]);
  cleared(t, harness);
});

t.test('no connection serves a second request', async (t) => {
  const harness = await openHarness(t, {
    answer: ({ send, path }) => send(path === '/b' ? response('b') : redirect('/b')),
  });
  await harness.fetch('http://files.example/a');
  await harness.fetch('http://files.example/a');
  t.equal(harness.origin.accepted, 4);
  t.equal(harness.dns.questions.filter(({ type }) => type === 'A').length, 4, 'and every one was resolved and checked');
});

t.test('proxies of the environment are not asked', async (t) => {
  for (const name of ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'ALL_PROXY']) process.env[name] = 'http://127.0.0.1:9';
  t.teardown(() => {
    for (const name of ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'ALL_PROXY']) delete process.env[name];
  });
  const harness = await openHarness(t, { answer: ({ send }) => send(response('content')) });
  t.match(await harness.fetch(URL_OF_FILE), { text: 'content' });
});

t.test('responses of every honest form', async (t) => {
  const forms: Record<string, string> = {
    length: 'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncontent',
    chunked:
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ncon\r\n4;ext=1\r\ntent\r\n0\r\nTrailer: x\r\n\r\n',
    'chunked, in pieces':
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nc|on\r|\n4;ext=1\r\ntent|\r\n0\r\nTra|iler: x\r\nOth|er: |y\r|\n\r\n',
    'a head in pieces': 'HTTP/1.1 200 OK\r\nX-Oth|er: x\r\nContent-Le|ngth: |7\r\n\r|\ncon|tent',
    'until the end of the connection': 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\ncontent',
    'HTTP/1.0': 'HTTP/1.0 200 OK\r\n\r\ncontent',
    'HTTP/1.0 with a length': 'HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\ncontent',
    'another success': 'HTTP/1.1 203 Non-Authoritative Information\r\nContent-Length: 7\r\n\r\ncontent',
    'early hints first':
      'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncontent',
    'a redirect status without being one':
      'HTTP/1.1 200 OK\r\nLocation: http://127.0.0.1/\r\nContent-Length: 7\r\n\r\ncontent',
    'keep-alive': 'HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 7\r\n\r\ncontent',
    'more bytes than it declared':
      'HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 7\r\n\r\ncontent and more',
  };
  for (const [name, bytes] of Object.entries(forms)) {
    const harness = await openHarness(t, {
      async answer({ send, end }) {
        for (const piece of bytes.split('|')) {
          await send(piece);
          if (bytes.includes('|')) await sleep(10);
        }
        end();
      },
    });
    t.match(await harness.fetch(URL_OF_FILE).catch((error: unknown) => error), { text: 'content', sizeBytes: 7 }, name);
    cleared(t, harness);
  }
});

t.test('what was read goes at once: no collection is waited for', async (t) => {
  const bytes = response(Buffer.alloc(LIMIT_BYTES, 'x'));
  const harness = await openHarness(t, { answer: ({ send }) => send(bytes) });
  await harness.fetch(URL_OF_FILE);
  const before = process.memoryUsage().arrayBuffers;
  let most = before;
  const looking = setInterval(() => {
    most = Math.max(most, process.memoryUsage().arrayBuffers);
  }, 1);
  for (let downloads = 0; downloads < 10; downloads += 1) await harness.fetch(URL_OF_FILE);
  clearInterval(looking);
  t.ok(most - before < 2 * MIB, `${(most - before) / MIB} MiB`);
});

t.test('answers that are no content', async (t) => {
  const statuses: Record<string, string> = {
    '404 Not Found': 'the origin answered with status 404',
    '500 Internal Server Error': 'the origin answered with status 500',
    '401 Unauthorized': 'the origin answered with status 401',
    '300 Multiple Choices': 'the origin answered with status 300',
    '304 Not Modified': 'the origin answered with status 304',
    '305 Use Proxy': 'the origin answered with status 305',
    '206 Partial Content': 'the origin answered with status 206',
    '302 Found': 'a redirect without a target',
    '999 Nonsense': 'the origin answered with status 999',
  };
  for (const [status, detail] of Object.entries(statuses)) {
    const harness = await openHarness(t, { answer: ({ send }) => send(response('content', '', status)) });
    t.equal(await refusal(harness.fetch(URL_OF_FILE)), `downloadFailed: ${detail}`, status);
    t.equal(harness.peakBytes(), 0, 'nothing was lent for it');
    cleared(t, harness);
  }
  for (const empty of [response(''), 'HTTP/1.1 204 No Content\r\n\r\n']) {
    const harness = await openHarness(t, { answer: ({ send }) => send(empty) });
    t.equal(await refusal(harness.fetch(URL_OF_FILE)), 'fileEmpty');
    cleared(t, harness);
  }
});

t.test('exactly the limit is content; one declared byte more ends it before a byte is read', async (t) => {
  const content = Buffer.alloc(LIMIT_BYTES + 1, 'x');
  const exact = await openHarness(t, { answer: ({ send }) => send(response(content.subarray(0, LIMIT_BYTES))) });
  t.match(await exact.fetch(URL_OF_FILE), { sizeBytes: LIMIT_BYTES });
  cleared(t, exact);

  const over = await openHarness(t, {
    answer: ({ send }) => send(`HTTP/1.1 200 OK\r\nContent-Length: ${LIMIT_BYTES + 1}\r\n\r\n`),
  });
  const asked = over.origin.next();
  t.equal(await refusal(over.fetch(URL_OF_FILE)), 'fileTooLarge');
  await (await asked).closed;
  t.equal(over.peakBytes(), 0, 'nothing was lent for it');
  cleared(t, over);

  for (const length of ['99999999999999999999', '18446744073709551616', '-1', '1e3', '0x10', '7, 7', ' ']) {
    const harness = await openHarness(t, {
      answer: ({ send }) => send(`HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n`),
    });
    t.match(
      await refusal(harness.fetch(URL_OF_FILE)),
      /^(fileTooLarge|fileEmpty|downloadFailed: the (response is not|connection was lost).*)$/,
      length,
    );
    cleared(t, harness);
  }
});

t.test('streamed bytes over the limit end it at that byte', async (t) => {
  const chunk = Buffer.alloc(64 * 1024, 'x');
  const piece = Buffer.concat([Buffer.from('10000\r\n'), chunk, Buffer.from('\r\n')]);
  const heads = {
    chunked: ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', piece],
    endless: ['HTTP/1.1 200 OK\r\n\r\n', chunk],
  } as const;
  for (const [name, [head, bytes]] of Object.entries(heads)) {
    let sent: Promise<number> = Promise.resolve(0);
    const harness = await openHarness(t, {
      async answer(connection) {
        await connection.send(head);
        sent = flood(connection, bytes);
      },
    });
    t.equal(await refusal(harness.fetch(URL_OF_FILE)), 'fileTooLarge', name);
    t.ok((await sent) < LIMIT_BYTES + 8 * MIB, `the origin got rid of ${await sent} bytes, kernel buffers included`);
    cleared(t, harness);
  }
  const exact = await openHarness(t, {
    async answer({ send, end }) {
      await send('HTTP/1.1 200 OK\r\n\r\n');
      await send(Buffer.alloc(LIMIT_BYTES));
      end();
    },
  });
  t.match(await exact.fetch(URL_OF_FILE), { sizeBytes: LIMIT_BYTES });
});

t.test('an encoded body is scanned as it is', async (t) => {
  const bomb = gzipSync(Buffer.alloc(200 * MIB));
  t.ok(bomb.length < MIB);
  const harness = await openHarness(t, { answer: ({ send }) => send(response(bomb, 'Content-Encoding: gzip\r\n')) });
  const fetched = await harness.fetch(URL_OF_FILE);
  t.equal(fetched.sizeBytes, bomb.length);
  t.equal(fetched.sha256, createHash('sha256').update(bomb).digest('hex'));
});
