// The hourly quota over the wire: exact under a thousand requests at once, given back when the service fails, never for a wrong request.
import t from 'tap';
import { makeAccount } from '../fixtures/another-account.js';
import { openRaw } from '../fixtures/raw-http.js';
import { API_KEY, startServer } from '../fixtures/server.js';
import { ask } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { formOf, inOnePiece, postForm, upload } from '../fixtures/upload.js';

const server = await startServer({
  t,
  env: { PLANS: 'FREE:100,SMALL:200', BOOTSTRAP_PLAN: 'SMALL', REGISTRATION: 'open' },
});

t.test('a thousand requests at once get exactly the units that there are', async (t) => {
  const { key } = await makeAccount(server.url, 'thousand@example.com');
  const { body, headers } = await inOnePiece(formOf(['file', new Blob(['content']), 'a.bin']));
  headers.set('X-API-KEY', key);
  // They are put together before: the connection that made the account is ended when it has been idle for long.
  const one = () => ask(`${server.url}/api/v1/scans`, { method: 'POST', body, headers });
  const started = Math.floor(Date.now() / 1000);
  const answers = await Promise.all(Array.from({ length: 1000 }, one));
  const hour = started - (started % 3600);
  if (Math.floor(Date.now() / 1000) - hour >= 3600) {
    // The hour ended in between: then two windows were used, each exactly.
    t.ok(answers.filter(({ status }) => status === 200).length <= 200);
    return;
  }
  const admitted = answers.filter(({ status }) => status === 200);
  const refused = answers.filter(({ status }) => status === 429);
  t.equal(admitted.length, 100);
  t.equal(refused.length, 900);
  const remainders = admitted.map(({ headers }) => Number(headers.get('x-ratelimit-remaining')));
  t.strictSame(
    remainders.sort((a, b) => a - b),
    Array.from({ length: 100 }, (_, index) => index),
    'no two answers have the same number of units left',
  );

  const [last] = refused;
  t.strictSame(Object.keys(Object(last?.body)), ['error', 'message', 'limit', 'resetTime', 'retryAfter']);
  t.match(last?.body, {
    error: 'Rate limit exceeded',
    message: 'Hourly scan limit reached',
    limit: 100,
    resetTime: hour + 3600,
  });
  const retryAfter = Number(Object(last?.body).retryAfter);
  t.ok(Number.isInteger(retryAfter) && retryAfter >= 1 && retryAfter <= 3600);
  t.equal(last?.headers.get('retry-after'), String(retryAfter));
  t.equal(last?.headers.get('x-ratelimit-remaining'), '0');
  t.equal(last?.headers.get('x-ratelimit-limit'), '100');
  t.equal(last?.headers.get('x-ratelimit-reset'), String(hour + 3600));
});

t.test('a service without signatures says so and takes no unit', async (t) => {
  const server = await startServer({ t, env: { SIGNATURES_DIR: '/nonexistent/signatures' }, untilReady: false });
  // More than come back for requests that never arrive whole: these are the fault of the service.
  for (let round = 0; round < 70; round += 1) {
    const { status, headers, body } = await upload(server.url, 'content');
    t.equal(status, 503);
    t.match(body, { error: 'Service unavailable', message: /engine/ });
    t.ok(Number(headers.get('retry-after')) >= 1);
    t.equal(headers.get('x-ratelimit-remaining'), '10000');
  }
  const wrong = await postForm(server.url, new FormData(), 'f'.repeat(32));
  t.equal(wrong.status, 401, `${API_KEY} is the only key`);
});

t.test('an account has 60 units an hour back for requests that never arrive whole, and pays for more', async (t) => {
  /** Begins so many uploads and leaves in the middle of each; resolves when the server has seen so many leave in all. */
  async function abort(count: number, total: number): Promise<void> {
    for (let index = 0; index < count; index += 1) {
      const connection = await openRaw(server.port);
      await connection.send(
        `POST /api/v1/scans HTTP/1.1\r\nHost: a\r\nX-API-KEY: ${API_KEY}\r\nContent-Length: 1000\r\n` +
          'Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\n',
      );
      connection.end();
    }
    const seen = (text: string): number =>
      [...text.matchAll(/^sluice_scans_total\{outcome="aborted".*\} (\d+)$/gm)].reduce(
        (sum, m) => sum + Number(m[1]),
        0,
      );
    await until(async () => seen(await server.metrics()) >= total);
  }
  const scan = async () => (await upload(server.url, 'content')).headers;

  await abort(60, 60);
  const before = await scan();
  await abort(1, 61);
  const after = await scan();
  const hour = before.get('x-ratelimit-reset');
  // Where the hour ended in between, each of them has a number of its own.
  const isOneHour = hour === after.get('x-ratelimit-reset');
  t.equal(before.get('x-ratelimit-remaining'), '199', 'sixty are given back');
  t.equal(after.get('x-ratelimit-remaining'), isOneHour ? '197' : '199', 'the next one is kept');
});
