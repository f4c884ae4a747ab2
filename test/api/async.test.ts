// Asynchronous scans over the wire: accepted with 202, ended behind it, found and waited for on any node, once in the history, with units, limits and errors as synchronous ones.
import t from 'tap';
import { z } from 'zod';
import { makeAccount } from '../fixtures/another-account.js';
import { contentBytesOf, contentsOf, Scan, scanById, scanLater, scanUrlLater } from '../fixtures/async-scans.js';
import { deferred } from '../fixtures/deferred.js';
import { enoughOfTheHour, unitsLeft } from '../fixtures/hour.js';
import { onNodes } from '../fixtures/nodes.js';
import { response, startOrigin } from '../fixtures/origin.js';
import { filePart, openRaw, scanRequest, unreadBytes } from '../fixtures/raw-http.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY } from '../fixtures/server.js';
import { ask, askInTurn } from '../fixtures/sign-in.js';
import { open } from '../fixtures/stores.js';
import { until } from '../fixtures/until.js';
import { formOf, upload } from '../fixtures/upload.js';

const MIB = 1024 * 1024;
/** More than the account may have in memory of uploads whose Idempotency-Keys are looked up. */
const BURST = 400;
/** What it asks for under /held is answered when the test says so. */
let held = deferred<void>();
const origin = await startOrigin(async ({ path, send, end }) => {
  if (path === '/held') await held.promise;
  const [, how, bytes] = /^\/(declared|endless)\/(\d+)$/.exec(path) ?? [];
  if (how === undefined) return await send(response(eicar()));
  const content = Buffer.alloc(Number(bytes), 'x');
  if (how === 'declared') return await send(response(content));
  await send('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n');
  await send(content);
  return end();
});
t.teardown(() => origin.stop());
const remote = `http://127.0.0.1:${origin.port}/folder/a.com`;
const env = {
  REGISTRATION: 'open',
  PLANS: 'FREE:3,BUSINESS:10000',
  URL_ALLOW_NETWORKS: '127.0.0.1/32',
  URL_PORTS: String(origin.port),
  ASYNC_MAX_MB: '16',
  ASYNC_STORE_MB: '64',
  UPLOAD_MEMORY_MB: '32',
};
const Page = z.object({ content: z.array(Scan) });
const Listed = Page.extend({ next: z.string().nullable() });

