// Redis behind Sentinels: they say which server is the master, also after it has changed. Answers and logs name neither them nor passwords.
import t from 'tap';
import { redisPlaceOf } from '../../src/config/store-places.js';
import { clientOf, openRedis } from '../../src/store/redis/redis.js';
import { startPostgres } from '../fixtures/postgres.js';
import {
  type RedisSentinels,
  type RedisServer,
  redisPassword,
  roleOf,
  sentinelPassword,
  startRedisSentinels,
} from '../fixtures/redis.js';
import { until } from '../fixtures/until.js';
import { asking, LIMIT, node, setUp } from './redis-node.js';

const server = await startPostgres({ t });

t.test('an address of Sentinels, as operators write it', async (t) => {
  t.strictSame(redisPlaceOf('redis+sentinel://one,two:1,[::1]:2/main'), {
    kind: 'sentinels',
    login: {},
    isTls: false,
    sentinels: [
      { host: 'one', port: 26379 },
      { host: 'two', port: 1 },
      { host: '::1', port: 2 },
    ],
    sentinelLogin: {},
    name: 'main',
    database: 0,
  });
  const all = 'rediss+sentinel://me:p%40ss+w@one:1/my%20main/3?sentinelUsername=you&sentinelPassword=a%26b+c';
  t.strictSame(redisPlaceOf(all), {
    kind: 'sentinels',
    login: { username: 'me', password: 'p@ss+w' },
    isTls: true,
    sentinels: [{ host: 'one', port: 1 }],
    sentinelLogin: { username: 'you', password: 'a&b+c' },
    name: 'my main',
    database: 3,
  });
});

t.test('a master that dies under load: the limit stays exact, and the next one counts', async (t) => {
  const { sql, userId, keyHash } = await setUp(t, server);
  const redis = await startRedisSentinels({ t });
  const [one, other] = [await node(t, redis, sql), await node(t, redis, sql)];
  const { counts, ask } = asking([one.store, other.store], keyHash);
  await ask(10);
  const before = await masterOf(redis);
  t.equal(await before.client.exists(`sluice:{u:${userId}}`), 1);
  await before.kill();
  await ask(10);
  t.same(counts, { admitted: 40, exhausted: 0, scopeMissing: 0, keyInvalid: 0 }, 'from Postgres');
  await until(() => [one, other].every(({ store }) => store.problem() === null));
  await ask(60);
  t.same(counts, { admitted: LIMIT, exhausted: 60, scopeMissing: 0, keyInvalid: 0 });
  const after = await masterOf(redis);
  t.not(after, before);
  t.equal(await after.client.exists(`sluice:{u:${userId}}`), 1);
  for (const problem of [...one.problems, ...other.problems]) {
    t.notMatch(problem, new RegExp(`127\\.0\\.0\\.1|${redisPassword}|${sentinelPassword.replace('+', '.')}`));
  }
});

t.test('a master that stood still while another one was elected is left, though it goes on', async (t) => {
  const redis = await startRedisSentinels({ t });
  const idle = clientOf(redis.url);
  t.teardown(() => idle.disconnect());
  await until(() => idle.status === 'ready');
  await idle.set('of', 'before');
  const before = await masterOf(redis);
  before.signal('SIGSTOP');
  // Nothing is asked of it meanwhile, so that no answer is late.
  const others = redis.members.filter((member) => member !== before);
  const after = await until(async () => {
    for (const member of others) if ((await roleOf(member)) === 'master') return member;
    return null;
  });
  // The connection to the one that stands still is open, and would be as good as before.
  await until(async () => (await idle.set('of', 'after').catch(() => null)) === 'OK');
  before.signal('SIGCONT');
  t.equal(await after.client.get('of'), 'after');
});

t.test('Sentinels that hang, are gone, or know no such master', async (t) => {
  const redis = await startRedisSentinels({ t });
  const [hung, gone, last] = redis.sentinels;
  hung?.signal('SIGSTOP');
  await gone?.kill();
  const problems: string[] = [];
  const onProblem = (problem: string): void => void problems.push(problem);
  const open = (url: string) => openRedis({ url, onReturn: async () => undefined, onProblem });
  const connection = await open(redis.url);
  t.teardown(() => connection.close());
  await until(() => connection.problem() === null);
  await connection.set('key', 'value', 60);
  t.equal(await connection.get('key'), 'value', 'by what the last of them says');
  await last?.kill();
  await connection.set('key', 'another', 60);
  t.equal(await connection.get('key'), 'another', 'what is connected needs none of them');
  for (const url of [redis.url, redis.url.replace('/sluice?', '/other?')]) {
    const lost = await open(url);
    t.equal(lost.problem(), 'Redis is away: No Sentinel names a master');
    lost.close();
    hung?.signal('SIGCONT');
  }
});

async function masterOf({ members }: RedisSentinels): Promise<RedisServer> {
  for (const member of members) {
    if ((await roleOf(member)) === 'master') return member;
  }
  throw new Error('There is no master');
}
