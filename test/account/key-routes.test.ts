// The routes of API keys over the wire, on both stores: what they show, take and refuse, and what happens when they race or a store fails.
import { z } from 'zod';
import { createKey, LIVE_KEYS_MAX, revokeInPostgres, tellOfEnded } from '../../src/account/keys.js';
import { rules } from '../../src/account/throttle.js';
import { createKeyLoader } from '../../src/admission/key-owners.js';
import { Unavailable } from '../../src/errors.js';
import { hashOfKey } from '../../src/store/keys.js';
import { plans, startDashboard, type TestDashboard } from '../fixtures/dashboard.js';
import { newUser } from '../fixtures/new-user.js';
import type { Answer } from '../fixtures/sign-in.js';
import { makeTransactionsRepeatable, onEachStore, open } from '../fixtures/stores.js';

const Key = z.strictObject({
  uuid: z.uuid(),
  name: z.string(),
  value: z.string(),
  creationDate: z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/),
  lastUse: z.string().nullable(),
  expires: z.string().nullable(),
  hourlyLimit: z.int().nullable(),
  scopes: z.array(z.string()),
});
type Key = z.infer<typeof Key>;

const notFound = { status: 404, body: { error: 'Not found', message: 'No such resource: the key' } };

async function create(dashboard: TestDashboard, who: string, name: string): Promise<Key> {
  const answer = await dashboard.ask(who, 'POST', '/web/keys', { name });
  if (answer.status !== 201) throw new Error(`Not created: ${JSON.stringify(answer)}`);
  return Key.parse(answer.body);
}

async function list(dashboard: TestDashboard, who: string): Promise<Key[]> {
  return z.array(Key).parse((await dashboard.ask(who, 'GET', '/web/keys/me')).body);
}

