// Redis Cluster: masters that die, hang and give slots away, and connections that end with a count on its way.
import t from 'tap';
import { startPostgres } from '../fixtures/postgres.js';
import { redisPassword, startRedisCluster } from '../fixtures/redis.js';
import { asking, LIMIT, node, setUp } from './redis-node.js';

const server = await startPostgres();
t.teardown(() => server.stop());

t.test('a master of a cluster killed under load: the limit stays exact, and its users are back with it', async (t) => {
  const { sql, userId, keyHash } = await setUp(t, server);
  const cluster = await startRedisCluster();
  t.teardown(() => cluster.stop());
  const [one, other] = [await node(t, cluster, sql), await node(t, cluster, sql)];
  const slot = Number(await cluster.masters[0]?.client.call('CLUSTER', 'KEYSLOT', `sluice:{u:${userId}}`));
  const master = cluster.masters[Math.floor((slot * 3) / 16_384)];
  if (master === undefined) throw new Error('Every slot has a master');
  const { counts, ask } = asking([one.store, other.store], keyHash);
  await ask(10);
  t.equal(await master.client.exists(`sluice:{u:${userId}}`), 1, 'it is the one');
  await master.kill();
  await ask(10);
  t.same(counts, { admitted: 40, exhausted: 0, unknownKey: 0 }, 'from Postgres');
  for (const { redis } of [one, other]) t.match(redis.problem(), /^Redis is away/);
  const back = Promise.all([one.isBack(), other.isBack()]);
  await master.start();
  await back;
  await ask(60);
  t.same(counts, { admitted: LIMIT, exhausted: 60, unknownKey: 0 });
  t.equal(await master.client.exists(`sluice:{u:${userId}}`), 1, 'counted by its master again');
});

t.test('a slot that moves under load keeps nobody away from the rest of the cluster', async (t) => {
  const { sql, userId, keyHash } = await setUp(t, server);
  const cluster = await startRedisCluster();
  t.teardown(() => cluster.stop());
  const { store, redis, problems } = await node(t, cluster, sql);
  t.match(await store.admit(keyHash), { outcome: 'admitted' });
  const record = `sluice:{u:${userId}}`;
  const slot = Number(await cluster.masters[0]?.client.call('CLUSTER', 'KEYSLOT', record));
  const from = cluster.masters[Math.floor((slot * 3) / 16_384)];
  const to = cluster.masters.find((master) => master !== from);
  const id = String(await to?.client.call('CLUSTER', 'MYID'));
  // With its record, as a resharding does it: only an empty slot may be given away.
  await from?.client
    .call('MIGRATE', '127.0.0.1', to?.port ?? 0, record, 0, 1_000, 'AUTH', redisPassword)
    .catch(() => 0);
  await from?.client.del(record);
  for (const { client } of cluster.masters) await client.call('CLUSTER', 'SETSLOT', slot, 'NODE', id);
  const neighbours = Array.from({ length: 50 }, (_, index) => `other:${index}`);
  const [admission, ...values] = await Promise.all([store.admit(keyHash), ...neighbours.map((key) => redis.get(key))]);
  t.match(admission, { outcome: 'admitted' });
  t.same(new Set(values), new Set([null]));
  t.same(problems, []);
  t.equal(redis.problem(), null);
});
