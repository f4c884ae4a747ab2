// What HTTP/1.1 allows and what it doesn't: bodies in every cut, contradictory headers, early answers, keep-alive and pipelining (hazards F5 to F12).
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { REST_AFTER_MS } from '../../src/limits.js';
import { faultEnvironment, faulty, holdScans } from '../fixtures/faults.js';
import { enoughOfTheHour, unitsLeft } from '../fixtures/hour.js';
import { chunked, filePart, openRaw, type RawAnswer, scanRequest } from '../fixtures/raw-http.js';
import { startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const server = await startServer({ t, env: faultEnvironment });

/** Sends the pieces, each in a packet of its own as far as that can be had, and returns the first answer. */
async function exchange(pieces: readonly (string | Uint8Array)[]): Promise<RawAnswer | null> {
  const connection = await openRaw(server.port);
  for (const piece of pieces) await connection.send(piece);
  const answer = await connection.answer();
  connection.end();
  return answer;
}

function resultOf(answer: RawAnswer | null): unknown {
  const { filename, sizeInBytes, infected } = JSON.parse(answer?.body ?? '{}');
  return { status: answer?.status, filename, sizeInBytes, infected };
}

t.test('a body is read the same whole, byte by byte and at any cut', async (t) => {
  const body = filePart('\r\n--BOUNDAR\r\n\r\n--', 'cut.bin');
  const request = scanRequest(body);
  const head = request.subarray(0, request.length - body.length);
  const expected = { status: 200, filename: 'cut.bin', sizeInBytes: 17, infected: false };
  t.strictSame(resultOf(await exchange([request])), expected, 'whole');
  t.strictSame(resultOf(await exchange([head, ...Array.from(body, (byte) => Uint8Array.of(byte))])), expected, 'bytes');
  for (let cut = 1; cut < body.length; cut += 1) {
    const result = resultOf(await exchange([head, body.subarray(0, cut), body.subarray(cut)]));
    if (JSON.stringify(result) !== JSON.stringify(expected)) t.strictSame(result, expected, `cut at ${cut}`);
  }
});

t.test('a chunked body is served, and the connection closed after it', async (t) => {
  const body = filePart('chunked content', 'c.txt');
  const headers = { 'Content-Length': null, 'Transfer-Encoding': 'chunked' };
  for (const pieces of [
    [body],
    Array.from(body, (byte) => Uint8Array.of(byte)),
    [body.subarray(0, 50), body.subarray(50)],
  ]) {
    const connection = await openRaw(server.port);
    await connection.send(scanRequest(chunked(pieces), headers).subarray(0));
    const answer = await connection.answer();
    t.match(resultOf(answer), { status: 200, filename: 'c.txt', sizeInBytes: 15 });
    t.equal(answer?.headers.get('connection'), 'close');
    await connection.closed();
    connection.end();
  }
});

t.test('contradictory framing and credentials are refused, cost nothing, and close the connection', async (t) => {
  const body = filePart('x');
  await enoughOfTheHour();
  const before = await unitsLeft(server.url);
  const plain = scanRequest(body).toString('latin1');
  const twice = (line: string): string => plain.replace('Host: localhost\r\n', `Host: localhost\r\n${line}\r\n`);
  const cases: [string, string][] = [
    ['two keys', twice('X-API-KEY: ffffffffffffffffffffffffffffffff')],
    ['two hosts', twice('Host: other')],
    ['two lengths', twice(`Content-Length: ${body.length}`)],
    ['two content types', twice('Content-Type: text/plain')],
    ['length beside chunked', twice('Transfer-Encoding: chunked')],
    ['empty length', plain.replace(`Content-Length: ${body.length}`, 'Content-Length: ')],
    ['length with a sign', plain.replace('Content-Length: ', 'Content-Length: +')],
    ['gzip coding', plain.replace(`Content-Length: ${body.length}`, 'Transfer-Encoding: gzip')],
    ['gzip and chunked', plain.replace(`Content-Length: ${body.length}`, 'Transfer-Encoding: gzip, chunked')],
    [
      'two codings',
      plain.replace(`Content-Length: ${body.length}`, 'Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip'),
    ],
  ];
  for (const [name, request] of cases) {
    const connection = await openRaw(server.port);
    await connection.send(request);
    const answer = await connection.answer();
    t.ok(answer === null || answer.status === 400, `${name}: ${answer?.status} ${answer?.body}`);
    await connection.closed();
    connection.end();
  }
  t.equal(await unitsLeft(server.url), before);
});

t.test('an empty body is answered, also when the header comes in two packets', async (t) => {
  const [first, second] = scanRequest(new Uint8Array()).toString('latin1').split('h: 0');
  const answer = await exchange([`${first}`, `h: 0${second}`]);
  t.equal(answer?.status, 400);
  t.match(answer?.body, 'Malformed multipart body: unexpected end of the body');
});

t.test('a connection is kept alive over refusals and scans', async (t) => {
  const connection = await openRaw(server.port);
  for (const [request, status] of [
    [scanRequest(filePart('a')), 200],
    [scanRequest(filePart('a'), { 'X-API-KEY': null }), 401],
    [scanRequest(filePart('')), 400],
    [scanRequest(filePart('a'), { 'Content-Type': 'none' }), 415],
    [Buffer.from('GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'), 200],
    [scanRequest(filePart('b')), 200],
  ] as const) {
    await connection.send(request);
    t.equal((await connection.answer())?.status, status);
  }
  connection.end();
});

t.test('pipelined requests are answered in their order', async (t) => {
  const connection = await openRaw(server.port);
  await connection.send(
    'GET /livez HTTP/1.1\r\nHost: a\r\n\r\nGET /nothing HTTP/1.1\r\nHost: a\r\n\r\nGET /livez HTTP/1.1\r\nHost: a\r\n\r\n',
  );
  t.strictSame(
    [await connection.answer(), await connection.answer(), await connection.answer()].map((a) => a?.status),
    [200, 404, 200],
  );
  connection.end();
});

t.test('a request that comes while a scan runs is answered after it', async (t) => {
  const { order, letGo } = holdScans(t);
  const connection = await openRaw(server.port);
  await connection.send(scanRequest(filePart(faulty(order), 'first.txt')));
  await until(async () => (await server.metric('sluice_scans_running')) === 1);
  // The socket of an answer that takes longer than most is not read any more; a request before that would close the connection (docs/api.md).
  await delay(10 * REST_AFTER_MS);
  await connection.send(scanRequest(filePart('second', 'second.txt')));
  letGo();
  t.match(resultOf(await connection.answer()), { status: 200, filename: 'first.txt' });
  t.match(resultOf(await connection.answer()), { status: 200, filename: 'second.txt' });
  connection.end();
});

t.test('a request that comes in one packet with the end of a refused one is answered', async (t) => {
  const refused = scanRequest(filePart('x'.repeat(100_000)), { 'X-API-KEY': null });
  const cut = refused.length - 1_000;
  const connection = await openRaw(server.port);
  await connection.send(refused.subarray(0, cut));
  t.equal((await connection.answer())?.status, 401);
  await connection.send(Buffer.concat([refused.subarray(cut), scanRequest(filePart('second', 'second.txt'))]));
  t.match(resultOf(await connection.answer()), { status: 200, filename: 'second.txt' });
  connection.end();
});

t.test('scans pipelined in one packet are never mixed up: answers in order, or a closed connection', async (t) => {
  const connection = await openRaw(server.port);
  await connection.send(Buffer.concat([scanRequest(filePart('1', 'one')), scanRequest(filePart('2', 'two'))]));
  const answers = [await connection.answer(), await connection.answer()].filter((answer) => answer !== null);
  connection.end();
  t.strictSame(
    answers.map(resultOf),
    ['one', 'two']
      .slice(0, answers.length)
      .map((filename) => ({ status: 200, filename, sizeInBytes: 1, infected: false })),
  );
  t.equal((await upload(server.url, 'x')).status, 200);
});

t.test('a refused upload of 50 MB gets a readable answer while the client still sends', async (t) => {
  const content = Buffer.alloc(50 * 1024 * 1024, 'x');
  for (const headers of [{}, { 'Content-Length': null, 'Transfer-Encoding': 'chunked' }]) {
    const body = filePart(content);
    const request = 'Transfer-Encoding' in headers ? scanRequest(chunked([body]), headers) : scanRequest(body);
    // Reads nothing before everything is sent, as Python requests does.
    const connection = await openRaw(server.port);
    connection.socket.pause();
    await connection.send(request);
    connection.socket.resume();
    const answer = await connection.answer();
    t.equal(answer?.status, 400);
    t.strictSame(JSON.parse(answer?.body ?? ''), { error: 'Scan failed', message: 'File size exceeds limit: 10MB' });
    connection.end();
  }
  t.equal((await upload(server.url, 'x')).status, 200);
});

t.test('what a hostile multipart body hides is never called clean', async (t) => {
  const bodies: [string, Buffer][] = [
    ['boundary look-alike', filePart('harmless\r\n--BOUNDARYx\r\nhidden')],
    ['no closing boundary', filePart('x').subarray(0, -4)],
    ['text after the end', Buffer.concat([filePart('x'), Buffer.from('--BOUNDARY\r\nmore')])],
    ['no headers', Buffer.from('--BOUNDARY\r\n\r\nx\r\n--BOUNDARY--\r\n')],
    ['endless headers', Buffer.from(`--BOUNDARY\r\nX: ${'a'.repeat(100_000)}`)],
    [
      'too many parts',
      Buffer.from(
        `${'--BOUNDARY\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n'.repeat(100)}--BOUNDARY--\r\n`,
      ),
    ],
  ];
  for (const [name, body] of bodies) {
    const answer = await exchange([scanRequest(body)]);
    t.equal(answer?.status, 400, name);
    t.match(JSON.parse(answer?.body ?? '{}'), { error: 'Scan failed', message: /^Malformed multipart body: / });
  }
});

t.test('an upload that is cut off gives its unit and its memory back', async (t) => {
  await enoughOfTheHour();
  const before = await unitsLeft(server.url);
  const request = scanRequest(filePart(Buffer.alloc(5_000_000, 'x')));
  for (let round = 0; round < 20; round += 1) {
    const connection = await openRaw(server.port);
    await connection.send(request.subarray(0, 1_000_000));
    connection.socket.resetAndDestroy();
  }
  await until(async () => (await unitsLeft(server.url)) === before);
  t.equal((await upload(server.url, 'x')).status, 200);
});
