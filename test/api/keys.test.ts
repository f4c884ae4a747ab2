// API keys and one's own account on real servers with the real sign-in: at once on every node, in one process and over Redis.
import postgresDriver from 'postgres';
import t from 'tap';
import { z } from 'zod';
import { hashOfKey } from '../../src/store/keys.js';
import { startPostgres } from '../fixtures/postgres.js';
import { openRaw } from '../fixtures/raw-http.js';
import { startRedis } from '../fixtures/redis.js';
import { startServer } from '../fixtures/server.js';
import { type Answer, ask, bearer, EMAIL, mySessions, PASSWORD, post, refresh, signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const Key = z.object({ uuid: z.uuid(), value: z.string(), lastUse: z.string().nullable() });
const NEW_PASSWORD = 'another password for tests';

async function scan(url: string, key: string): Promise<number> {
  return (await upload(url, 'hello', { key })).status;
}

function remove(url: string, reference: string, headers: Readonly<Record<string, string>>): Promise<Answer> {
  return ask(`${url}/web/keys/${reference}`, { method: 'DELETE', headers });
}

t.test('one server with the embedded database', async (t) => {
  const { url, output, printed, stop } = await startServer({ env: { LOG_LEVEL: 'debug' } });
  t.teardown(() => stop());
  const me = bearer((await signIn(url)).accessToken);

  t.test('a key works from its creation to its end, and its last use is known at once', async (t) => {
    const created = await post(`${url}/web/keys`, { name: 'one' }, me);
    t.equal(created.status, 201);
    const { uuid, value } = Key.parse(created.body);
    const failed = await ask(`${url}/api/v1/scans`, { method: 'POST', headers: { 'X-API-KEY': value } });
    t.equal(failed.status, 415);
    t.match((await ask(`${url}/web/keys/me`, { headers: me })).body, [{ uuid, lastUse: null }, {}]);
    t.equal(await scan(url, value), 200);
    const lastUse = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/;
    t.match(
      (await ask(`${url}/web/keys/me`, { headers: me })).body,
      [{ uuid, lastUse }, {}],
      'of a scan that succeeded',
    );
    t.match(await remove(url, value, me), { status: 204, body: null });
    t.equal(await scan(url, value), 401);
    t.equal((await remove(url, value, me)).status, 404);
    await printed(/(\/web\/keys\/\{uuid\}.*404)/);
    t.notMatch(output(), value, 'no key is in the log, also when it is in a path');
  });

  t.test('no token, no keys; and no key from another site', async (t) => {
    t.match(await ask(`${url}/web/keys/me`), { status: 401, body: { error: 'Unauthorized' } });
    const { accessToken } = await signIn(url);
    const headers = { Cookie: `sluice_access=${accessToken}`, 'Sec-Fetch-Site': 'cross-site' };
    t.equal((await post(`${url}/web/keys`, { name: 'x' }, headers)).status, 403);
    t.equal((await remove(url, '0'.repeat(32), headers)).status, 403);
  });

  t.test('every operation is in the OpenAPI document with its bodies', async (t) => {
    const { body } = await ask(`${url}/openapi.json`);
    const document = z
      .object({
        paths: z.record(z.string(), z.record(z.string(), z.unknown())),
        components: z.record(z.string(), z.unknown()),
      })
      .parse(body);
    const { paths, components } = document;
    const bodyOf = (schema: string) => ({
      content: { 'application/json': { schema: { $ref: `#/components/schemas/${schema}` } } },
    });
    const name = { type: 'string', minLength: 1, maxLength: 100 };
    t.match(paths['/web/keys']?.['post'], { requestBody: bodyOf('ApiKeySettings') });
    t.match(components['schemas'], {
      ApiKeySettings: { additionalProperties: false, required: ['name'], properties: { name } },
    });
    t.match(paths['/web/keys/me']?.['get'], { responses: { 200: { content: {} }, 401: {}, 503: {} } });
    t.match(paths['/web/keys/{uuid}']?.['delete'], { responses: { 204: {}, 404: {}, 503: {} } });
    const changes = { email: {}, newPassword: {}, currentPassword: {}, name };
    t.match(paths['/web/users/me']?.['put'], {
      requestBody: bodyOf('UserChange'),
      responses: { 200: {}, 400: {}, 409: {}, 429: {} },
    });
    t.match(components['schemas'], { UserChange: { properties: changes } });
  });

  t.test('a new password signs the other sessions out, and is the one to sign in with', async (t) => {
    const [here, elsewhere] = [await signIn(url), await signIn(url)];
    const put = (body: unknown) =>
      ask(`${url}/web/users/me`, {
        method: 'PUT',
        headers: { ...bearer(here.accessToken), 'Content-Type': 'application/json' },
        body: JSON.stringify(body),
      });
    t.equal((await put({ newPassword: NEW_PASSWORD, currentPassword: NEW_PASSWORD })).status, 400);
    t.equal((await put({ newPassword: NEW_PASSWORD, currentPassword: PASSWORD })).status, 200);
    t.equal((await mySessions(url, bearer(elsewhere.accessToken))).status, 401);
    t.equal((await refresh(url, elsewhere.refreshToken)).status, 401);
    t.match(await mySessions(url, bearer(here.accessToken)), { status: 200, body: [{ current: true }] });
    t.equal((await refresh(url, here.refreshToken)).status, 200);
    t.equal((await post(`${url}/web/auth/login`, { email: EMAIL, password: PASSWORD })).status, 401);
    await signIn(url, EMAIL, NEW_PASSWORD);
  });
});

t.test('two servers over one Postgres and one Redis', async (t) => {
  const postgres = await startPostgres({ t });
  const redis = await startRedis({ t });
  const env = { DATABASE_URL: await postgres.database(), REDIS_URL: redis.url };
  const sql = postgresDriver(env.DATABASE_URL, { max: 1 });
  t.teardown(() => sql.end());
  const first = await startServer({ t, env });
  const second = await startServer({ t, env });
  const me = bearer((await signIn(first.url)).accessToken);

  t.test('a key that is ended on one is refused by the next request on the other', async (t) => {
    for (let round = 0; round < 20; round += 1) {
      const { uuid, value } = Key.parse((await post(`${first.url}/web/keys`, { name: 'one' }, me)).body);
      t.equal(await scan(second.url, value), 200);
      const busy = Promise.all(Array.from({ length: 5 }, () => scan(second.url, value)));
      t.equal((await remove(first.url, uuid, me)).status, 204);
      t.equal(await scan(second.url, value), 401);
      await busy;
      t.equal(await scan(first.url, value), 401);
    }
    const keys = z.array(Key).parse((await ask(`${first.url}/web/keys/me`, { headers: me })).body);
    t.equal(keys.length, 1, 'scans that were under way bring no key back');
  });

  t.test('a scan that was admitted before its key ended is answered, and does not bring the key back', async (t) => {
    const { userId } = await signIn(first.url);
    const counted = async () => {
      const record = await redis.client.hgetall(`sluice:{u:${userId}}`);
      return Object.entries(record).reduce(
        (sum, [field, value]) => sum + (field.startsWith('q:') ? Number(value) : 0),
        0,
      );
    };
    const { uuid, value } = Key.parse((await post(`${first.url}/web/keys`, { name: 'one' }, me)).body);
    const before = await counted();
    const connection = await openRaw(second.port);
    t.teardown(() => connection.end());
    const part = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhel';
    const rest = 'lo\r\n--b--\r\n';
    const head = [
      'POST /api/v1/scans HTTP/1.1',
      'Host: localhost',
      `X-API-KEY: ${value}`,
      'Content-Type: multipart/form-data; boundary=b',
      `Content-Length: ${part.length + rest.length}`,
    ];
    await connection.send(`${head.join('\r\n')}\r\n\r\n${part}`);
    await until(async () => (await counted()) !== before);
    t.equal((await remove(first.url, uuid, me)).status, 204);
    await connection.send(rest);
    t.match(await connection.answer(), { status: 200, body: '"filename":"a.txt"' });
    t.equal(await scan(second.url, value), 401);
    const listed = z.array(Key).parse((await ask(`${second.url}/web/keys/me`, { headers: me })).body);
    t.notOk(listed.some((key) => key.uuid === uuid));
  });

  t.test('a server that dies between Postgres and Redis has given no 204, and its key is refused', async (t) => {
    const third = await startServer({ t, isSupervised: true, env });
    const { uuid, value } = Key.parse((await post(`${third.url}/web/keys`, { name: 'one' }, me)).body);
    t.equal(await scan(second.url, value), 200);
    const record = `sluice:{u:${(await signIn(first.url)).userId}}`;
    const told = async () => (await redis.client.hget(record, `k:${hashOfKey(value)}`)) === '-';
    redis.signal('SIGSTOP');
    const answer = remove(third.url, uuid, me).then(
      ({ status }) => String(status),
      () => 'cut off',
    );
    await until(async () => (await sql`SELECT FROM api_keys WHERE id = ${uuid} AND revoked_at IS NULL`).length === 0);
    process.kill(third.serverPid(), 'SIGKILL');
    t.match(await answer, /^(cut off|503)$/);
    t.equal(await scan(second.url, value), 401, 'while Redis hangs');
    redis.signal('SIGCONT');
    await until(async () => {
      const isTold = await told();
      if (!isTold) t.equal(await scan(second.url, value), 401, 'until Redis has heard of it');
      return isTold;
    });
    t.equal(await scan(second.url, value), 401);
    const status = await until(async () => {
      const again = await remove(first.url, uuid, me);
      return again.status !== 503 && again.status;
    });
    t.equal(status, 204, 'a client that got no answer asks again');
  });

  t.test(
    'while Redis is away a key ends with a 503, is refused all the same, and ends completely afterwards',
    async (t) => {
      const { uuid, value } = Key.parse((await post(`${first.url}/web/keys`, { name: 'one' }, me)).body);
      t.equal(await scan(second.url, value), 200);
      await redis.kill();
      t.match(await remove(first.url, uuid, me), { status: 503, body: { error: 'Service unavailable' } });
      t.equal(await scan(second.url, value), 401, 'Postgres is asked');
      await redis.start();
      const status = await until(async () => {
        const again = await remove(first.url, uuid, me);
        return again.status !== 503 && again.status;
      });
      t.equal(status, 204);
      for (const { url } of [first, second]) t.equal(await scan(url, value), 401);
    },
  );
});
