// ICAP over the wire, against the server as it is started: what each request is answered with, however its bytes are cut.
import { networkInterfaces } from 'node:os';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import t from 'tap';
import { ICAP_HEAD_MS } from '../../src/limits.js';
import { enoughOfTheHour } from '../fixtures/hour.js';
import { type Asked, CLEAN, connect, EICAR, request, startOurs } from './client.js';

const BIG = Buffer.alloc(300_000, 'clean text\n');
const POST = 'POST http://example.org/upload HTTP/1.1\r\nHost: example.org\r\n\r\n';

// One server for all whose settings go together.
const small = { STREAM_MAX_MB: '10', UPLOAD_MEMORY_MB: '64' };
const { port } = await startOurs({ ...small, ICAP_INCOMPLETE: 'block', ICAP_ALLOW_NETWORKS: '203.0.113.7/32' }, { t });

t.test('bodies with and without previews, 204 and 200', async (t) => {
  const client = await connect(port);
  t.teardown(client.end);
  const allow = ['Allow: 204'];
  const cases: readonly [string, Asked, number, boolean][] = [
    ['clean, Allow: 204', { body: CLEAN, headers: allow }, 204, false],
    ['clean, sent back', { body: CLEAN }, 200, false],
    ['clean, within the preview', { body: CLEAN, preview: 100 }, 204, false],
    ['clean, behind the preview', { body: CLEAN, preview: 5 }, 200, true],
    ['clean, behind the preview, Allow: 204', { body: CLEAN, preview: 5, headers: allow }, 204, true],
    ['clean, a preview of nothing', { body: CLEAN, preview: 0, headers: allow }, 204, true],
    ['large', { body: BIG, headers: allow }, 204, false],
    ['large, sent back', { body: BIG, piece: 65_536 }, 200, false],
    ['large, sent back behind a preview', { body: BIG, preview: 4096 }, 200, true],
    ['of no bytes', { body: Buffer.alloc(0) }, 200, false],
    ['of no bytes, in the preview', { body: Buffer.alloc(0), preview: 0 }, 204, false],
    ['no body', { body: null }, 200, false],
    ['no body, Allow: 204', { body: null, headers: allow }, 204, false],
    ['a request without a body', { method: 'REQMOD', http: 'GET / HTTP/1.1\r\n\r\n', headers: allow }, 204, false],
    ['an upload', { method: 'REQMOD', http: POST, body: CLEAN }, 200, false],
    ['without HTTP headers', { body: CLEAN, http: null }, 200, false],
  ];
  for (const piece of [Number.MAX_SAFE_INTEGER, 1]) {
    for (const [name, asked, status, isContinued] of cases) {
      if (piece === 1 && asked.body === BIG) continue;
      const answer = await client.ask(asked, piece);
      t.equal(answer.status, status, name);
      t.equal(answer.isContinued, isContinued, `${name}: 100 Continue`);
      t.match(answer.headers.get('istag'), /^"[0-9a-f]{30}"$/);
      t.equal(answer.headers.get('connection'), 'keep-alive');
      if (status === 200) {
        t.ok(
          answer.body === (asked.body ?? null) || answer.body?.equals(asked.body ?? Buffer.alloc(1)),
          `${name}: its body`,
        );
        const sent = request(asked).bytes.toString('latin1');
        t.ok(sent.includes(answer.http), `${name}: its headers`);
      }
    }
  }
  for (const preview of [null, 0, 10, 4096]) {
    for (const method of ['RESPMOD', 'REQMOD'] as const) {
      for (const headers of [[], allow]) {
        const http = method === 'REQMOD' ? POST : 'HTTP/1.1 200 OK\r\n\r\n';
        const answer = await client.ask({ method, http, body: EICAR, preview, headers });
        const name = `infected, ${method}, preview ${preview}`;
        t.equal(answer.status, 200, name);
        t.match(answer.http, /^HTTP\/1\.1 403 Forbidden\r\n/, name);
        t.match(answer.body?.toString(), 'Sluice.Test.EICAR', name);
        t.equal(answer.headers.get('x-virus-id'), 'Sluice.Test.EICAR.UNOFFICIAL', name);
        t.equal(answer.headers.get('x-infection-found'), 'Type=0; Resolution=2; Threat=Sluice.Test.EICAR.UNOFFICIAL;');
        t.match(
          answer.headers.get('x-violations-found'),
          /^1\r\n\t\S+\r\n\tSluice\.Test\.EICAR\.UNOFFICIAL\r\n\t0\r\n\t2$/,
        );
      }
    }
  }
});

