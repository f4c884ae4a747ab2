// Idempotency-Key: one scan, one unit and one answer for all requests with the same key, on any node, also when they race, break off or are about other things.
import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { makeAccount } from '../fixtures/another-account.js';
import { enoughOfTheHour, unitsLeft } from '../fixtures/hour.js';
import { onNodes } from '../fixtures/nodes.js';
import { response, startOrigin } from '../fixtures/origin.js';
import { filePart, openRaw, scanRequest } from '../fixtures/raw-http.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, type TestServer } from '../fixtures/server.js';
import { open } from '../fixtures/stores.js';
import { until } from '../fixtures/until.js';
import { formOf, inOnePiece } from '../fixtures/upload.js';

const PAIRS = 200;
const AT_ONCE = 16;
const origin = await startOrigin(({ send }) => send(response('hello')));
t.teardown(() => origin.stop());
const remote = `http://127.0.0.1:${origin.port}/a.txt`;
const env = {
  REGISTRATION: 'open',
  PLANS: 'FREE:1,BUSINESS:10000',
  URL_ALLOW_NETWORKS: '127.0.0.1/32',
  URL_PORTS: String(origin.port),
  UPLOAD_TIMEOUT_MS: '5000',
};
const conflict = {
  status: 409,
  body: { error: 'Conflict', message: 'This Idempotency-Key was used for other content' },
};

interface Sent {
  readonly content?: string | Uint8Array;
  readonly filename?: string;
  readonly key?: string;
}

async function scan(server: TestServer, id: string, { content = 'x', filename = 'a.txt', key = API_KEY }: Sent = {}) {
  const { body, headers } = await inOnePiece(formOf(['file', new Blob([Buffer.from(content)]), filename]));
  headers.set('X-API-KEY', key);
  headers.set('Idempotency-Key', id);
  return await readAnswer(await fetch(`${server.url}/api/v1/scans`, { method: 'POST', body, headers }));
}

async function readAnswer(answer: Response) {
  const text = await answer.text();
  const body: unknown = JSON.parse(text);
  const { headers, status } = answer;
  return { status, headers, text, body, isReplayed: headers.get('idempotent-replayed') === 'true' };
}