onNodes({ env }, async (t, { one, other, database }) => {
  const { sql } = await open(t, database);
  const withKey = (key = API_KEY) => ({ headers: { 'X-API-KEY': key } });

  t.test('a file is accepted, and its verdict is at its address on any node', async (t) => {
    await enoughOfTheHour(60_000);
    const before = await unitsLeft(one.url);
    const accepted = await scanLater(one.url, eicar(), {
      filename: 'größe.com',
      headers: { 'X-Metadata': 'order%207' },
    });
    t.match(accepted, {
      status: 202,
      body: {
        ...{ filename: 'größe.com', extension: 'com', sizeInBytes: 68, metadata: 'order 7', state: 'queued' },
        ...{ infected: null, virusName: null, status: '202', error: null, url: null, engine: null, notices: [] },
        key: { name: 'First key' },
      },
    });
    const { id, ...shown } = Scan.parse(accepted.body);
    t.equal(accepted.headers.get('location'), `/api/v1/scans/${id}`);
    t.equal(accepted.headers.get('preference-applied'), 'respond-async');
    t.equal(accepted.headers.get('x-scan-id'), id);
    t.equal(accepted.headers.get('x-ratelimit-remaining'), String(before - 1));
    const done = await scanById(other.url, id, { wait: 60 });
    t.match(done, { status: 200, body: { id, state: 'completed', infected: true, status: '200' } });
    const { sha256, filename, metadata, key, creationDate } = { ...shown };
    t.match(done.body, { sha256, filename, metadata, key, creationDate });
    const listed = await until(async () => {
      const { body } = await askInTurn(`${other.url}/api/v1/scans?sha256=${sha256}`, withKey());
      const { content } = Page.parse(body);
      return content.length > 0 && content;
    });
    t.equal(listed.length, 1);
    t.match(listed, [done.body]);
    t.equal(before - (await unitsLeft(one.url)), 1);
    await until(() => contentsOf(one.directory).length === 0);
  });

  t.test('a file that no synchronous scan takes, and one byte over the limit', async (t) => {
    const content = Buffer.alloc(16 * MIB, 'x');
    const accepted = await scanLater(other.url, content);
    t.match(accepted, { status: 202, body: { sizeInBytes: 16 * MIB } });
    const { id } = Scan.parse(accepted.body);
    t.match((await scanById(one.url, id, { wait: 60 })).body, { state: 'completed', infected: false });
    const refused = await scanLater(other.url, Buffer.alloc(16 * MIB + 1));
    t.match(refused, { status: 400, body: { error: 'Scan failed', message: 'File size exceeds limit: 16MB' } });
    t.match((await scanById(one.url, refused.headers.get('x-scan-id') ?? '')).body, { state: 'failed', status: '400' });
    t.match(await upload(one.url, content), { status: 400, body: { message: 'File size exceeds limit: 10MB' } });
    await until(() => contentsOf(other.directory).length === 0);
  });

  t.test('a form, and a URL', async (t) => {
    const form = formOf(['file', new Blob([eicar()]), 'b.com'], ['metadata', 'of a form']);
    const headers = { 'X-API-KEY': API_KEY, Prefer: 'wait=5, Respond-Async' };
    const { body } = await ask(`${one.url}/api/v1/scans`, { method: 'POST', body: form, headers });
    const ofForm = await scanById(other.url, Scan.parse(body).id, { wait: 60 });
    t.match(ofForm.body, { filename: 'b.com', infected: true, metadata: 'of a form' });

    const accepted = await scanUrlLater(one.url, remote);
    t.match(accepted, { status: 202, body: { filename: 'a.com', sizeInBytes: null, sha256: null, url: remote } });
    const ofUrl = await scanById(other.url, Scan.parse(accepted.body).id, { wait: 60 });
    t.match(ofUrl.body, { state: 'completed', infected: true, sizeInBytes: 68, url: remote });
    const refused = await scanUrlLater(one.url, `http://169.254.169.254:${origin.port}/`);
    t.match(refused, { status: 400, body: { message: 'URL rejected: address is not public' } });
    const gone = await scanUrlLater(one.url, `http://name.invalid:${origin.port}/`);
    const failed = await scanById(other.url, Scan.parse(gone.body).id, { wait: 60 });
    t.match(failed.body, { state: 'failed', infected: null, status: '422', error: /^Download failed/ });
  });

  t.test('the limit of a URL is 10 MB, whatever files may have', async (t) => {
    for (const how of ['declared', 'endless']) {
      const ofUrl = async (bytes: number) => {
        const { body } = await scanUrlLater(one.url, `http://127.0.0.1:${origin.port}/${how}/${bytes}`);
        return (await scanById(other.url, Scan.parse(body).id, { wait: 60 })).body;
      };
      t.match(await ofUrl(10 * MIB), { state: 'completed', infected: false, sizeInBytes: 10 * MIB }, how);
      const error = 'File size exceeds limit: 10MB';
      t.match(await ofUrl(10 * MIB + 1), { state: 'failed', infected: null, status: '400', error }, how);
      t.match(await ofUrl(16 * MIB + 1), { state: 'failed', infected: null, status: '400', error }, how);
    }
  });

  t.test('the list has it before it has ended, and once when it has', async (t) => {
    held = deferred();
    const address = `http://127.0.0.1:${origin.port}/held`;
    const before = await scanLater(one.url, 'before', { filename: 'before' });
    t.match((await scanById(other.url, Scan.parse(before.body).id, { wait: 60 })).body, { state: 'completed' });
    const { id } = Scan.parse((await scanUrlLater(one.url, address)).body);
    const after = await scanLater(one.url, 'after', { filename: 'after' });
    t.match((await scanById(other.url, Scan.parse(after.body).id, { wait: 60 })).body, { state: 'completed' });
    const list = async (query: string) =>
      Listed.parse((await askInTurn(`${other.url}/api/v1/scans?${query}`, withKey())).body);
    const first = await list('limit=2');
    t.match(first.content, [
      { filename: 'after', state: 'completed' },
      { id, url: address, status: '202', infected: null },
    ]);
    t.equal(first.next, id);
    t.match((await list(`limit=1&cursor=${first.next}`)).content, [{ filename: 'before' }]);
    t.match((await list(`limit=1&cursor=${Scan.parse(after.body).id}`)).content, [{ id }]);
    for (const query of [
      'verdict=none',
      'protocol=icap',
      `sha256=${'0'.repeat(64)}`,
      'to=2020-01-01',
      'from=2120-01-01',
    ]) {
      t.notOk(
        (await list(query)).content.some((scan) => scan.id === id),
        query,
      );
    }
    const foreign = await makeAccount(one.url, 'lists@example.com');
    t.strictSame((await ask(`${one.url}/api/v1/scans`, withKey(foreign.key))).body, { content: [], next: null });
    held.resolve();
    t.match((await scanById(other.url, id, { wait: 60 })).body, { state: 'completed', infected: true });
    t.match((await list('limit=3')).content, [
      { filename: 'after' },
      { id, state: 'completed' },
      { filename: 'before' },
    ]);
  });

  t.test('preferences in two lines are one list', async (t) => {
    const connection = await openRaw(one.port);
    const prefer = 'handling=lenient\r\nPrefer: respond-async';
    await connection.send(scanRequest(filePart('listed'), { Prefer: prefer }));
    t.match(await connection.answer(), { status: 202 });
    connection.end();
  });

  t.test('what is wrong with a request is answered at once, and costs what it costs otherwise', async (t) => {
    const { key } = await makeAccount(one.url, 'async@example.com');
    t.match(await scanLater(one.url, 'x', { key: '0'.repeat(32) }), { status: 401 });
    t.match(await scanLater(one.url, '', { key }), { status: 400, body: { message: 'File is empty' } });
    t.match(await scanLater(one.url, 'x', { key, filename: '' }), { status: 400 });
    t.equal(await unitsLeft(one.url, key), 1);
    t.match(await scanLater(one.url, 'x', { key }), { status: 202 });
    t.match(await scanLater(one.url, 'x', { key }), { status: 429 });
    const theirs = await scanLater(one.url, 'x');
    t.match(await scanById(one.url, Scan.parse(theirs.body).id, { key, wait: 1 }), { status: 404 });
  });

  t.test('who has filled a part of the store gets a 503 until there is room, and others are accepted', async (t) => {
    const headers = { 'Content-Type': 'application/octet-stream', 'X-Filename': 'a', Prefer: 'respond-async' };
    const request = scanRequest(Buffer.alloc(15 * MIB, 'x'), headers);
    // Of 64 MB an account may have 48.
    const arriving = await Promise.all(Array.from({ length: 3 }, () => openRaw(other.port)));
    for (const connection of arriving) void connection.send(request.subarray(0, -1));
    await until(() => contentBytesOf(other.directory) > 44 * MIB);
    const refused = await scanLater(other.url, Buffer.alloc(4 * MIB, 'y'));
    t.match(refused, { status: 503, body: { message: 'Too many accepted scans wait for their verdict' } });
    t.equal(refused.headers.get('retry-after'), '30');
    const { key } = await makeAccount(one.url, 'beside@example.com');
    t.match(await scanLater(other.url, Buffer.alloc(4 * MIB, 'z'), { key }), { status: 202 });
    for (const connection of arriving) {
      void connection.send(request.subarray(-1));
      t.match(await connection.answer(), { status: 202 });
      connection.end();
    }
    await until(() => contentsOf(other.directory).length === 0);
    t.match(await scanLater(other.url, Buffer.alloc(4 * MIB, 'y')), { status: 202 });
  });

  t.test('the same Idempotency-Key: one scan, the same 202', async (t) => {
    const headers = { 'Idempotency-Key': 'async-1' };
    const first = await scanLater(one.url, 'once', { headers });
    const again = await scanLater(other.url, 'once', { headers });
    t.equal(again.headers.get('idempotent-replayed'), 'true');
    t.equal(again.headers.get('location'), first.headers.get('location'));
    t.match(again, { status: 202, body: first.body });
    t.match(await scanLater(other.url, 'twice', { headers }), { status: 409 });
    const racing = await Promise.all(
      [one, other, one, other].map(({ url }) => scanLater(url, 'r', { headers: { 'Idempotency-Key': 'race' } })),
    );
    t.equal(new Set(racing.map((answer) => answer.headers.get('location'))).size, 1);
  });

  t.test(
    'uploads without room while their Idempotency-Keys are looked up have their answers, and their keys are free',
    async (t) => {
      // uWebSockets.js reads all of them; node:http leaves what has no room in the kernel.
      const readsAll = process.env['HTTP_SERVER'] !== 'node';
      const connections = await Promise.all(Array.from({ length: BURST }, () => openRaw(one.port)));
      const request = (id: string) =>
        scanRequest(filePart(Buffer.alloc(60_000, id)), { 'Idempotency-Key': id, Prefer: 'respond-async' });
      await sql.transaction('readCommitted', async (tx) => {
        await tx`LOCK TABLE kept_answers`;
        // All of it is there when the process goes on; no key is found before it is read.
        process.kill(one.serverPid(), 'SIGSTOP');
        await Promise.all(connections.map((connection, index) => connection.send(request(`burst-${index}`))));
        process.kill(one.serverPid(), 'SIGCONT');
        if (readsAll) await until(() => unreadBytes(one.port) === 0);
        else t.equal((await fetch(`${one.url}/livez`)).status, 200);
      });
      const answers = await Promise.all(connections.map((connection) => connection.answer()));
      const others = answers.filter((answer) => answer?.status !== 202);
      t.strictSame(
        others.filter((answer) => answer?.status !== 503),
        [],
      );
      const lost = answers.findIndex((answer) => answer?.body.includes('Too many request bodies at once'));
      if (readsAll) t.not(lost, -1);
      const refused = lost >= 0 ? lost : answers.findIndex((answer) => answer?.status === 503);
      for (const connection of connections) connection.end();
      const again = await openRaw(one.port);
      await again.send(request(`burst-${refused}`));
      const answer = await again.answer();
      t.notMatch(answer?.body, /still under way/);
      again.end();
    },
  );
});