t.test('OPTIONS of any service, pipelined requests, the end of a connection', async (t) => {
  for (const service of ['avscan', 'reqmod', 'respmod', 'req', '', 'srv_clamav?allow204=on']) {
    const client = await connect(port);
    const { status, headers } = await client.ask({ method: 'OPTIONS', service });
    t.equal(status, 200);
    t.match(headers.get('methods'), 'RESPMOD');
    t.match(headers.get('methods'), 'REQMOD');
    t.equal(headers.get('allow'), '204');
    t.match(headers.get('preview'), /^\d+$/);
    t.match(headers.get('max-connections'), /^\d+$/);
    t.match(headers.get('options-ttl'), /^\d+$/);
    t.equal(headers.get('service-id'), 'sluice');
    client.end();
  }
  const client = await connect(port);
  const bodies = [CLEAN, EICAR, BIG, CLEAN, EICAR];
  client.write(Buffer.concat(bodies.map((body) => request({ body, headers: ['Allow: 204'] }).bytes)));
  client.write(request({ body: CLEAN, headers: ['Allow: 204', 'Connection: close'] }).bytes);
  const statuses = [];
  for (const _ of bodies) statuses.push((await client.answer()).status);
  t.strictSame(statuses, [204, 200, 204, 204, 200], 'in the order in which they were asked');
  t.equal((await client.answer()).headers.get('connection'), 'close');
  await client.ended;
  const broken = await connect(port);
  broken.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  t.equal((await broken.answer()).status, 400);
  await broken.ended;
});

t.test('what is too large is blocked, or passed where the client has it itself', async (t) => {
  const tooLarge = Buffer.alloc(10 * 1024 * 1024 + 1, 1);
  const passing = await startOurs({ ...small, ICAP_INCOMPLETE: 'pass' }, { t });
  for (const [policy, at] of [
    ['block', port],
    ['pass', passing.port],
  ] as const) {
    const http = 'HTTP/1.1 200 OK\r\n\r\n';
    for (const asked of [
      { body: tooLarge, preview: 100 },
      { body: tooLarge, preview: 0, http },
      { body: tooLarge, headers: ['Allow: 204'] },
      { body: tooLarge, headers: ['Allow: 204'], http },
      { body: tooLarge },
    ] satisfies Asked[]) {
      const client = await connect(at);
      const answer = await client.ask(asked);
      const isPassed = policy === 'pass' && (asked.preview === 100 || asked.headers !== undefined);
      t.equal(answer.status, isPassed ? 204 : 200);
      t.match(answer.headers.get('x-sluice-notice'), 'The content is over 10 MB');
      if (!isPassed) t.match(answer.http, /^HTTP\/1\.1 403/);
      // A body that has come to its end before the answer is out of the way.
      if (answer.headers.get('connection') === 'close') await client.ended;
      else t.equal((await client.ask({ body: CLEAN, preview: 50 })).status, 204, 'it goes on');
      client.end();
    }
  }
});

t.test('a body in an encoding that nobody looks into', async (t) => {
  const client = await connect(port);
  t.teardown(client.end);
  const responseIn = (encoding: string) => `HTTP/1.1 200 OK\r\nContent-Encoding: ${encoding}\r\n\r\n`;
  const blocked = await client.ask({ body: brotliCompressSync(EICAR), http: responseIn('br'), preview: 0 });
  t.match(blocked.http, /^HTTP\/1\.1 403/);
  t.equal(blocked.headers.get('x-sluice-notice'), 'Scan incomplete: Content-Encoding br');
  t.match(blocked.headers.get('x-infection-found'), 'Type=2;');
  t.equal(blocked.headers.get('x-virus-id'), undefined);
  const found = await client.ask({ body: gzipSync(EICAR), http: responseIn('gzip'), preview: 4096 });
  t.match(found.headers.get('x-virus-id'), 'EICAR', 'gzip is unpacked by the engine');
  for (const header of [
    'Content-Encoding:\r\n br',
    'Content-Encoding : br',
    'X: a\nContent-Encoding: br',
    'X: a\rContent-Encoding: br',
    'Transfer-Encoding: br, chunked',
  ]) {
    const answer = await client.ask({ body: CLEAN, http: `HTTP/1.1 200 OK\r\n${header}\r\n\r\n`, preview: 100 });
    t.equal(answer.headers.get('x-sluice-notice'), 'Scan incomplete: Content-Encoding br', JSON.stringify(header));
  }
});

t.test('a response has the name that it says, in every way in which names are written', async (t) => {
  const client = await connect(port);
  t.teardown(client.end);
  for (const [disposition, name] of [
    ['attachment; filename="a.txt"', 'a.txt'],
    ['attachment; filename="a.txt"; filename*=UTF-8\'\'real%2Eexe', 'real.exe'],
    ['attachment; x-filename="no"; FILENAME="yes.txt"', 'yes.txt'],
    ['attachment; filename="a\\"b.txt"', 'a"b.txt'],
    ['attachment; filename=a b.txt', 'a b.txt'],
    ['filename=a.txt', 'a.txt'],
    ['attachment; filename="a.txt', 'a.txt'],
    ['inline', 'report.bin'],
  ] satisfies [string, string][]) {
    const http = `HTTP/1.1 200 OK\r\nContent-Disposition: ${disposition}\r\n\r\n`;
    const { headers } = await client.ask({ body: EICAR, http, preview: 100 });
    t.equal(headers.get('x-violations-found')?.split('\r\n\t')[1], name, disposition);
  }
});

