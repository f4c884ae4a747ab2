// What a process waits for before it uses a Redis again that comes back.
import t from 'tap';
import { openRedis } from '../../src/store/redis/redis.js';
import { StoreAway } from '../../src/store/store-error.js';
import { startRedis } from '../fixtures/redis.js';
import { until } from '../fixtures/until.js';

t.test('a Redis that is back is not used before who uses it is ready for that', async (t) => {
  const server = await startRedis({ t });
  let getReady: () => void = () => undefined;
  let isFirst = true;
  let asked: () => void = () => undefined;
  const isAsked = new Promise<void>((resolve) => {
    asked = resolve;
  });
  const connection = await openRedis({
    url: server.url,
    async onReturn() {
      if (isFirst) {
        isFirst = false;
        return;
      }
      asked();
      await new Promise<void>((resolve) => {
        getReady = resolve;
      });
    },
    onProblem: () => undefined,
  });
  t.teardown(() => connection.close());
  t.equal(connection.problem(), null);
  await server.kill();
  await t.rejects(connection.get('key'), StoreAway);
  await server.start();
  await isAsked;
  await t.rejects(connection.get('key'), StoreAway);
  t.match(connection.problem(), /^Redis is away/);
  getReady();
  await until(() => connection.problem() === null);
  t.equal(await connection.get('key'), null);
});
