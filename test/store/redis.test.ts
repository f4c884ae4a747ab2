// Redis that goes away, stalls, forgets and comes back: keys and quota go on from Postgres, exact, and nobody waits for long.
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { createKey, revokeInPostgres } from '../../src/account/keys.js';
import { createRedisLedger } from '../../src/admission/redis-ledger.js';
import { hashOfKey } from '../../src/store/keys.js';
import { openPostgres } from '../../src/store/postgres.js';
import { openRedis } from '../../src/store/redis/redis.js';
import { reasonOfRefusal } from '../../src/store/redis/refusals.js';
import { startPostgres } from '../fixtures/postgres.js';
import { patient, type RedisServer, redisPassword, startRedis } from '../fixtures/redis.js';
import { type Relay, startRelay } from '../fixtures/relay.js';
import { startSilentProxy } from '../fixtures/silent-proxy.js';
import { until } from '../fixtures/until.js';
import { asking, askOne, LIMIT, node, setUp } from './redis-node.js';

const server = await startPostgres({ t });
const operationsPath = fileURLToPath(new URL('../../../docs/operations.md', import.meta.url));

async function begin(t: Test) {
  const redis = await startRedis({ t });
  return { ...(await setUp(t, server)), redis };
}

t.test('one round trip admits a request', async (t) => {
  const { sql, redis, keyHash } = await begin(t);
  const { store } = await node(t, redis, sql);
  await store.admit(keyHash);
  await redis.client.config('RESETSTAT');
  for (let unit = 0; unit < 20; unit += 1) t.match(await store.admit(keyHash), { outcome: 'admitted' });
  const stats = await redis.client.info('commandstats');
  const calls = [...stats.matchAll(/cmdstat_([a-z|]+):calls=(\d+)/g)].map(([, name, count]) => [name, Number(count)]);
  const inside = new Set(['time', 'hmget', 'hincrby', 'hset', 'hget', 'expire', 'hdel', 'info', 'exists']);
  t.same(
    calls.filter(([name]) => !inside.has(String(name)) && !String(name).startsWith('config')),
    [['evalsha', 20]],
  );
  await redis.client.config('RESETSTAT');
  for (let guess = 0; guess < 5; guess += 1) {
    t.match(await store.admit(String(guess).padStart(64, '0')), { outcome: 'keyInvalid' });
  }
  t.notMatch(await redis.client.info('commandstats'), /evalsha|cmdstat_set|cmdstat_get/, 'guesses cost Redis nothing');
});

t.test('Redis killed and started empty under load: exactly the limit, over two nodes', async (t) => {
  const { sql, redis, keyHash } = await begin(t);
  const one = await node(t, redis, sql);
  const other = await node(t, redis, sql);
  const { counts, ask } = asking([one.store, other.store], keyHash);
  await ask(10);
  t.equal(counts.admitted, 20);
  await redis.kill();
  await ask(10);
  t.equal(counts.admitted, 40, 'from Postgres');
  t.match(one.store.problem(), /^Redis is away/);
  t.ok(
    one.problems.every((problem) => !problem.includes(redisPassword) && !problem.includes('127.0.0.1')),
    'no secrets',
  );
  const back = Promise.all([one.isBack(), other.isBack()]);
  await redis.start();
  await back;
  t.equal(one.store.problem(), null);
  await ask(60);
  const exact = { admitted: LIMIT, exhausted: 160 - LIMIT, scopeMissing: 0, keyInvalid: 0 };
  t.same(counts, exact, 'the units from before, from the outage and from after make exactly the limit');
});