function dashed(value: string): string {
  return value.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

function statuses(answers: readonly Answer[]): number[] {
  return answers.map(({ status }) => status).sort();
}

onEachStore(async (t, store) => {
  t.test('a key is shown whole once, then masked, and only to its owner', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const [ada, eve] = [await newUser(sql, 'ada@example.com'), await newUser(sql, 'eve@example.com')];
    const dashboard = await startDashboard(t, { sql });
    t.same(await list(dashboard, ada), []);
    const first = await create(dashboard, ada, '  first \u{1F511} ');
    t.match(first, { name: 'first \u{1F511}', value: /^[0-9a-f]{32}$/, lastUse: null });
    const second = await create(dashboard, ada, 'second');
    const masked = `${first.value.slice(0, 4)}${'*'.repeat(24)}${first.value.slice(-4)}`;
    t.match(await list(dashboard, ada), [{ uuid: second.uuid }, { ...first, value: masked }], 'the newest first');
    t.same(await list(dashboard, eve), []);
    const find = createKeyLoader(sql, plans);
    t.match((await find([hashOfKey(first.value)])).get(hashOfKey(first.value)), { userId: ada, keyId: first.uuid });
  });

  t.test('names are 1 to 100 characters without control characters; nothing else is taken', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const ada = await newUser(sql, 'ada@example.com');
    const dashboard = await startDashboard(t, { sql });
    for (const name of [
      'x',
      'x'.repeat(100),
      '\u{1F511}'.repeat(100),
      `${' '.repeat(200)}x`,
      "'; DROP TABLE users; --",
    ]) {
      t.equal((await create(dashboard, ada, name)).name, name.trim());
    }
    const refused: [unknown, RegExp][] = [
      [{}, /^name: /],
      [{ name: '' }, /^name: must not be empty$/],
      [{ name: ' \t ' }, /^name: must not be empty$/],
      [{ name: 'x'.repeat(101) }, /^name: must have at most 100 characters$/],
      [{ name: '\u{1F511}'.repeat(101) }, /^name: must have at most 100 characters$/],
      [{ name: 'a\u0000b' }, /^name: must not have control characters$/],
      [{ name: 'a\u0085b' }, /^name: must not have control characters$/],
      ['{"name":"a\\ud800"}', /^name: must not have control characters$/],
      [{ name: 7 }, /^name: /],
      [{ name: null }, /^name: /],
      [{ name: 'x', uuid: 'y' }, /unknown: uuid$/],
      [{ name: 'x', value: 'f'.repeat(32) }, /unknown: value$/],
      ['{"name":"x","__proto__":{}}', /unknown: __proto__$/],
      ['["x"]', /./],
      ['{"name":', /^The body is not valid JSON$/],
    ];
    for (const [body, message] of refused) {
      const answer = await dashboard.ask(ada, 'POST', '/web/keys', body);
      t.match(answer, { status: 400, body: { error: 'Bad request', message } }, JSON.stringify(body).slice(0, 60));
    }
    const form = {
      method: 'POST',
      headers: { Authorization: `Bearer user:${ada}` },
      body: new URLSearchParams('name=x'),
    };
    t.equal((await fetch(`http://127.0.0.1:${dashboard.port}/web/keys`, form)).status, 415);
    t.equal((await list(dashboard, ada)).length, 5);
  });

  t.test('a key is renamed and bounded; what is left out stays, and the nodes are told of what it may', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const [ada, eve] = [await newUser(sql, 'ada@example.com'), await newUser(sql, 'eve@example.com')];
    const told: unknown[] = [];
    let isAway = false;
    const dashboard = await startDashboard(t, {
      sql,
      admission: {
        async setKeyLimits(key, limits) {
          if (isAway) throw new Unavailable('nodesNotReached');
          told.push({ ...key, limits });
        },
      },
    });
    const bounded = { name: 'n', expires: '2099-01-31T10:00:00', hourlyLimit: 7, scopes: ['read'] };
    t.match((await dashboard.ask(ada, 'POST', '/web/keys', bounded)).body, bounded);
    const { uuid, value } = await create(dashboard, ada, 'one');
    const change = async (body: unknown, who = ada, id = uuid) => dashboard.ask(who, 'PUT', `/web/keys/${id}`, body);
    t.match(await change({ name: ' two ' }), {
      status: 200,
      body: { name: 'two', expires: null, scopes: ['scan', 'read'] },
    });
    t.same(told, [], 'a name is nothing to admission');
    t.match(await change({ expires: bounded.expires, scopes: ['scan'] }), { body: { name: 'two', hourlyLimit: null } });
    t.match(await change({ name: null, hourlyLimit: 50 }), {
      body: { name: 'two', expires: bounded.expires, hourlyLimit: 50 },
    });
    const limits = { expiresAtSeconds: Date.UTC(2099, 0, 31, 10) / 1000, hourlyLimit: 50, scopes: ['scan'] };
    t.same(told.at(-1), { userId: ada, keyId: uuid, keyHash: hashOfKey(value), limits });
    const found = (await createKeyLoader(sql, plans)([hashOfKey(value)])).get(hashOfKey(value));
    t.match(found?.rules, limits);
    isAway = true;
    t.match(await change({ expires: null, hourlyLimit: null, scopes: null }), { status: 503 });
    t.match((await list(dashboard, ada))[0], { expires: null, hourlyLimit: null, scopes: ['scan', 'read'] });
    t.equal((await change({ name: 'three' })).status, 200, 'which needs no node');
    isAway = false;
    await sql`UPDATE api_keys SET expires = now() - interval '1 second' WHERE id = ${uuid}`;
    t.same(await createKeyLoader(sql, plans)([hashOfKey(value)]), new Map(), 'its time is over');
    t.equal((await list(dashboard, ada)).length, 2, 'and it is listed');
    t.match(await change({ expires: null }), { status: 200 });
    t.match(told.at(-1), { limits: { expiresAtSeconds: null } });
    for (const [body, message] of [
      [{}, /^Send at least one of/],
      [{ expires: '2020-01-01T00:00:00' }, /^expires: must be in the future$/],
      [{ expires: '2099-02-30T00:00:00' }, /^expires: must be a UTC time like 2030-01-31T00:00:00$/],
      [{ expires: '2099-01-01' }, /^expires: must be a UTC time like 2030-01-31T00:00:00$/],
      [{ hourlyLimit: 51 }, /^hourlyLimit: must be at most 50, which the account has$/],
      [{ hourlyLimit: 0 }, /^hourlyLimit: must be at least 1/],
      [{ hourlyLimit: 1.5 }, /^hourlyLimit: must be an integer/],
      [{ scopes: [] }, /^scopes: must name a scope$/],
      [{ scopes: 'scan' }, /^scopes: must be a list$/],
      [{ scopes: ['scan', 'scan'] }, /^scopes: must have each only once$/],
      [{ scopes: ['admin'] }, /^scopes.0: must be one of scan, read$/],
      [{ value: 'x' }, /^unknown: value/],
    ] as const) {
      t.match(await change(body), { status: 400, body: { error: 'Bad request', message } }, JSON.stringify(body));
    }
    t.match(await change({ name: 'x' }, eve), notFound, "somebody else's");
    t.match(await change({ name: 'x' }, ada, 'nothing'), notFound);
    await dashboard.ask(ada, 'DELETE', `/web/keys/${uuid}`);
    t.match(await change({ name: 'x' }), notFound, 'it has ended');
  });

  t.test('a key is ended by its uuid, or by its value with or without dashes, in any case of letters', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const ada = await newUser(sql, 'ada@example.com');
    const told: { userId: string; keyHash: string }[] = [];
    const find = createKeyLoader(sql, plans);
    const dashboard = await startDashboard(t, {
      sql,
      admission: {
        async revoke({ userId, keyHash }) {
          t.equal((await find([keyHash])).size, 0, 'Postgres has committed before the nodes learn of it');
          told.push({ userId, keyHash });
        },
      },
    });
    const spellings: ((key: Key) => string)[] = [
      ({ uuid }) => uuid,
      ({ uuid }) => uuid.toUpperCase(),
      ({ uuid }) => uuid.replaceAll('-', ''),
      ({ value }) => value,
      ({ value }) => value.toUpperCase(),
      ({ value }) => dashed(value),
    ];
    for (const spell of spellings) {
      const key = await create(dashboard, ada, 'the same name');
      const path = `/web/keys/${spell(key)}`;
      t.match(await dashboard.ask(ada, 'DELETE', path), { status: 204, body: null });
      t.same(told.pop(), { userId: ada, keyHash: hashOfKey(key.value) });
      t.match(await dashboard.ask(ada, 'DELETE', path), notFound);
      t.same(await list(dashboard, ada), []);
    }
    t.same(told, [], 'nodes hear nothing of what is refused');
  });

  t.test('digits that are the uuid of one key and the value of another end the one with that uuid first', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const ada = await newUser(sql, 'ada@example.com');
    const dashboard = await startDashboard(t, { sql });
    const byId = await create(dashboard, ada, 'by its id');
    const byValue = await createKey(sql, { userId: ada, name: 'by its value', value: byId.uuid.replaceAll('-', '') });
    t.equal((await dashboard.ask(ada, 'DELETE', `/web/keys/${byId.uuid}`)).status, 204);
    t.match(await list(dashboard, ada), [{ uuid: byValue.keyId }]);
    t.equal((await dashboard.ask(ada, 'DELETE', `/web/keys/${byId.uuid}`)).status, 204);
    t.same(await list(dashboard, ada), []);
  });

  t.test("somebody else's key and what is no key are not found, and nothing is announced or changed", async (t) => {
    const { sql } = await open(t, await store.target(t));
    const [ada, eve] = [await newUser(sql, 'ada@example.com'), await newUser(sql, 'eve@example.com')];
    const told: unknown[] = [];
    const dashboard = await startDashboard(t, { sql, admission: { revoke: async (key) => void told.push(key) } });
    const { uuid, value } = await create(dashboard, ada, 'hers');
    const tries = [
      uuid,
      value,
      dashed(value),
      hashOfKey(value),
      'f'.repeat(32),
      dashed('0'.repeat(32)),
      'me',
      'x',
      '%00',
    ];
    tries.push(
      `${uuid}%20`,
      `{${uuid}}`,
      `urn:uuid:${uuid}`,
      uuid.slice(0, -1),
      `${value}0`,
      "'%20OR%201=1--",
      '%F0%9F%94%91',
    );
    tries.push(`${value.slice(0, 8)}-${value.slice(8)}`, `${value.slice(0, 4)}${'*'.repeat(24)}${value.slice(-4)}`);
    for (const reference of tries) {
      const answer = await dashboard.ask(eve, 'DELETE', `/web/keys/${reference}`);
      t.match(answer.status, reference === 'me' ? 405 : 404, reference);
      t.notMatch(JSON.stringify(answer.body), value, 'no key is repeated in an answer');
    }
    t.match(await dashboard.ask('', 'GET', '/web/keys/me'), { status: 401 });
    t.same(told, []);
    t.match(await list(dashboard, ada), [{ uuid }]);
  });

  t.test('the nodes learn later of ended keys that they missed, and these can be completed for a while', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const ada = await newUser(sql, 'ada@example.com');
    const told: unknown[] = [];
    const nodes = { revoke: async (key: unknown) => void told.push(key) };
    const dashboard = await startDashboard(t, { sql });
    const [lost, live] = [await create(dashboard, ada, 'lost'), await create(dashboard, ada, 'live')];
    t.match(await revokeInPostgres(sql, ada, lost.uuid), { name: 'lost' }, 'and the process died');
    await tellOfEnded(sql, nodes);
    const key = { userId: ada, keyHash: hashOfKey(lost.value) };
    t.same(told, [key]);
    t.match(
      await dashboard.ask(ada, 'DELETE', `/web/keys/${lost.uuid}`),
      { status: 204 },
      'the user who got a 503 completes it',
    );
    await tellOfEnded(sql, nodes);
    t.equal(told.length, 1, 'it is done with');
    await revokeInPostgres(sql, ada, live.uuid);
    await sql`UPDATE api_keys SET revoked_at = now() - interval '1 hour' WHERE id = ${live.uuid}`;
    await tellOfEnded(sql, nodes);
    await tellOfEnded(sql, nodes);
    t.equal(told.length, 2, 'after ten minutes nobody is expected to come back');
  });

  t.test('60 creations at once make the 50 keys that there may be, and an ended one makes room', async (t) => {
    const target = await store.target(t);
    await makeTransactionsRepeatable((await open(t, target)).sql);
    const { sql } = await open(t, target);
    const [ada, eve] = [await newUser(sql, 'ada@example.com'), await newUser(sql, 'eve@example.com')];
    const dashboard = await startDashboard(t, { sql });
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, index) => dashboard.ask(ada, 'POST', '/web/keys', { name: `key ${index}` })),
    );
    t.equal(answers.filter(({ status }) => status === 201).length, LIVE_KEYS_MAX);
    const conflict = { error: 'Conflict', message: 'You have 50 keys: delete one first' };
    t.equal(answers.filter(({ status }) => status === 409).length, 10);
    t.match(answers.find(({ status }) => status === 409)?.body, conflict);
    const keys = await list(dashboard, ada);
    t.equal(new Set(keys.map(({ uuid }) => uuid)).size, LIVE_KEYS_MAX);
    await create(dashboard, eve, 'of another user');

    t.equal((await dashboard.ask(ada, 'DELETE', `/web/keys/${keys[7]?.uuid}`)).status, 204);
    const again = await Promise.all([1, 2].map(() => dashboard.ask(ada, 'POST', '/web/keys', { name: 'again' })));
    t.same(statuses(again), [201, 409]);
  });

  t.test('a user who makes and ends keys in a loop has to wait; others do not, nor other routes', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const [ada, eve] = [await newUser(sql, 'ada@example.com'), await newUser(sql, 'eve@example.com')];
    let nowMs = Date.UTC(2026, 10, 21, 9);
    const dashboard = await startDashboard(t, { sql, now: () => nowMs });
    for (let n = 0; n < rules.keyCreationsOfUser.burst; n += 1) {
      const { uuid } = await create(dashboard, ada, 'one of many');
      t.equal((await dashboard.ask(ada, 'DELETE', `/web/keys/${uuid}`)).status, 204);
    }
    const tooMany = { status: 429, body: { error: 'Too many attempts', message: 'Try again later' } };
    const refused = await dashboard.ask(ada, 'POST', '/web/keys', { name: 'one too many' });
    t.match(refused, tooMany);
    t.equal(refused.headers.get('retry-after'), '10');
    t.same(await list(dashboard, ada), []);
    const ending = rules.keyEndsOfUser.burst - rules.keyCreationsOfUser.burst;
    for (let n = 0; n < ending; n += 1) {
      t.match(await dashboard.ask(ada, 'DELETE', `/web/keys/${'f'.repeat(32)}`), { status: 404 });
    }
    const last = await dashboard.ask(ada, 'DELETE', `/web/keys/${'f'.repeat(32)}`);
    t.match(last, tooMany);
    t.equal(last.headers.get('retry-after'), '5');
    const other = await create(dashboard, eve, "somebody else's");
    t.equal((await dashboard.ask(eve, 'DELETE', `/web/keys/${other.uuid}`)).status, 204);
    nowMs += rules.keyCreationsOfUser.everyMs;
    await create(dashboard, ada, 'a while later');
  });

  t.test('of deletes at the same time one gets the 204, after the nodes have learned of it', async (t) => {
    const target = await store.target(t);
    await makeTransactionsRepeatable((await open(t, target)).sql);
    const { sql } = await open(t, target);
    const ada = await newUser(sql, 'ada@example.com');
    const told = new Set<string>();
    const dashboard = await startDashboard(t, {
      sql,
      admission: { revoke: async (key) => void told.add(key.keyHash) },
    });
    for (let round = 0; round < 20; round += 1) {
      const key = await create(dashboard, ada, 'the same name');
      const deletes = [key.uuid, key.value, key.uuid].map(async (reference) => {
        const answer = await dashboard.ask(ada, 'DELETE', `/web/keys/${reference}`);
        t.ok(told.has(hashOfKey(key.value)), 'the nodes know before any answer');
        return answer;
      });
      const creation = create(dashboard, ada, 'the same name');
      t.same(statuses(await Promise.all(deletes)), [204, 404, 404]);
      const created = await creation;
      t.match(await list(dashboard, ada), [{ uuid: created.uuid }], 'a key of the same name is another key');
      t.equal((await dashboard.ask(ada, 'DELETE', `/web/keys/${created.uuid}`)).status, 204);
    }
  });

  t.test('nodes that can not be reached are a 503, and the same request completes it', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const ada = await newUser(sql, 'ada@example.com');
    let isAway = true;
    let told = 0;
    const dashboard = await startDashboard(t, {
      sql,
      admission: {
        async revoke() {
          if (isAway) throw new Unavailable('nodesNotReached');
          told += 1;
        },
      },
    });
    const key = await create(dashboard, ada, 'one');
    for (const reference of [key.uuid, key.value]) {
      const answer = await dashboard.ask(ada, 'DELETE', `/web/keys/${reference}`);
      t.match(answer, { status: 503, body: { error: 'Service unavailable' } });
      t.equal(answer.headers.get('retry-after'), '2');
    }
    const find = createKeyLoader(sql, plans);
    t.equal((await find([hashOfKey(key.value)])).size, 0, 'Postgres refuses it already');
    t.same(await list(dashboard, ada), []);
    isAway = false;
    const eve = await newUser(sql, 'eve@example.com');
    t.match(await dashboard.ask(eve, 'DELETE', `/web/keys/${key.uuid}`), notFound);
    t.equal(told, 0);
    t.equal((await dashboard.ask(ada, 'DELETE', `/web/keys/${key.value}`)).status, 204);
    t.equal(told, 1);
    t.match(await dashboard.ask(ada, 'DELETE', `/web/keys/${key.uuid}`), notFound);
  });

  t.test('a key whose row somebody else has and keeps is a 503, and nobody goes on waiting for it', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const ada = await newUser(sql, 'ada@example.com');
    const told: unknown[] = [];
    const dashboard = await startDashboard(t, { sql, admission: { revoke: async (key) => void told.push(key) } });
    const { uuid } = await create(dashboard, ada, 'one');
    await sql.transaction('readCommitted', async (tx) => {
      await tx`SELECT FROM api_keys WHERE id = ${uuid} FOR UPDATE`;
      const answer = await dashboard.ask(ada, 'DELETE', `/web/keys/${uuid}`);
      t.match(answer, { status: 503, body: { error: 'Service unavailable' } });
      t.match(answer.headers.get('retry-after'), /^[1-9]\d*$/);
      const waiting = await sql`SELECT FROM pg_locks JOIN pg_database d ON d.oid = database
        WHERE NOT granted AND datname = current_database()`;
      t.equal(waiting.count, 0);
      const unfinished = await sql`SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'`;
      t.equal(unfinished.count, 0);
    });
    t.same(told, []);
    t.match(await list(dashboard, ada), [{ uuid }], 'it lives');
    t.equal((await dashboard.ask(ada, 'DELETE', `/web/keys/${uuid}`)).status, 204);
    t.equal(told.length, 1);
  });

  t.test('without Postgres every route is a 503 with Retry-After, and no node hears of anything', async (t) => {
    const { sql, requests, close } = await open(t, await store.target(t));
    const ada = await newUser(sql, 'ada@example.com');
    const told: unknown[] = [];
    const dashboard = await startDashboard(t, {
      sql: requests('test'),
      admission: { revoke: async (key) => void told.push(key) },
    });
    const { uuid } = await create(dashboard, ada, 'one');
    await close();
    for (const [method, path, body] of [
      ['GET', '/web/keys/me', undefined],
      ['POST', '/web/keys', { name: 'two' }],
      ['DELETE', `/web/keys/${uuid}`, undefined],
    ] as const) {
      const answer = await dashboard.ask(ada, method, path, body);
      t.equal(answer.status, 503, method);
      t.match(answer.headers.get('retry-after'), /^[1-9]\d*$/);
    }
    t.same(told, []);
  });

  t.test('a use that is on its way to the database is waited for', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const ada = await newUser(sql, 'ada@example.com');
    const settled = async (userId: string): Promise<void> => {
      await sql`UPDATE api_keys SET last_use = '2026-01-02T03:04:05.678Z' WHERE user_id = ${userId}`;
    };
    const dashboard = await startDashboard(t, { sql, settled });
    const { uuid } = await create(dashboard, ada, 'one');
    t.match(await list(dashboard, ada), [{ lastUse: '2026-01-02T03:04:05' }]);
    await sql`UPDATE api_keys SET last_use = NULL`;
    const changed = await dashboard.ask(ada, 'PUT', `/web/keys/${uuid}`, { name: 'two' });
    t.match(changed.body, { name: 'two', lastUse: '2026-01-02T03:04:05' });
  });
});
