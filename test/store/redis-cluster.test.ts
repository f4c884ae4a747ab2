// Redis Cluster: masters that die, hang and give slots away, and connections that end with a count on its way.

import { once } from 'node:events';
import { Redis } from 'ioredis';
import t from 'tap';
import { createRedisLedger } from '../../src/admission/redis-ledger.js';
import {
  clientOf,
  getValue,
  inOneWrite,
  mastersBySlot,
  openRedis,
  runScript,
  setValue,
} from '../../src/store/redis/redis.js';
import { StoreAway } from '../../src/store/store-error.js';
import { startPostgres } from '../fixtures/postgres.js';
import { type RedisServer, redisPassword, startRedis, startRedisCluster } from '../fixtures/redis.js';
import { until } from '../fixtures/until.js';
import { asking, LIMIT, node, setUp } from './redis-node.js';

const server = await startPostgres({ t });

t.test('a master of a cluster killed under load: the limit stays exact, and its users are back with it', async (t) => {
  const { sql, userId, keyHash } = await setUp(t, server);
  const cluster = await startRedisCluster({ t });
  const [one, other] = [await node(t, cluster, sql), await node(t, cluster, sql)];
  const { master } = await cluster.placeOf(`sluice:{u:${userId}}`);
  const { counts, ask } = asking([one.store, other.store], keyHash);
  await ask(10);
  t.equal(await master.client.exists(`sluice:{u:${userId}}`), 1, 'it is the one');
  await master.kill();
  await ask(10);
  t.same(counts, { admitted: 40, exhausted: 0, scopeMissing: 0, keyInvalid: 0 }, 'from Postgres');
  for (const { redis } of [one, other]) t.match(redis.problem(), /^Redis is away/);
  const back = Promise.all([one.isBack(), other.isBack()]);
  await master.start();
  await back;
  await ask(60);
  t.same(counts, { admitted: LIMIT, exhausted: 60, scopeMissing: 0, keyInvalid: 0 });
  t.equal(await master.client.exists(`sluice:{u:${userId}}`), 1, 'counted by its master again');
});

t.test('a slot that moves under load keeps nobody away from the rest of the cluster', async (t) => {
  const { sql, userId, keyHash } = await setUp(t, server);
  const cluster = await startRedisCluster({ t });
  const { store, redis, problems } = await node(t, cluster, sql);
  t.match(await store.admit(keyHash), { outcome: 'admitted' });
  const record = `sluice:{u:${userId}}`;
  const { slot, master: from } = await cluster.placeOf(record);
  const to = cluster.masters.find((master) => master !== from);
  const id = String(await to?.client.call('CLUSTER', 'MYID'));
  // With its record, as a resharding does it: only an empty slot may be given away.
  await from.client.call('MIGRATE', '127.0.0.1', to?.port ?? 0, record, 0, 1_000, 'AUTH', redisPassword).catch(() => 0);
  await from.client.del(record);
  for (const { client } of cluster.masters) await client.call('CLUSTER', 'SETSLOT', slot, 'NODE', id);
  const neighbours = Array.from({ length: 50 }, (_, index) => `other:${index}`);
  const [admission, ...values] = await Promise.all([store.admit(keyHash), ...neighbours.map((key) => redis.get(key))]);
  t.match(admission, { outcome: 'admitted' });
  t.same(new Set(values), new Set([null]));
  t.same(problems, []);
  t.equal(redis.problem(), null);
});

t.test(
  'a slot on its way to a master that dies: keys are served from Postgres, and nothing is left unhandled',
  async (t) => {
    const { sql, userId, keyHash } = await setUp(t, server);
    const cluster = await startRedisCluster({ t });
    const { store, redis } = await node(t, cluster, sql);
    const unhandled: unknown[] = [];
    const onUnhandled = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', onUnhandled);
    t.teardown(() => process.off('unhandledRejection', onUnhandled));
    const { slot, master: from } = await cluster.placeOf(`sluice:{u:${userId}}`);
    const to = cluster.masters.find((master) => master !== from);
    if (to === undefined) throw new Error('There are three masters');
    const [source, target] = [await from.client.call('CLUSTER', 'MYID'), await to.client.call('CLUSTER', 'MYID')];
    await to.client.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(source));
    await from.client.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(target));
    to.signal('SIGSTOP');
    // The user's record isn't there yet: the source sends each client that asks for it to the other one.
    t.match(await store.admit(keyHash), { outcome: 'admitted' });
    t.match(redis.problem(), /^Redis is away: No answer/);
    await to.kill();
    await until(() => redis.problem()?.includes('No answer') !== true);
    t.same(unhandled, []);
  },
);