const refusals: { why: RegExp; refuse: string[]; allow: string[] }[] = [
  {
    why: /OOM, it is full: raise its maxmemory$/,
    refuse: ['CONFIG', 'SET', 'maxmemory', '1'],
    allow: ['CONFIG', 'SET', 'maxmemory', '0'],
  },
  { why: /READONLY, it is a replica: .*$/, refuse: ['REPLICAOF', '127.0.0.1', '1'], allow: ['REPLICAOF', 'NO', 'ONE'] },
];
for (const { why, refuse, allow } of refusals) {
  t.test(`a Redis that answers but refuses writes (${why.source}) is away until it takes them again`, async (t) => {
    const { sql, redis, keyHash } = await begin(t);
    const [one, other] = [await node(t, redis, sql), await node(t, redis, sql)];
    const { counts, ask } = asking([one.store, other.store], keyHash);
    await ask(10);
    const [first = '', ...rest] = refuse;
    await redis.client.call(first, ...rest);
    await ask(20);
    t.same(counts, { admitted: 60, exhausted: 0, scopeMissing: 0, keyInvalid: 0 }, 'from Postgres');
    for (const { redis: connection, problems } of [one, other]) {
      await until(() => why.test(connection.problem() ?? ''));
      t.same(problems.length, 1, problems.join('\n'));
    }
    const back = Promise.all([one.isBack(), other.isBack()]);
    const [command = '', ...settings] = allow;
    await redis.client.call(command, ...settings);
    await back;
    await ask(40);
    t.same(counts, { admitted: LIMIT, exhausted: 40, scopeMissing: 0, keyInvalid: 0 }, 'exactly the limit, over both');
    if (allow[0] !== 'REPLICAOF') return;
    const received = await connectionsOf(redis);
    t.ok(received > 3, `a replica is connected to anew: ${received} connections of two nodes and the test`);
  });
}

t.test('why Redis was left is said also while there is no connection', async (t) => {
  const redis = await startRedis({ t });
  const proxy = await startSilentProxy(redis.port);
  t.teardown(() => proxy.stop());
  const url = redis.url.replace(String(redis.port), String(proxy.port));
  const connection = await openRedis({ ...patient, url, onReturn: async () => undefined, onProblem: proxy.silence });
  t.teardown(() => connection.close());
  await redis.client.call('REPLICAOF', '127.0.0.1', '1');
  const before = await connectionsOf(redis);
  await t.rejects(connection.set('key', 'value', 60));
  // The next connection has no answer, and is given up for another one; meanwhile it is tried again and again what Redis takes.
  const said = new Set<string | null>();
  await until(async () => {
    said.add(connection.problem());
    return (await connectionsOf(redis)) > before + 1;
  });
  t.equal(said.size, 1);
  t.match([...said], [/^Redis is away: READONLY, /]);
});

/** How many it has had so far. */
async function connectionsOf({ client }: RedisServer): Promise<number> {
  return Number(/total_connections_received:(\d+)/.exec(await client.info('stats'))?.[1]);
}

t.test('a Redis that comes and goes is left alone longer and longer', async (t) => {
  const { sql, redis, keyHash } = await begin(t);
  const { store, problems } = await node(t, redis, sql);
  // Writes pass, so the probe does; a count reads first, which does not.
  await redis.client.call('ACL', 'SETUSER', 'default', '-hmget');
  const startedAt = Date.now();
  for (let round = 0; round < 1_000; round += 1) await store.admit(keyHash);
  const seconds = (Date.now() - startedAt) / 1000;
  // 250, 500, 1,000 ms and so on lie between them, and never more than 10 s.
  t.ok(problems.length <= 2 + Math.log2(1 + seconds * 4) + seconds / 10, `${problems.length} lines in ${seconds} s`);
  t.match(problems[0], /^Redis is away/);
});

t.test('a Redis that stalls holds nobody up for long, and is used again afterwards', async (t) => {
  const { sql, redis, keyHash } = await begin(t);
  const { store, isBack } = await node(t, redis, sql);
  await store.admit(keyHash);
  redis.signal('SIGSTOP');
  const admissions = await Promise.all(Array.from({ length: 20 }, () => store.admit(keyHash)));
  t.ok(admissions.every(({ outcome }) => outcome === 'admitted'));
  t.match(store.problem(), /^Redis is away/);
  t.match(await store.admit(keyHash), { outcome: 'admitted' });
  const back = isBack();
  redis.signal('SIGCONT');
  await back;
  // The commands that timed out may have been run when Redis woke up: each of them may cost a second unit, never less than one.
  const last = await store.admit(keyHash);
  if (last.outcome !== 'admitted') throw new Error('There are units left');
  t.ok(last.quota.remaining <= LIMIT - 23 && last.quota.remaining >= LIMIT - 23 - 20, String(last.quota.remaining));
});