onNodes({ isSupervised: true, env }, async (t, { one, other, database }) => {
  const { sql } = await open(t, database);

  /** Resolves when a request with the key is under way: what comes after it is the second one. */
  async function underWay(id: string): Promise<void> {
    const keyHash = createHash('sha256').update(id).digest();
    await until(
      async () => (await sql`SELECT FROM kept_answers WHERE key_hash = ${keyHash} AND status IS NULL`).length > 0,
    );
  }

  t.test('the same request again has the same answer on any node, and takes no unit', async (t) => {
    await enoughOfTheHour(60_000);
    const before = await unitsLeft(one.url);
    const first = await scan(one, 'order-7', { content: eicar(), filename: 'a.com' });
    t.match(first, { status: 200, isReplayed: false, body: { infected: true } });
    for (const server of [other, one, other]) {
      const again = await scan(server, 'order-7', { content: eicar(), filename: 'a.com' });
      t.match(again, { status: 200, isReplayed: true, text: first.text });
      for (const name of ['x-scan-id', 'x-scan-sha256', 'x-scan-engine', 'x-scan-cache']) {
        t.equal(again.headers.get(name), first.headers.get(name), name);
      }
      t.notOk(again.headers.has('x-ratelimit-remaining'));
      t.not(again.headers.get('x-request-id'), first.headers.get('x-request-id'));
    }
    t.equal(before - (await unitsLeft(one.url)), 1);
  });

  t.test('other content, another name or other metadata is a conflict; another account is not', async (t) => {
    const before = await unitsLeft(one.url);
    t.equal((await scan(one, 'order-8')).status, 200);
    t.match(await scan(other, 'order-8', { content: 'y' }), conflict);
    t.match(await scan(other, 'order-8', { filename: 'b.txt' }), conflict);
    const headers = { 'X-API-KEY': API_KEY, 'Idempotency-Key': 'order-8', 'Content-Type': 'text/plain' };
    const raw = { method: 'POST', body: 'x', headers: { ...headers, 'X-Filename': 'a.txt' } };
    t.match(await readAnswer(await fetch(`${other.url}/api/v1/scans`, raw)), { status: 200, isReplayed: true });
    const said = { ...raw, headers: { ...raw.headers, 'X-Metadata': 'a' } };
    t.match(await readAnswer(await fetch(`${other.url}/api/v1/scans`, said)), conflict);
    t.match(await scan(other, 'order-8', { content: '' }), { status: 400, body: { message: 'File is empty' } });
    t.equal(before - (await unitsLeft(one.url)), 1);
    const { key } = await makeAccount(one.url, 'stranger@example.com');
    t.match(await scan(other, 'order-8', { content: 'theirs', key }), { status: 200, isReplayed: false });
    t.match(await scan(other, 'order-9', { content: 'theirs', key }), { status: 429 });
    const again = await scan(one, 'order-8', { content: 'theirs', key });
    t.match(again, { status: 200, isReplayed: true }, 'also when the hour is used up');
    t.match(await scan(other, 'order-8', { key: 'f'.repeat(32) }), { status: 401 });
  });

  t.test('a URL is compared by its text, and fetched once', async (t) => {
    const send = async (url: string, server: TestServer) => {
      const headers = { 'X-API-KEY': API_KEY, 'Idempotency-Key': 'url', 'Content-Type': 'application/json' };
      return await readAnswer(
        await fetch(`${server.url}/api/v1/scans`, { method: 'POST', body: JSON.stringify({ url }), headers }),
      );
    };
    const before = origin.heads.length;
    const first = await send(remote, one);
    t.match(first, { status: 200, isReplayed: false });
    t.match(await send(remote, other), { status: 200, isReplayed: true, text: first.text });
    t.match(await send(`${remote}?x`, other), conflict);
    t.match(await scan(other, 'url', { content: 'hello', filename: 'a.txt' }), conflict);
    t.equal(origin.heads.length - before, 1);
  });

  t.test('an answer without a verdict is kept, what never was whole is not', async (t) => {
    const zip = Buffer.from('504b0304', 'hex');
    const first = await scan(one, 'broken', { content: zip, filename: 'a.zip' });
    t.match(await scan(other, 'broken', { content: zip, filename: 'a.zip' }), { isReplayed: true, text: first.text });
    const refused = await scan(one, 'empty', { content: '' });
    t.match(refused, { status: 400, isReplayed: false });
    t.match(await scan(other, 'empty', { content: 'no more' }), { status: 200, isReplayed: false });
    for (const wrong of ['', ' ', 'a b', 'ü', 'x'.repeat(256)]) {
      const headers = { 'X-API-KEY': API_KEY, 'Idempotency-Key': Buffer.from(wrong).toString('latin1') };
      const answer = await fetch(`${one.url}/api/v1/scans`, { method: 'POST', body: new FormData(), headers });
      t.equal(answer.status, 400, JSON.stringify(wrong));
      t.match(await answer.text(), /Idempotency-Key: must be/);
    }
  });

  t.test(
    'a client that leaves before its answer finds it with the same key, one that leaves before the end begins anew',
    async (t) => {
      const before = await unitsLeft(one.url);
      const content = Buffer.alloc(5_000_000, 'left behind');
      const request = scanRequest(filePart(content, 'left.bin'), { 'Idempotency-Key': 'left' });
      const leaver = await openRaw(one.port);
      await leaver.send(request);
      leaver.end();
      const found = await scan(other, 'left', { content, filename: 'left.bin' });
      t.match(found, { status: 200, body: { sizeInBytes: content.length } });
      const cut = await openRaw(one.port);
      await cut.send(scanRequest(filePart(content, 'left.bin'), { 'Idempotency-Key': 'cut' }).subarray(0, 1_000_000));
      await underWay('cut');
      cut.end();
      t.match(await scan(other, 'cut', { content: 'another one' }), { status: 200, isReplayed: false });
      await until(async () => before - (await unitsLeft(one.url)) === 2);
    },
  );

  t.test('a second request waits for the first, and a wrong first one makes room for it', async (t) => {
    const head = scanRequest(filePart('slow', 'a.txt'), { 'Idempotency-Key': 'slow' });
    const slow = await openRaw(one.port);
    await slow.send(head.subarray(0, head.length - 10));
    await underWay('slow');
    let isAnswered = false;
    const second = scan(other, 'slow', { content: 'slow' }).finally(() => {
      isAnswered = true;
    });
    await delay(500);
    t.notOk(isAnswered);
    await slow.send(head.subarray(head.length - 10));
    const first = await slow.answer();
    t.match(first, { status: 200 });
    t.match(await second, { status: 200, isReplayed: true, text: first?.body });
    slow.end();
    const stuck = await openRaw(one.port);
    const cut = scanRequest(filePart('cut', 'a.txt'), { 'Idempotency-Key': 'stuck' });
    await stuck.send(cut.subarray(0, cut.length - 10));
    await underWay('stuck');
    t.match(await scan(other, 'stuck', { content: 'whole' }), { status: 200, isReplayed: false }, 'after its 408');
    stuck.end();
    // A line that broke in silence gives way to the same request on another one, long before the time of an upload is over.
    const silent = await openRaw(one.port);
    await silent.send(scanRequest(filePart('cut', 'a.txt'), { 'Idempotency-Key': 'silent' }).subarray(0, -10));
    await underWay('silent');
    t.match(await scan(one, 'silent', { content: 'whole' }), { status: 200, isReplayed: false });
    t.match(await silent.answer(), { status: 408, body: /2000 ms without a byte, and was sent again/ });
    silent.end();
  });

  t.test('a request whose process was killed is over, and the next one scans', async (t) => {
    const cut = scanRequest(filePart('cut', 'a.txt'), { 'Idempotency-Key': 'killed' });
    const killed = await openRaw(one.port);
    await killed.send(cut.subarray(0, cut.length - 10));
    await underWay('killed');
    process.kill(one.serverPid(), 'SIGKILL');
    await until(async () => {
      const ready = await fetch(`${other.url}/readyz`).catch(() => null);
      return ready?.status === 200;
    });
    t.match(await scan(other, 'killed', { content: 'whole' }), { status: 200, isReplayed: false });
    await until(async () => (await fetch(`${one.url}/readyz`).catch(() => null))?.status === 200);
    t.match(await scan(one, 'killed', { content: 'whole' }), { status: 200, isReplayed: true });
    killed.end();
  });

  t.test('200 pairs that race have 200 units and 200 equal pairs of answers', async (t) => {
    await enoughOfTheHour(60_000);
    const before = await unitsLeft(one.url);
    let next = 0;
    let replays = 0;
    const client = async (): Promise<void> => {
      while (next < PAIRS) {
        const index = next++;
        const sent = { content: `content ${index % 50}`, filename: `${index}.txt` };
        const [left, right] = await Promise.all([scan(one, `pair-${index}`, sent), scan(other, `pair-${index}`, sent)]);
        t.match([left.status, right.status], [200, 200]);
        t.equal(left.text, right.text);
        t.equal(left.headers.get('x-scan-id'), right.headers.get('x-scan-id'));
        replays += Number(left.isReplayed) + Number(right.isReplayed);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, client));
    t.equal(replays, PAIRS);
    t.equal(before - (await unitsLeft(one.url)), PAIRS);
  });
});