t.test('what was under way when a connection ended is not sent again: a unit is counted at most once', async (t) => {
  const cluster = await startRedisCluster({ t });
  const alone = await startRedis({ t });
  const userId = '00000000-0000-7000-8000-000000000001';
  for (const [url, servers] of [
    [cluster.url, cluster.masters],
    [alone.url, [alone]],
  ] as const) {
    const client = clientOf(url);
    t.teardown(() => client.disconnect());
    const ledger = createRedisLedger({
      run: (script, key, ...args) => runScript(client, script, key, args),
      together: (send) => inOneWrite(client, send),
      get: (key) => getValue(client, key),
      set: (key, value, seconds) => setValue(client, key, value, seconds),
    });
    await once(client, 'ready');
    await ledger.fill(userId, await ledger.begin(userId), { key: null, hourlyLimit: 10, hours: [] });
    t.match(await ledger.take(userId, null), { kind: 'taken', counted: 1 });
    for (const server of servers) server.signal('SIGSTOP');
    const refused = t.rejects(async () => ledger.take(userId, null));
    const nodes = client instanceof Redis ? [client] : client.nodes('master');
    // Those that nobody has asked for anything are not connected.
    const connections = nodes.filter(({ status }) => status === 'ready');
    t.ok(connections.length > 0);
    // The kernel has the command: the one that is stopped runs it when it goes on, and nobody hears the answer.
    for (let turn = 0; turn < 3; turn += 1) await new Promise(setImmediate);
    while (connections.some(({ stream }) => stream.writableLength > 0)) await new Promise(setImmediate);
    for (const { stream } of connections) stream.destroy();
    for (const server of servers) server.signal('SIGCONT');
    await refused;
    const take = async () => ledger.take(userId, null);
    const next = await until(() => take().catch(() => null));
    t.match(next, { kind: 'taken', counted: 3 }, 'the one whose answer was lost was counted, once');
  }
});

t.test('a master that hangs is left for the one that has its slots', async (t) => {
  const cluster = await startRedisCluster({ t });
  const [hung, heir, other] = cluster.masters;
  if (hung === undefined || heir === undefined || other === undefined) throw new Error('It has three masters');
  const redis = await openRedis({
    url: cluster.url,
    onReturn: async () => undefined,
    onProblem: () => undefined,
  });
  t.teardown(() => redis.close());
  const idle = clientOf(cluster.url);
  t.teardown(() => idle.disconnect());
  await once(idle, 'ready');
  const key = await keyOn(hung);
  await redis.set(key, 'before', 60);
  t.equal(await getValue(idle, key), 'before');
  hung.signal('SIGSTOP');
  await t.rejects(redis.get(key), StoreAway);
  // As a failover does it, which needs replicas.
  const id = String(await heir.client.call('CLUSTER', 'MYID'));
  for (const { client } of [heir, other]) {
    const slots = Array.from({ length: Math.floor(16_384 / 3) }, (_, slot) => slot);
    await Promise.all(slots.map((slot) => client.call('CLUSTER', 'SETSLOT', slot, 'NODE', id)));
  }
  await until(() => redis.problem() === null);
  t.equal(await redis.get(key), null, 'by the heir, which was given nothing else');
  t.equal(await heir.client.exists(key), 0);
  await redis.set(key, 'after', 60);
  t.equal(await heir.client.get(key), 'after');
  // Who has asked for nothing meanwhile, and so met no silence, hears of it as well.
  await until(() => mastersBySlot(idle)?.(0) === `127.0.0.1:${heir.port}`);
  t.equal(await getValue(idle, key), 'after');
});

t.test('a client that is closed while it asks for the slots asks no more, and keeps no process', async (t) => {
  const cluster = await startRedisCluster({ t });
  /** Those that keep the process. */
  const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  const before = timers();
  const client = clientOf(cluster.url);
  t.teardown(() => client.disconnect());
  client.on('error', () => undefined);
  await once(client, 'ready');
  for (const { signal } of cluster.masters) signal('SIGSTOP');
  // The first master has not answered, and the others are asked now.
  await once(client, 'node error');
  client.disconnect();
  const ended = once(client, 'end');
  for (const { signal } of cluster.masters) signal('SIGCONT');
  await ended;
  await cluster.stop();
  // What it had asked by then is waited for, two seconds at most; nothing follows.
  await until(() => timers() <= before);
  t.ok(timers() <= before);
});

/** A key in one of its slots. */
async function keyOn({ client }: RedisServer): Promise<string> {
  for (let index = 0; ; index += 1) {
    const key = `key:${index}`;
    if (Number(await client.call('CLUSTER', 'KEYSLOT', key)) < Math.floor(16_384 / 3)) return key;
  }
}