t.test('a Redis that lost its scripts or its data is filled again', async (t) => {
  const { sql, redis, keyHash } = await begin(t);
  const { store } = await node(t, redis, sql);
  t.match(await store.admit(keyHash), { quota: { remaining: 99 } });
  await redis.client.script('FLUSH');
  t.match(await store.admit(keyHash), { quota: { remaining: 98 } });
  // The copy in Postgres is made every second.
  await until(async () => (await sql`SELECT FROM quota_hours WHERE mirrored = 2`).length > 0);
  await redis.client.flushall();
  t.match(await store.admit(keyHash), { outcome: 'admitted', quota: { remaining: 97 } });
});

t.test('something else under a name of ours is named and removed, and Redis goes on counting', async (t) => {
  const { sql, redis, userId, keyHash } = await begin(t);
  const { store, problems, redis: connection } = await node(t, redis, sql);
  t.match(await store.admit(keyHash), { quota: { remaining: 99 } });
  await until(async () => (await sql`SELECT FROM quota_hours WHERE mirrored = 1`).length > 0);
  const [record, owner] = [`sluice:{u:${userId}}`, `sluice:k:${keyHash}`];
  await redis.client.set(record, 'of somebody else');
  t.match(await store.admit(keyHash), { outcome: 'admitted', quota: { remaining: 98 } });
  t.equal(store.problem(), null);
  t.same(problems, [`${record} in Redis was of the type string, which Sluice has not made: it is removed`]);
  t.equal(await redis.client.type(record), 'hash');
  await redis.client.del(owner);
  await redis.client.lpush(owner, 'of somebody else');
  t.equal(await createRedisLedger(connection).ownerOf(keyHash), null);
  t.same(problems.slice(1), [`${owner} in Redis was of the type list, which Sluice has not made: it is removed`]);
});

t.test('a reply that is lost costs its scan a second unit at most, and nothing is sent again', async (t) => {
  const { sql, redis, keyHash } = await begin(t);
  const proxy = await startSilentProxy(redis.port);
  t.teardown(() => proxy.stop());
  const { store, problems, isBack } = await node(
    t,
    { url: redis.url.replace(String(redis.port), String(proxy.port)) },
    sql,
  );
  await store.admit(keyHash);
  proxy.silence();
  t.match(await store.admit(keyHash), { outcome: 'admitted' }, 'its unit is in Redis, and in Postgres');
  t.equal(problems.length, 1);
  const back = isBack();
  proxy.speak();
  await back;
  const next = await store.admit(keyHash);
  t.match(next, { outcome: 'admitted', quota: { remaining: LIMIT - 4 } }, 'three scans, four units');
});

t.test(
  'a Redis that restarts with an old copy of its data: counts are those of Postgres, an ended key stays ended',
  async (t) => {
    const { sql, redis, userId, keyId, keyHash } = await begin(t);
    const second = await createKey(sql, { userId, name: 'two' });
    const secondHash = hashOfKey(second.value);
    const { store, isBack } = await node(t, redis, sql);
    let nowMs = Date.now();
    const unreconciled = await node(t, redis, sql, { clock: () => nowMs, reconciles: false });
    const ask = (hash: string, count: number) => askOne(store, hash, count);
    t.equal(await ask(keyHash, 50), 50);
    t.equal(await ask(secondHash, 9), 9);
    t.match(await unreconciled.store.admit(keyHash), { outcome: 'admitted' });
    await redis.client.call('SAVE');
    t.equal(await ask(secondHash, 30), 30);
    await until(async () => (await sql`SELECT FROM quota_hours WHERE mirrored = 90`).length > 0);
    await revokeInPostgres(sql, userId, keyId);
    await store.revoke({ userId, keyHash });
    const back = Promise.all([isBack(), unreconciled.isBack()]);
    await redis.kill();
    await redis.start();
    await back;
    t.match(await store.admit(keyHash), { outcome: 'keyInvalid' }, 'Redis has it again');
    t.equal(await ask(secondHash, 20), 10, '90 of 100 were used: Postgres said so');

    // As a failover that nobody notices: Redis has the key as a live one, and a node has seen it so lately.
    await redis.client.hset(`sluice:{u:${userId}}`, `k:${keyHash}`, keyId);
    t.match(await unreconciled.store.admit(keyHash), { outcome: 'exhausted' }, 'believed');
    nowMs += 15_000;
    t.match(await unreconciled.store.admit(keyHash), { outcome: 'keyInvalid' }, 'not after 15 seconds');
  },
);

