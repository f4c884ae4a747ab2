// The operators' routes over the wire: refused to everybody else on every node, and what they do for operators.
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { hostname } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { z } from 'zod';
import { createRowStore } from '../../src/history/rows-to-database.js';
import { openPostgres } from '../../src/store/postgres.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { rowAt } from '../fixtures/history.js';
import { enoughOfTheHour } from '../fixtures/hour.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startRedis } from '../fixtures/redis.js';
import { API_KEY, startServer } from '../fixtures/server.js';
import { type Answer, ask, bearer, EMAIL, post, signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';
import { bodySignature, databaseFolder } from '../native/engine.js';

const SUSPECTS = 'crash-suspects.json';
const ADA = { email: 'ada@example.com', password: 'a sentence that ada knows', name: '=1+1' };
const NEW = bodySignature('Test.Old', 'an old mark') + bodySignature('Test.New', 'a new mark');

function send(method: string, url: string, token: string | null, body?: unknown): Promise<Answer> {
  const headers: Record<string, string> = token === null ? {} : bearer(token);
  if (body === undefined) return ask(url, { method, headers });
  return ask(url, { method, headers: { ...headers, 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
}

t.test('on two nodes', async (t) => {
  const [postgres, redis] = await Promise.all([startPostgres({ t }), startRedis({ t })]);
  const databaseUrl = await postgres.database();
  const mirror = createServer((_request, response) => void response.end(NEW)).listen(0, '127.0.0.1');
  await once(mirror, 'listening');
  t.teardown(() => mirror.close());
  const { port } = z.object({ port: z.int() }).parse(mirror.address());
  const env = {
    DATABASE_URL: databaseUrl,
    REDIS_URL: redis.url,
    BOOTSTRAP_EMAIL: EMAIL,
    REGISTRATION: 'open',
    SIGNATURES_DIR: databaseFolder(t, { 'own.ndb': bodySignature('Test.Old', 'an old mark') }),
    SIGNATURES_MIRROR: 'none',
    SIGNATURES_URLS: `http://127.0.0.1:${port}/own.ndb`,
  };
  const first = await startServer({ env });
  const crashed = createHash('sha256').update('crashed it twice').digest('hex');
  const directory = temporaryFolder(t);
  mkdirSync(join(directory, 'data'));
  writeFileSync(join(directory, 'data', SUSPECTS), JSON.stringify({ [crashed]: { crashes: 2, lastMs: Date.now() } }));
  const store = await openPostgres({ kind: 'url', url: databaseUrl });
  t.teardown(() => store.close());
  const { sql } = store;
  for (const [host, age] of [
    ['silent', '50 seconds'],
    ['forgotten', '61 minutes'],
  ] as const) {
    await sql`
      INSERT INTO nodes (process_id, node_id, host, pid, version, engine, signatures, started_at, seen_at)
      VALUES (gen_random_uuid(), gen_random_uuid(), ${host}, 7, '1.0.0', 'ClamAV', 5, now() - interval '1 day', now() - ${age}::interval)`;
  }
  const second = await startServer({ isSupervised: true, env: { ...env, PROCESSES: '2' }, directory });
  t.teardown(() => Promise.all([first.stop(), second.stop()]));
  const admin = await signIn(first.url);
  const registered = await post(`${first.url}/web/auth/register`, ADA);
  const ada = z.object({ accessToken: z.string(), user: z.object({ id: z.uuid() }) }).parse(registered.body);
  const adaUrl = (node = first.url) => `${node}/web/admin/accounts/${ada.user.id}`;

  t.test(
    'every route is refused without a token, with a bad one, to a tenant, and when the session has ended',
    async (t) => {
      const paths = z
        .object({ paths: z.record(z.string(), z.record(z.string(), z.unknown())) })
        .parse((await ask(`${first.url}/openapi.json`)).body).paths;
      const routes = Object.entries(paths)
        .filter(([path]) => path.startsWith('/web/admin'))
        .flatMap(([path, methods]) =>
          Object.keys(methods).map((method) => ({
            method: method.toUpperCase(),
            path: path.replaceAll(/\{\w+\}/g, ada.user.id),
          })),
        );
      t.ok(routes.length >= 11, `${routes.length} routes`);
      const ended = await signIn(first.url);
      await send('DELETE', `${first.url}/web/users/me/sessions/${ended.sessionId}`, admin.accessToken);
      await sql`UPDATE users SET role = 'operator' WHERE id = ${ada.user.id}`;
      t.equal((await send('GET', `${second.url}/web/admin/health`, ada.accessToken)).status, 200, 'she was one');
      await sql`UPDATE users SET role = 'user' WHERE id = ${ada.user.id}`;
      const cases: [string, string | null, number][] = [
        ['no token', null, 401],
        ['not a token', 'not.a.token', 401],
        ["a tenant's token, who was an operator until now", ada.accessToken, 403],
        ["an operator's session that has ended", ended.accessToken, 401],
      ];
      const state = async () =>
        JSON.stringify([await sql`SELECT * FROM users ORDER BY id`, await sql`SELECT * FROM audit_log`]);
      const before = await state();
      for (const { url } of [first, second]) {
        for (const { method, path } of routes) {
          for (const [what, token, status] of cases) {
            const body = method === 'PUT' ? { role: 'operator' } : undefined;
            const answer = await send(method, `${url}${path}`, token, body);
            t.equal(answer.status, status, `${method} ${path}: ${what}`);
            if (status === 403) t.same(answer.body, { error: 'Forbidden', message: 'Operators only' });
          }
          const key = await ask(`${url}${path}`, { method, headers: { 'X-API-KEY': API_KEY } });
          t.equal(key.status, 401, `${method} ${path}: an operator's API key`);
        }
      }
      t.equal(await state(), before, 'nothing has changed');
      const foreign = { Cookie: `sluice_access=${admin.accessToken}`, Origin: 'https://evil.example' };
      t.equal((await ask(adaUrl(), { method: 'DELETE', headers: foreign })).status, 403, "another site's page");
    },
  );

  t.test(
    'accounts are found by a part of the address or the name in any case, and shown with what they use',
    async (t) => {
      const find = async (q: string) =>
        (await send('GET', `${first.url}/web/admin/accounts?q=${encodeURIComponent(q)}`, admin.accessToken)).body;
      t.match(await find('EXAMPLE.c'), {
        total: 1,
        accounts: [{ email: ADA.email, role: 'user', plan: 'FREE', sessions: 1 }],
      });
      t.match(await find('=1+'), { total: 1 });
      t.match(await find('\u0000'), { error: 'Bad request', message: 'q: must not have control characters' });
      t.match(await find(ada.user.id), { total: 1 });
      t.match(await find(''), { total: 2, plans: ['FREE', 'PRO', 'BUSINESS'] });
      const behind = await send('GET', `${first.url}/web/admin/accounts?page=7`, admin.accessToken);
      t.match(behind.body, { total: 2, accounts: [] }, 'a page behind the last one');
      for (const q of ['%', '_', "' OR 1=1 --", '\\', 'nobody']) t.match(await find(q), { total: 0, accounts: [] }, q);
      const detail = await send('GET', adaUrl(), admin.accessToken);
      t.match(detail.body, { keys: 0, keyList: [], suspendedAt: null, ownLimit: null });
      t.equal(z.object({ days: z.array(z.unknown()) }).parse(detail.body).days.length, 30);
      t.notMatch(JSON.stringify(detail.body), 'password');
    },
  );

  t.test('plan, limit and suspension hold on the next request of the other node', async (t) => {
    const quota = () => send('GET', `${second.url}/web/quota`, ada.accessToken);
    t.match(await send('PUT', adaUrl(), admin.accessToken, { plan: 'PRO' }), { status: 200, body: { plan: 'PRO' } });
    t.match(await quota(), { body: { limit: 1_000 } });
    t.match(await send('PUT', adaUrl(), admin.accessToken, { ownLimit: 5 }), { body: { ownLimit: 5, hourlyLimit: 5 } });
    t.match(await quota(), { body: { limit: 5 } });
    const made = await send('POST', `${second.url}/web/keys`, ada.accessToken, { name: 'one' });
    const key = z.object({ uuid: z.uuid(), value: z.string() }).parse(made.body);
    const scan = async () => (await upload(second.url, 'hello', { key: key.value })).status;
    t.equal(await scan(), 200);
    t.match(await send('PUT', adaUrl(), admin.accessToken, { suspended: true }), {
      body: { sessions: 0, hourlyLimit: 0 },
    });
    t.equal(await scan(), 403);
    t.equal((await quota()).status, 401);
    t.match(await send('PUT', adaUrl(), admin.accessToken, { suspended: false, ownLimit: null }), {
      body: { hourlyLimit: 1_000 },
    });
    t.equal(await scan(), 200);
    t.equal((await send('DELETE', `${adaUrl()}/keys/${key.uuid}`, admin.accessToken)).status, 204);
    t.equal(await scan(), 401);
    t.equal((await send('DELETE', `${adaUrl()}/keys/${key.uuid}`, admin.accessToken)).status, 404, 'once');
    const again = await signIn(second.url, ADA.email, ADA.password);
    t.equal((await send('DELETE', `${adaUrl()}/sessions`, admin.accessToken)).status, 204);
    t.equal((await send('GET', `${second.url}/web/quota`, again.accessToken)).status, 401);
  });

  t.test('what is wrong is refused, and nobody shuts himself out', async (t) => {
    const own = `${first.url}/web/admin/accounts/${admin.userId}`;
    for (const body of [{ suspended: true }, { role: 'user' }]) {
      t.match(await send('PUT', own, admin.accessToken, body), { status: 409 });
      t.match(
        await send(
          'PUT',
          own.replace(/[^/]+$/, (id) => id.toUpperCase()),
          admin.accessToken,
          body,
        ),
        { status: 409 },
      );
    }
    t.match(await send('DELETE', own, admin.accessToken), { status: 409 });
    for (const body of [
      {},
      { plan: 'GOLD' },
      { ownLimit: 0 },
      { ownLimit: 1.5 },
      { ownLimit: 1e12 },
      { role: 'root' },
      { suspended: 1 },
      { id: 1 },
      [],
    ]) {
      t.equal((await send('PUT', adaUrl(), admin.accessToken, body)).status, 400, JSON.stringify(body));
    }
    // Beyond what any integer of JSON may be, the bound of the field is said all the same.
    for (const ownLimit of [1e12, 2 ** 53 + 2, 1e300, -(2 ** 53) - 2]) {
      const message = `ownLimit: must be at ${ownLimit > 0 ? 'most 1000000000' : 'least 1'}`;
      t.match(await send('PUT', adaUrl(), admin.accessToken, { ownLimit }), { body: { message } });
    }
    for (const id of ['x', admin.sessionId, '..%2f..', '%00']) {
      t.equal(
        (await send('PUT', `${first.url}/web/admin/accounts/${id}`, admin.accessToken, { plan: 'PRO' })).status,
        404,
        id,
      );
    }
  });

  t.test('of two operators who demote each other at the same time one stays', async (t) => {
    for (let round = 0; round < 5; round += 1) {
      await sql`UPDATE users SET role = 'operator'`;
      const other = await signIn(second.url, ADA.email, ADA.password);
      const answers = await Promise.all([
        send('PUT', adaUrl(first.url), admin.accessToken, { role: 'user' }),
        send('PUT', `${second.url}/web/admin/accounts/${admin.userId}`, other.accessToken, { role: 'user' }),
      ]);
      t.same(answers.map(({ status }) => status).sort(), [200, 403]);
      t.equal((await sql`SELECT FROM users WHERE role = 'operator'`).count, 1);
    }
    await sql`UPDATE users SET role = CASE WHEN id = ${admin.userId} THEN 'operator' ELSE 'user' END`;
  });

  t.test('health tells of this process', async (t) => {
    const health = await send('GET', `${first.url}/web/admin/health`, admin.accessToken);
    t.match(health.body, {
      process: { pid: first.serverPid(), processes: 1 },
      engine: { state: 'ready', signatures: 1, standing: 'other', problem: null },
      stores: { database: null, isEmbedded: false, admission: null, hasRedis: true },
      journal: { damagedFiles: 0, problem: null },
      suspects: 0,
      update: { state: 'idle' },
    });
  });

  t.test('activity tells of the rows of all nodes and accounts, the last days alone', async (t) => {
    const dayMs = 86_400_000;
    const Row = z.object({ id: z.string(), userId: z.string(), email: z.string().nullable(), at: z.string() });
    const Activity = z.object({
      days: z.array(z.unknown()),
      since: z.string(),
      errorsSince: z.string(),
      errors: z.array(
        z.object({ status: z.int(), reason: z.string(), count: z.int(), lastAt: z.string(), examples: z.array(Row) }),
      ),
      slowest: z.array(Row.extend({ durationMillis: z.int(), sizeInBytes: z.int().nullable() })),
      refusals: z.array(z.object({ userId: z.string(), email: z.string(), refused: z.int() })),
    });
    const read = async () =>
      Activity.parse((await send('GET', `${second.url}/web/admin/activity`, admin.accessToken)).body);
    const body = new FormData();
    body.append('file', new Blob(['']), 'nothing.txt');
    const token = (await signIn(first.url, ADA.email, ADA.password)).accessToken;
    await ask(`${first.url}/web/scans`, { method: 'POST', headers: bearer(token), body });
    const empty = { status: 400, reason: 'File is empty', count: 1 };
    const found = await until(async () => {
      const { errors } = await read();
      return errors.length > 0 ? errors : null;
    });
    t.match(found, [{ ...empty, examples: [{ userId: ada.user.id, email: ADA.email }] }]);

    const gone = randomUUID();
    const slow = (daysAgo: number, durationMs: number, userId = ada.user.id) =>
      rowAt(Date.now() - daysAgo * dayMs, { userId, durationMs });
    const incomplete = (daysAgo: number) =>
      rowAt(Date.now() - daysAgo * dayMs, { userId: gone, status: 422, error: 'Scan incomplete: encrypted' });
    const rows = [slow(1, 999), slow(6, 1_000), slow(8, 9_000), slow(2, 2_500, gone)];
    const failed = [incomplete(1), incomplete(2), incomplete(3), incomplete(4), incomplete(8)];
    const refused = Array.from({ length: 300 }, (_, index) =>
      rowAt(Date.now() - dayMs - index, { userId: gone, status: 400, error: `unknown: ${index % 60}` }),
    );
    await createRowStore(sql)([...rows, ...failed, ...refused]);
    // The scan of when she was suspended is written down a while later, and would be added to these.
    await until(async () => (await sql`DELETE FROM refused_hours WHERE user_id = ${ada.user.id}`).count > 0);
    await enoughOfTheHour();
    await sql`INSERT INTO refused_hours (user_id, window_start, refused)
      SELECT ${ada.user.id}, extract(epoch FROM date_trunc('hour', now()))::bigint - hours * 3600, refused
      FROM (VALUES (0, 3), (23, 4), (25, 100)) AS v (hours, refused)`;
    const { days, since, errorsSince, errors, slowest, refusals } = await read();
    t.equal(days.length, 30);
    t.equal(errorsSince, since);
    t.match(errors, [
      { status: 422, reason: 'Scan incomplete: encrypted', count: 4 },
      { status: 400, count: 5 },
    ]);
    t.equal(errors.length, 50);
    t.same(
      errors[0]?.examples.map(({ id }) => id),
      failed.slice(0, 3).map(({ id }) => id),
    );
    t.match(errors[0]?.examples[0], { userId: gone, email: null });
    t.match(slowest, [
      { id: rows[3]?.id, email: null, durationMillis: 2_500, sizeInBytes: 5 },
      { id: rows[1]?.id, email: ADA.email, durationMillis: 1_000 },
    ]);
    t.equal(slowest.length, 2);
    t.same(refusals, [{ userId: ada.user.id, email: ADA.email, refused: 7 }]);

    const many = Array.from({ length: 10_000 }, (_, index) =>
      rowAt(Date.now() - dayMs + index, { userId: gone, status: 503, error: `The scan queue is full ${index % 60}` }),
    );
    await createRowStore(sql)(many);
    const cut = await read();
    t.ok(cut.errorsSince > since);
    t.equal(cut.since.slice(0, 10), since.slice(0, 10));
    t.equal(cut.errors.length, 50);
  });

  t.test(
    'health names the processes that share the stores, those that are silent, and none that has ended',
    async (t) => {
      const Health = z.object({
        nodes: z.array(
          z
            .object({ id: z.uuid(), host: z.string(), pid: z.int(), isSilent: z.boolean(), answers: z.boolean() })
            .extend({ engine: z.string().nullable() })
            .loose(),
        ),
      });
      const nodes = async (url: string) =>
        Health.parse((await send('GET', `${url}/web/admin/health`, admin.accessToken)).body).nodes;
      const here = { host: hostname(), version: /^\d/, engine: /^clamav\//, signatures: 1, isSilent: false };
      const ofSecond = await until(async () => {
        const found = await nodes(second.url);
        // What a process tells first is from before its engine was there.
        return found.length === 4 && found.every(({ engine }) => engine !== null) ? found : null;
      });
      t.match(ofSecond[0], { ...here, answers: true });
      t.equal(ofSecond.filter(({ answers }) => answers).length, 1);
      t.match(
        ofSecond.find(({ host }) => host === 'silent'),
        { isSilent: true, signatures: 5, engine: 'ClamAV' },
      );
      t.match(
        ofSecond.find(({ pid }) => pid === first.serverPid()),
        { ...here, answers: false },
      );
      const ids = ofSecond.filter(({ host }) => host !== 'silent').map(({ id }) => id);
      t.equal(new Set(ids).size, 2, 'processes of one machine share its id');
      await until(async () => (await nodes(first.url)).length === 4);
      const own = (await nodes(first.url)).find(({ answers }) => answers);
      await sql`
        INSERT INTO nodes (process_id, node_id, host, pid, version, signatures, started_at, seen_at)
        VALUES (gen_random_uuid(), ${own?.id ?? ''}, 'copied', 7, '1.0.0', 5, now(), now() + interval '1 minute')`;
      await until(() => first.output().includes('another machine has a copy of this DATA_DIR'));
      await sql`DELETE FROM nodes WHERE host = 'copied'`;
      const third = await startServer({ env });
      const rows = () => sql`SELECT FROM nodes WHERE pid = ${third.pid}`;
      await until(async () => (await rows()).length === 1);
      await third.stop();
      t.equal((await rows()).length, 0);
    },
  );

  t.test('the supervisor fetches them, also where root runs it, and every process tells of it', async (t) => {
    const Health = z.object({
      process: z.object({ pid: z.int() }),
      engine: z.object({ signatures: z.int() }),
      update: z.object({ state: z.string(), lines: z.array(z.string()) }),
    });
    const told = new Set<number>();
    t.equal((await send('POST', `${second.url}/web/admin/signatures/update`, admin.accessToken)).status, 202);
    await until(async () => {
      // A connection of its own each time: the kernel shares them among the processes.
      const answer = await fetch(`${second.url}/web/admin/health`, {
        headers: { ...bearer(admin.accessToken), Connection: 'close' },
      });
      const { process: of, update, engine } = Health.parse(await answer.json());
      if (update.state === 'failed') throw new Error(update.lines.join('\n'));
      if (update.state === 'done' && engine.signatures === 2) told.add(of.pid);
      return told.size === 2;
    });
  });

  t.test("newer signatures come on an operator's word, one update at a time", async (t) => {
    const node = await startServer({ t, env });
    const url = `${node.url}/web/admin/signatures/update`;
    const both = await Promise.all([send('POST', url, admin.accessToken), send('POST', url, admin.accessToken)]);
    t.same(both.map(({ status }) => status).sort(), [202, 409]);
    const health = async () => (await send('GET', `${node.url}/web/admin/health`, admin.accessToken)).body;
    const Health = z.object({
      engine: z.object({ signatures: z.int() }),
      update: z.object({ state: z.string(), lines: z.array(z.string()) }),
    });
    const now = await until(async () => {
      const { engine, update } = Health.parse(await health());
      const isUnderWay = update.state === 'running' || (update.state === 'done' && engine.signatures !== 2);
      return isUnderWay ? null : { engine, update };
    });
    t.match(now, { engine: { signatures: 2 }, update: { state: 'done', lines: [/./] } });
    mirror.close();
    mirror.closeAllConnections();
    await send('POST', url, admin.accessToken);
    await until(async () => Health.parse(await health()).update.state !== 'running');
    t.match(
      await health(),
      { engine: { signatures: 2 }, update: { state: 'failed' } },
      'and a failed one changes nothing',
    );
  });

  t.test('a content that has crashed the engine is allowed again, on all processes and for good', async (t) => {
    const scan = () => upload(second.url, 'crashed it twice');
    for (let count = 0; count < 8; count += 1) t.equal((await scan()).status, 422);
    const health = async () => (await send('GET', `${second.url}/web/admin/health`, admin.accessToken)).body;
    t.match(await health(), { suspects: 1, refused: [crashed] });
    const url = `${second.url}/web/admin/refused`;
    for (const wrong of ['x', 'a'.repeat(64)])
      t.equal((await send('DELETE', `${url}/${wrong}`, admin.accessToken)).status, 404);
    t.equal((await send('DELETE', `${url}/${crashed}`, admin.accessToken)).status, 204);
    await until(() => readFileSync(join(directory, 'data', SUSPECTS), 'utf8') === '{}');
    await until(async () => {
      const answers = await Promise.all(Array.from({ length: 8 }, scan));
      return answers.every(({ status }) => status === 200);
    });
    t.match(await health(), { suspects: 0, refused: [] });
    const [line] = await sql`SELECT actor, detail FROM audit_log WHERE action = 'content.allow'`;
    t.match(line, { actor: EMAIL, detail: { sha256: crashed } });
  });

  t.test('an account is deleted, and the log says who did it all and from where', async (t) => {
    t.equal((await send('DELETE', adaUrl(), admin.accessToken)).status, 204);
    t.equal((await send('DELETE', adaUrl(), admin.accessToken)).status, 404);
    t.match(await post(`${second.url}/web/auth/login`, ADA), { status: 400 });
    t.match(await post(`${second.url}/web/auth/login`, { email: ADA.email, password: ADA.password }), { status: 401 });
    await until(async () => (await sql`SELECT FROM scans WHERE user_id = ${ada.user.id}`).count === 0);
    const log = await send('GET', `${first.url}/web/admin/audit?account=${ada.user.id}`, admin.accessToken);
    const { lines } = z
      .object({ lines: z.array(z.object({ action: z.string(), actor: z.string(), address: z.string() })) })
      .parse(log.body);
    t.same(lines[0], { action: 'account.delete', actor: EMAIL, address: '127.0.0.1' });
    t.ok(lines.some(({ action }) => action === 'account.limit'));
    await sql`INSERT INTO audit_log (actor, action, target, detail) SELECT '=cmd()', 'account.add', '@SUM(1)', '{}' FROM generate_series(1, 2100)`;
    const csv = await (
      await fetch(`${first.url}/web/admin/audit/export`, { headers: bearer(admin.accessToken) })
    ).text();
    t.match(csv, /^id,at,actor,address,action,target,targetId,detail\r\n/);
    t.match(csv, `,"'=cmd()",,account.add,"'@SUM(1)",,\r\n`);
    const [row] = await sql<{ lines: number }[]>`SELECT count(*)::int AS lines FROM audit_log`;
    t.equal(csv.split('\r\n').length - 2, row?.lines, 'all of it');
    const page = z.object({ lines: z.array(z.unknown()), next: z.string() });
    const { next } = page.parse((await send('GET', `${first.url}/web/admin/audit`, admin.accessToken)).body);
    t.equal(
      page.parse((await send('GET', `${first.url}/web/admin/audit?before=${next}`, admin.accessToken)).body).lines
        .length,
      50,
    );
  });
});
