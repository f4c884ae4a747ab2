// Scans that begin while the admission is asked for, and then aren't admitted: nothing of them gets out, and nothing stays.
import { once } from 'node:events';
import t from 'tap';
import { enoughOfTheHour } from '../fixtures/hour.js';
import { response, startOrigin } from '../fixtures/origin.js';
import { startPostgres } from '../fixtures/postgres.js';
import { filePart, openRaw, scanRequest } from '../fixtures/raw-http.js';
import { startRedis } from '../fixtures/redis.js';
import { startServer } from '../fixtures/server.js';
import { bearer, ask as http, post, signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { postForm, upload } from '../fixtures/upload.js';

/** What the verdict cache has of a scanned content: one for everybody, and one for the account. */
const ENTRIES = 2;
const [postgres, redis] = [await startPostgres(), await startRedis()];
const origin = await startOrigin((connection) => void connection.send(response('hello')).then(() => connection.end()));
const env = {
  DATABASE_URL: await postgres.database(),
  REDIS_URL: redis.url,
  PLANS: 'SMALL:100',
  BOOTSTRAP_PLAN: 'SMALL',
  URL_ALLOW_NETWORKS: '127.0.0.1/32',
  URL_PORTS: String(origin.port),
};
/** Memory for one large upload, and none for a second one beside it. */
const narrow = { UPLOAD_MEMORY_MB: '16', UPLOAD_WAIT_MS: '60000' };
const server = await startServer({ env: { ...env, ...narrow } });
/** Where keys are ended without a word to the server itself. */
const other = await startServer({ env });
t.teardown(async () => {
  await Promise.all([server, other].map((each) => each.stop()));
  await Promise.all([postgres, redis, origin].map((each) => each.stop()));
});
const { accessToken } = await signIn(other.url);

/** A key that the server has admitted, so that it expects to do so again, and that has ended since. */
async function endedKey(): Promise<string> {
  const { body } = await post(`${other.url}/web/keys`, { name: 'short-lived' }, bearer(accessToken));
  const { uuid, value } = Object(body);
  const { status } = await upload(server.url, 'content', { key: value });
  t.equal(status, 200);
  const ended = await http(`${other.url}/web/keys/${uuid}`, { method: 'DELETE', headers: bearer(accessToken) });
  t.equal(ended.status, 204);
  return value;
}

/** What the engine said of a content is remembered: so it has looked. */
async function looked(before: number): Promise<void> {
  await until(async () => (await server.metric('sluice_verdict_cache_entries')) !== before);
}

t.test('the upload of an ended key is scanned once at most, and never answered', async (t) => {
  const key = await endedKey();
  const before = await server.metric('sluice_verdict_cache_entries');
  const connection = await openRaw(server.port);
  // In one packet, so that the content is there before the answer of Redis is.
  await connection.send(scanRequest(filePart('of an ended key'), { 'X-API-KEY': key }));
  const refused = await connection.answer();
  connection.end();
  t.match(refused, { status: 401, body: /"X-API-KEY INVALID"/ });
  for (const header of ['x-scan-id', 'x-scan-sha256', 'x-ratelimit-remaining']) t.notOk(refused?.headers.has(header));
  await looked(before);
  t.equal((await upload(server.url, 'another one', { key })).status, 401);
  t.equal((await upload(server.url, 'of somebody else')).status, 200);
  t.equal(
    await server.metric('sluice_verdict_cache_entries'),
    before + 2 * ENTRIES,
    'the second upload was not looked at',
  );
  t.equal(await server.metric('sluice_upload_memory_bytes'), 0);
});

t.test('the rest of an upload is not received, and its memory is free before it ends', async (t) => {
  const key = await endedKey();
  const request = scanRequest(filePart(Buffer.alloc(1_000_000)), { 'X-API-KEY': key });
  const connection = await openRaw(server.port);
  const begins = once(connection.socket, 'data');
  await connection.send(request.subarray(0, 500_000));
  t.match(String(await begins), /^HTTP\/1.1 401 /);
  t.equal(await server.metric('sluice_upload_memory_bytes'), 0);
  await connection.send(request.subarray(500_000));
  t.match(await connection.answer(), { status: 401 });
  connection.end();
});

t.test('who is refused while waiting for memory gets none, and the connection goes on', async (t) => {
  const key = await endedKey();
  const large = scanRequest(filePart(Buffer.alloc(9_000_000)));
  const holder = await openRaw(server.port);
  await holder.send(large.subarray(0, 8_000_000));
  await until(async () => (await server.metric('sluice_upload_memory_bytes')) >= 8_000_000);
  const waiting = await openRaw(server.port);
  const refused = scanRequest(filePart(Buffer.alloc(9_000_000)), { 'X-API-KEY': key });
  const begins = once(waiting.socket, 'data');
  await waiting.send(refused.subarray(0, 1_000_000));
  t.match(String(await begins), /^HTTP\/1.1 401 /);
  // At once: who is silent behind a refusal has the end of the answer, and of the connection.
  await waiting.send(refused.subarray(1_000_000));
  t.match(await waiting.answer(), { status: 401 });
  await holder.send(large.subarray(8_000_000));
  t.match(await holder.answer(), { status: 200 });
  await waiting.send(scanRequest(filePart('the next one')));
  t.match(await waiting.answer(), { status: 200 });
  t.equal(await server.metric('sluice_upload_memory_bytes'), 0);
  for (const each of [holder, waiting]) each.end();
});

t.test('a form that is wrong is no 400 without a unit', async (t) => {
  const key = await endedKey();
  t.match(await postForm(server.url, new FormData(), key), { status: 401 });
});

t.test('a URL is not asked for before the admission', async (t) => {
  const form = new FormData();
  form.append('url', `http://127.0.0.1:${origin.port}/of-an-ended-key`);
  const key = await endedKey();
  t.match(await postForm(server.url, form, key), { status: 401 });
  form.set('url', `http://127.0.0.1:${origin.port}/admitted`);
  t.match(await postForm(server.url, form), { status: 200 });
  t.same(
    origin.heads.map((head) => head.split(' ')[1]),
    ['/admitted'],
  );
});

t.test('scans that begin stay within the quota, whatever comes at once', async (t) => {
  const own = { ...env, DATABASE_URL: await postgres.database(), PLANS: 'TINY:10', BOOTSTRAP_PLAN: 'TINY' };
  const tiny = await startServer({ env: own });
  t.equal((await upload(tiny.url, 'first')).status, 200);
  const statuses = async (contents: readonly string[]) => {
    const connections = await Promise.all(contents.map(() => openRaw(tiny.port)));
    await Promise.all(connections.map((each, index) => each.send(scanRequest(filePart(contents[index] ?? '')))));
    const answers = await Promise.all(connections.map((each) => each.answer()));
    for (const each of connections) each.end();
    return answers.map((answer) => answer?.status);
  };
  const first = await statuses(Array.from({ length: 100 }, (_, index) => `content ${index}`));
  t.equal(first.filter((status) => status === 200).length, 9);
  t.equal(await tiny.metric('sluice_verdict_cache_entries'), 10 * ENTRIES);
  await tiny.stop();
});

t.test('an account without units is not expected to have some', async (t) => {
  const { body } = await post(`${other.url}/web/keys`, { name: 'hungry' }, bearer(accessToken));
  const key = Object(body).value;
  const ask = (content: string) => upload(server.url, content, { key });
  await enoughOfTheHour();
  while ((await ask('content')).status === 200);
  const before = await server.metric('sluice_verdict_cache_entries');
  t.match(await ask('one too many'), { status: 429 });
  t.equal((await ask('another one too many')).status, 429);
  t.equal(await server.metric('sluice_verdict_cache_entries'), before);
});