/** That many ask at once. All of them together would wait for one row, on a busy machine for longer than a client does. */
const LANES = 10;

/** Two nodes, each with a relay to Redis, after 20 admissions. */
async function twoNodes(t: Test) {
  const { sql, redis, keyHash } = await begin(t);
  const [near, far] = [await startRelay(redis.port), await startRelay(redis.port)];
  const at = ({ port }: Relay) => node(t, { url: `redis://:${redisPassword}@127.0.0.1:${port}` }, sql);
  const one = await at(near);
  const other = await at(far);
  // The last one first: nodes wait for it.
  t.teardown(() => {
    near.stop();
    far.stop();
  });
  const { counts, ask } = asking([one.store, other.store], keyHash);
  await ask(10);
  return { keyHash, one, other, far, counts, ask };
}

t.test(
  'a node that is cut off from a Redis which others use: exactly the limit, asked for at once on both',
  async (t) => {
    const { keyHash, one, other, far, counts, ask } = await twoNodes(t);
    far.cut();
    t.match(await other.store.admit(keyHash), { outcome: 'admitted' }, 'by Postgres');
    await Promise.all(Array.from({ length: LANES }, () => ask(LIMIT / LANES)));
    // At most: a late answer of Redis costs a unit that nobody was given.
    t.ok([LIMIT - 2, LIMIT - 1].includes(counts.admitted), `${counts.admitted + 1} of ${LIMIT}`);
    t.match(one.store.problem(), /^Postgres counts/, 'for all');
  },
);

t.test('one node after the other uses a Redis again: exactly the limit meanwhile', async (t) => {
  const { one, other, far, counts, ask } = await twoNodes(t);
  far.cut();
  await ask(5);
  t.equal(counts.admitted, 30);
  await until(() => one.store.problem() !== null);
  far.mend();
  while (one.store.problem() !== null || other.store.problem() !== null) {
    await Promise.all([ask(1), delay(100)]);
  }
  t.ok(counts.admitted > 30, `${counts.admitted} while they came back`);
  await Promise.all(Array.from({ length: LANES }, () => ask(LIMIT / LANES)));
  // The question that was under way in the cut reaches Redis afterwards, and costs a unit that nobody was given.
  t.ok([LIMIT - 1, LIMIT].includes(counts.admitted), `${counts.admitted} of ${LIMIT}`);
});

t.test('a connection whose other end is gone without a word is given up, and a new one made', async (t) => {
  const { sql, redis, keyHash } = await begin(t);
  const proxy = await startSilentProxy(redis.port);
  t.teardown(() => proxy.stop());
  const url = redis.url.replace(String(redis.port), String(proxy.port));
  const { store, isBack } = await node(t, { url }, sql);
  await store.admit(keyHash);
  proxy.abandon();
  const back = isBack();
  t.match(await store.admit(keyHash), { outcome: 'admitted' }, 'by Postgres');
  await back;
  t.match(await store.admit(keyHash), { outcome: 'admitted' });
});

t.test('a Redis that is far away is used again after an outage', async (t) => {
  const { sql, redis, keyHash } = await begin(t);
  const proxy = await startSilentProxy(redis.port, 400);
  t.teardown(() => proxy.stop());
  const url = redis.url.replace(String(redis.port), String(proxy.port));
  const { store, isBack } = await node(t, { url }, sql);
  await store.admit(keyHash);
  const back = isBack();
  await redis.kill();
  t.match(await store.admit(keyHash), { outcome: 'admitted' }, 'by Postgres');
  await redis.start();
  await back;
  t.match(await store.admit(keyHash), { outcome: 'admitted' });
});

