// What a key may ask for without taking a unit: one scan, the list of them, the account. Never another account's, and not too often.
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { makeAccount } from '../fixtures/another-account.js';
import { enoughOfTheHour } from '../fixtures/hour.js';
import { onNodes } from '../fixtures/nodes.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY } from '../fixtures/server.js';
import { ask, bearer, post, signIn } from '../fixtures/sign-in.js';
import { upload } from '../fixtures/upload.js';
import { uploadSignedIn } from '../fixtures/web-scans.js';

const Listed = z.object({ content: z.array(z.object({ id: z.string() }).loose()), next: z.string().nullable() });
const withKey = (key = API_KEY) => ({ headers: { 'X-API-KEY': key } });
/** In the order of the contract, and then what it doesn't name. */
const fields = [
  'id',
  'state',
  'filename',
  'extension',
  'sizeInBytes',
  'sha256',
  'detectedType',
  'scanDurationMillis',
  'infected',
  'virusName',
  'status',
  'error',
  'notices',
  'engine',
  'key',
  'url',
  'metadata',
  'creationDate',
  'lastUpdate',
  'protocol',
  'signatures',
];

/** The rate has room for all that a test asks at once, and then for 20 a second. */
async function calm(): Promise<void> {
  await delay(1_100);
}

onNodes({ env: { REGISTRATION: 'open' } }, async (t, { one, other }) => {
  const me = bearer((await signIn(one.url)).accessToken);
  const stranger = await makeAccount(one.url, 'stranger@example.com');
  const list = async (query = '', key = API_KEY) => {
    const answer = await ask(`${other.url}/api/v1/scans${query}`, withKey(key));
    return { ...answer, scans: answer.status === 200 ? Listed.parse(answer.body) : { content: [], next: null } };
  };

  t.test('a scan is known under the key from its answer on, on every node', async (t) => {
    const clean = await upload(one.url, 'hello', { filename: 'Report.PDF' });
    const id = clean.headers.get('x-scan-id') ?? '';
    const before = await ask(`${one.url}/api/v1/account`, withKey());
    const { status, body, headers } = await ask(`${other.url}/api/v1/scans/${id}`, withKey());
    t.equal(status, 200);
    t.strictSame(Object.keys(Object(body)), fields);
    t.match(body, {
      id,
      state: 'completed',
      filename: 'Report.PDF',
      extension: 'PDF',
      sizeInBytes: 5,
      sha256: clean.headers.get('x-scan-sha256'),
      infected: false,
      virusName: null,
      status: '200',
      error: null,
      notices: [],
      engine: /^clamav\//,
      key: { name: String, uuid: String },
      creationDate: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/,
    });
    t.notOk(headers.has('x-ratelimit-remaining'), 'no unit is taken');
    t.match(headers.get('x-request-id'), /./);
    t.strictSame((await ask(`${one.url}/api/v1/account`, withKey())).body, before.body);
    t.equal((await ask(`${other.url}/api/v1/scans/${id.toUpperCase()}`, withKey())).status, 200);
    const foreign = await ask(`${other.url}/api/v1/scans/${id}`, withKey(stranger.key));
    t.match(foreign, { status: 404, body: { error: 'Not found' } });
    for (const wrong of ['x', '0', '01a1d7c0-0000-7000-8000-000000000000', '01a1d7c0-0000-4000-8000-000000000000']) {
      t.equal((await ask(`${other.url}/api/v1/scans/${wrong}`, withKey())).status, 404, wrong);
    }
    const head = await fetch(`${other.url}/api/v1/scans/${id}`, { method: 'HEAD', ...withKey() });
    t.equal(head.status, 200);
    t.match(await ask(`${other.url}/api/v1/scans/${id}?x=1`, withKey()), {
      status: 400,
      body: { message: 'unknown: x' },
    });
  });

  t.test('what failed is there as well, without a verdict', async (t) => {
    await calm();
    const empty = await upload(one.url, '', { filename: 'empty.txt' });
    const { body } = await ask(`${one.url}/api/v1/scans/${empty.headers.get('x-scan-id')}`, withKey());
    t.match(body, { state: 'failed', infected: null, status: '400', error: 'File is empty', sha256: null });
  });

  t.test("the list has all scans of the account, page by page, and nobody else's", async (t) => {
    const mine = await upload(one.url, eicar(), { filename: 'virus.com' });
    await uploadSignedIn(one.url, (await signIn(one.url)).accessToken, 'by hand');
    await upload(one.url, 'foreign', { key: stranger.key });
    // Another node has them when the database does, within two tenths of a second.
    await calm();
    const all = await list();
    t.equal(all.status, 200);
    t.equal(all.scans.content.length, 4);
    t.equal(all.scans.next, null);
    const ids = all.scans.content.map(({ id }) => id);
    t.strictSame(ids, [...ids].sort().reverse(), 'the newest first');
    t.match(all.scans.content[0], { key: null, filename: 'a.bin' }, 'by the dashboard');
    t.match(all.scans.content[1], { id: mine.headers.get('x-scan-id'), infected: true });
    const pages: string[] = [];
    for (let cursor: string | null = null, first = true; first || cursor !== null; first = false) {
      const page = await list(`?limit=1${cursor === null ? '' : `&cursor=${cursor}`}`);
      pages.push(...page.scans.content.map(({ id }) => id));
      cursor = page.scans.next;
    }
    t.strictSame(pages, ids);
    t.equal((await list('', stranger.key)).scans.content.length, 1);
    const stolen = await list(`?cursor=${ids[0]}`, stranger.key);
    t.ok(stolen.scans.content.every(({ id }) => !ids.includes(id)));
  });

  t.test('the list is filtered by content, verdict and time', async (t) => {
    await calm();
    const count = async (query: string) => (await list(query)).scans.content.length;
    t.equal(await count('?verdict=infected'), 1);
    t.equal(await count('?verdict=clean'), 2);
    t.equal(await count('?verdict=none'), 1);
    const [newest] = (await list('?verdict=infected')).scans.content;
    t.equal(await count(`?sha256=${String(newest?.['sha256']).toUpperCase()}`), 1);
    t.equal(await count(`?sha256=${'0'.repeat(64)}`), 0);
    const at = String(newest?.['creationDate']);
    const day = at.slice(0, 10);
    t.equal(await count(`?from=${day}&to=${day}`), 4);
    t.ok((await count(`?from=${at}&to=${at}Z`)) >= 1, 'both are included');
    t.equal(await count('?to=2020-01-01'), 0);
    t.equal(await count('?from=2999-12-31T23:59:59Z'), 0);
    t.equal(await count('?to=9999-12-31'), 4);
  });

  t.test('a wrong parameter is a 400 that names it', async (t) => {
    await calm();
    for (const [query, message] of [
      ['limit=0', 'limit'],
      ['limit=201', 'limit'],
      ['cursor=x', 'cursor'],
      ['cursor=', 'cursor'],
      ['verdict=bad', 'verdict'],
      ['sha256=abc', 'sha256'],
      ['from=2026-02-30', 'from'],
      ['from=yesterday', 'from'],
      ['from=2026-01-02&to=2026-01-01', 'from'],
      ['to=2026-01-01T25:00:00', 'to'],
      ['page=1', 'unknown: page'],
      ['limit=1&limit=2', 'limit: given twice'],
    ] as const) {
      t.match(
        await list(`?${query}`),
        { status: 400, body: { error: 'Bad request', message: new RegExp(message) } },
        query,
      );
    }
  });

  t.test('the account says what it may, and which key asks', async (t) => {
    await enoughOfTheHour();
    await calm();
    const made = await post(`${one.url}/web/keys`, { name: 'build "server"' }, me);
    const { uuid, value } = z.object({ uuid: z.string(), value: z.string() }).parse(made.body);
    const first = await ask(`${other.url}/api/v1/account`, withKey(value));
    t.match(first, {
      status: 200,
      body: { plan: 'BUSINESS', hourlyLimit: 10_000, remaining: Number, key: { uuid, name: 'build "server"' } },
    });
    const { remaining, resetTime } = z.object({ remaining: z.number(), resetTime: z.number() }).parse(first.body);
    t.equal(resetTime % 3600, 0);
    const scan = await upload(one.url, 'x', { key: value });
    const next = await ask(`${other.url}/api/v1/account`, withKey(value));
    t.match(next.body, { remaining: remaining - 1 });
    t.equal(scan.headers.get('x-ratelimit-remaining'), String(remaining - 1));
    const { body } = await ask(`${other.url}/api/v1/scans/${scan.headers.get('x-scan-id')}`, withKey());
    t.match(body, { key: { uuid, name: 'build "server"' } });
    t.equal((await ask(`${one.url}/web/keys/${uuid}`, { method: 'DELETE', headers: me })).status, 204);
    for (const path of ['account', 'scans', `scans/${scan.headers.get('x-scan-id')}`]) {
      const refused = await ask(`${other.url}/api/v1/${path}`, withKey(value));
      t.match(refused, { status: 401, body: { error: 'X-API-KEY INVALID' } }, path);
      t.match(await ask(`${other.url}/api/v1/${path}`), { status: 401, body: { error: 'X-API-KEY MISSING' } }, path);
    }
    const kept = await ask(`${other.url}/api/v1/scans/${scan.headers.get('x-scan-id')}`, withKey());
    t.match(kept.body, { key: { uuid, name: 'build "server"' } }, 'the name of a key that has ended');
  });

  t.test('who asks too often is refused, others and scans are not', async (t) => {
    await calm();
    const startedMs = performance.now();
    const answers: Awaited<ReturnType<typeof ask>>[] = [];
    // A slow machine gets 20 more each second meanwhile.
    while (!answers.some(({ status }) => status === 429)) {
      const ofBoth = Array.from({ length: 80 }, (_, index) =>
        ask(`${index % 2 === 0 ? one.url : other.url}/api/v1/account`, withKey(stranger.key)),
      );
      answers.push(...(await Promise.all(ofBoth)));
    }
    const refused = answers.filter(({ status }) => status === 429);
    t.ok(answers.length - refused.length >= 20);
    const seconds = (performance.now() - startedMs) / 1000;
    t.ok(
      answers.length - refused.length <= 21 + 20 * seconds,
      `${refused.length} refused in ${seconds} s, over all nodes`,
    );
    t.match(refused[0], { body: { error: 'Too many requests', message: 'At most 20 a second' } });
    t.match(refused[0]?.headers.get('retry-after'), /^[1-9]\d*$/);
    t.equal((await ask(`${other.url}/api/v1/account`, withKey())).status, 200);
    t.equal((await upload(other.url, 'x', { key: stranger.key })).status, 200);
    await calm();
    t.equal((await ask(`${other.url}/api/v1/account`, withKey(stranger.key))).status, 200);
  });
});