t.test('a part of a content is blocked, since what it is a part of is not there', async (t) => {
  const client = await connect(port);
  t.teardown(client.end);
  const half = EICAR.length / 2;
  const asked = (body: Buffer, range: string, partial = '206 Partial Content'): Asked[] => [
    { body, http: `HTTP/1.1 ${partial}\r\n${range}\r\n\r\n`, preview: 100 },
    { method: 'REQMOD', body, http: `PUT http://a/ HTTP/1.1\r\n${range}\r\n\r\n`, preview: 0 },
  ];
  for (const each of [
    ...asked(EICAR.subarray(0, half), `Content-Range: bytes 0-${half - 1}/${EICAR.length}`),
    ...asked(EICAR.subarray(half), `content-range: bytes ${half}-${EICAR.length - 1}/*`),
    ...asked(CLEAN, `Content-Range: bytes 0-11/12\r\nContent-Range: bytes 0-11/24`),
    { body: CLEAN, http: 'HTTP/1.1 206 Partial Content\r\n\r\n' },
  ]) {
    const answer = await client.ask(each);
    t.match(answer.http, /^HTTP\/1\.1 403/, each.http ?? '');
    t.equal(answer.headers.get('x-sluice-notice'), 'Scan incomplete: a part of a content (Content-Range)');
  }
  for (const each of asked(CLEAN, 'Content-Range: bytes 0-11/12')) {
    t.equal((await client.ask({ ...each, headers: ['Allow: 204'] })).status, 204, 'all of it is no part');
  }
  const none = { body: CLEAN, http: 'HTTP/1.1 416 No\r\nContent-Range: bytes */12\r\n\r\n', preview: 100 };
  t.equal((await client.ask(none)).status, 204, 'nor is an answer that has none');
});

t.test('a body that is longer than its headers say is blocked, also where all of it would be clean', async (t) => {
  const client = await connect(port);
  t.teardown(client.end);
  const http = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n';
  for (const body of [CLEAN, EICAR]) {
    const answer = await client.ask({ body, http, piece: 4 });
    t.match(answer.http, /^HTTP\/1\.1 403 /);
    t.equal(answer.headers.get('x-sluice-notice'), 'Scan incomplete: the body is longer than its Content-Length');
  }
  t.match((await client.ask({ body: CLEAN.subarray(0, 5), http })).http, /^HTTP\/1\.1 200 /);
  const made = { http: 'HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n', headers: ['Allow: 204'] };
  t.equal((await client.ask({ body: CLEAN, ...made })).status, 204, 'a number that is made up, as Nextcloud does it');
  t.match((await client.ask({ body: EICAR, ...made })).headers.get('x-infection-found'), 'Type=0');
});

t.test('an account without units, and one that is not there, get 503', async (t) => {
  const { port } = await startOurs({ PLANS: 'FREE:2,BUSINESS:2' }, { t });
  await enoughOfTheHour();
  const client = await connect(port);
  t.teardown(client.end);
  t.equal((await client.ask({ body: CLEAN, preview: 100 })).status, 204);
  t.equal((await client.ask({ body: CLEAN, preview: 100 })).status, 204);
  t.equal((await client.ask({ body: Buffer.alloc(0) })).status, 200, 'what has no bytes costs nothing');
  const answer = await client.ask({ body: CLEAN, preview: 100 });
  t.equal(answer.status, 503);
  t.equal(answer.headers.get('x-sluice-notice'), 'Hourly scan limit reached');
  const other = await startOurs({ ICAP_ACCOUNT: 'nobody@example.org' });
  t.teardown(() => other.server.stop());
  const nobody = await connect(other.port);
  const refused = await nobody.ask({ body: CLEAN, preview: 5 });
  t.equal(refused.status, 503);
  t.equal(refused.headers.get('x-sluice-notice'), 'ICAP_ACCOUNT is no account');
  t.equal(await other.server.stop(), 0, 'a connection that is open and idle does not keep it');
  await nobody.ended;
});

t.test('with networks that may connect, the port is open beyond the loopback, and to nobody else', async (t) => {
  const address = Object.values(networkInterfaces())
    .flat()
    .find((each) => each?.family === 'IPv4' && !each.internal)?.address;
  const client = await connect(port);
  t.equal((await client.ask({ method: 'OPTIONS' })).status, 200);
  client.end();
  // A machine without a network has none but the loopback.
  if (address !== undefined) {
    const stranger = await connect(port, address);
    // At once, and not when it has been silent for long.
    const connectedMs = performance.now();
    await stranger.ended;
    t.ok(performance.now() - connectedMs < ICAP_HEAD_MS);
    await t.rejects(stranger.ask({ method: 'OPTIONS' }), 'closed without an answer');
    stranger.end();
  }
});