t.test('a revocation that does not reach Redis is an error, and completes when it is repeated', async (t) => {
  const { sql, redis, userId, keyId, keyHash } = await begin(t);
  const one = await node(t, redis, sql);
  await one.store.admit(keyHash);
  await redis.kill();
  t.match(await revokeInPostgres(sql, userId, keyId), { keyHash });
  await t.rejects(one.store.revoke({ userId, keyHash }), { code: 'unavailable', retryAfterSeconds: 2 });
  t.match(await one.store.admit(keyHash), { outcome: 'keyInvalid' }, 'Postgres refuses it meanwhile');
  const back = one.isBack();
  await redis.start();
  await back;
  await one.store.revoke({ userId, keyHash });
  t.match(await one.store.admit(keyHash), { outcome: 'keyInvalid' });
});

t.test('Postgres away: keys that Redis knows work on a node that has never seen them; both away: 503', async (t) => {
  const { sql, redis, userId, keyHash } = await begin(t);
  const { store } = await node(t, redis, sql);
  await store.admit(keyHash);
  const gone = await openPostgres({ kind: 'url', url: await server.database() });
  const cut = await node(t, redis, gone.sql);
  // It has heard that Redis counts.
  await cut.store.quotaOf({ userId, hourlyLimit: LIMIT });
  await gone.close();
  t.match(await cut.store.admit(keyHash), { outcome: 'admitted', quota: { limit: LIMIT, remaining: 98 } });
  await t.rejects(async () => cut.store.admit('0'.repeat(64)), { code: 'unavailable' });
  await redis.kill();
  await t.rejects(async () => cut.store.admit(keyHash), { code: 'unavailable', retryAfterSeconds: 2 });
});

t.test('a service starts without Redis, and with a wrong password says so', async (t) => {
  const { sql, redis, keyHash } = await begin(t);
  await redis.kill();
  const { store, isBack } = await node(t, redis, sql);
  t.match(await store.admit(keyHash), { outcome: 'admitted' });
  const back = isBack();
  await redis.start();
  await back;
  t.match(await store.admit(keyHash), { outcome: 'admitted', quota: { remaining: 98 } });

  const problems: string[] = [];
  const wrong = await openRedis({
    url: redis.url.replace(redisPassword, 'wrong-password'),
    onReturn: async () => undefined,
    onProblem: (problem) => problems.push(problem),
  });
  t.teardown(() => wrong.close());
  t.match(wrong.problem(), /WRONGPASS, the user or the password of REDIS_URL is wrong$/);
  t.notMatch(problems.join(), /wrong-password/);
  await t.rejects(
    openRedis({ url: 'redis://:secret@[', onReturn: async () => undefined, onProblem: () => undefined }),
    {
      name: 'StoreError',
      message: 'REDIS_URL is not a valid URL, or a comma list of them',
    },
  );
});

t.test('the rights that are documented are enough, and with fewer it says so', async (t) => {
  const redis = await startRedis({ t });
  const rights = /ACL SETUSER sluice on '>PASSWORD' '(\S+)' (.*)$/m.exec(readFileSync(operationsPath, 'utf8'));
  const [, keys = '', commands = ''] = rights ?? [];
  const problemOf = async (user: string, ...allowed: string[]): Promise<string | null> => {
    await redis.client.call('ACL', 'SETUSER', user, 'on', '>pw', ...allowed);
    const url = `redis://${user}:pw@127.0.0.1:${redis.port}`;
    const open = await openRedis({ url, onReturn: async () => undefined, onProblem: () => undefined });
    t.teardown(() => open.close());
    return open.problem();
  };
  t.equal(await problemOf('sluice', keys, ...commands.split(' ')), null);
  t.match(await problemOf('few', keys, '+@connection', '+info', '+get'), /NOPERM, its user may not do all/);
  t.match(await problemOf('elsewhere', '~other:*', '+@all'), /NOPERM/);
});

t.test('a command that has another name is named, without what came with it', (t) => {
  const message = "ERR unknown command 'EVALSHA', with args beginning with: 'secret' ";
  t.equal(reasonOfRefusal(new Error(message)), 'it does not know the command EVALSHA, which Sluice needs');
  t.end();
});
