// What a node writes to a Redis that comes back, before any request uses it: all of it, until that succeeds, and one node at a time.
import t from 'tap';
import { openRedis, type RedisCommands, type RedisConnection } from '../../src/store/redis/redis.js';
import { StoreAway } from '../../src/store/store-error.js';
import { type RedisServer, startRedis } from '../fixtures/redis.js';
import { until } from '../fixtures/until.js';
import type { Subtest } from '../store/redis-node.js';

interface Reconciling {
  readonly connection: RedisConnection;
  readonly problems: readonly string[];
  /** How often it was asked to reconcile. */
  calls(): number;
  /** Resolves when it has been asked so often. */
  called(times: number): Promise<void>;
}

/** A connection that can't reconcile the first times. */
async function reconciling(t: Subtest, server: RedisServer, failures: number): Promise<Reconciling> {
  let calls = 0;
  const waiting = new Set<() => void>();
  const problems: string[] = [];
  const connection = await openRedis({
    url: server.url,
    async onReturn() {
      calls += 1;
      for (const look of waiting) look();
      if (calls <= failures) throw new Error(`Postgres is away, ${calls}`);
    },
    onProblem: (problem) => problems.push(problem),
  });
  t.teardown(() => connection.close());
  return {
    connection,
    problems,
    calls: () => calls,
    called: (times) =>
      new Promise((resolve) => {
        const look = (): void => {
          if (calls >= times) resolve();
        };
        waiting.add(look);
        look();
      }),
  };
}

/** Resolves after each next try that was planned before the call: timers of the same length fire in their order. */
async function nextTry(t: Subtest): Promise<void> {
  const server = await startRedis();
  t.teardown(() => server.stop());
  const reference = await reconciling(t, server, 1);
  await reference.called(2);
}

async function isUsed({ connection }: Reconciling): Promise<void> {
  await until(() => connection.problem() === null);
}

async function newServer(t: Subtest): Promise<RedisServer> {
  const server = await startRedis();
  t.teardown(() => server.stop());
  return server;
}

t.test(
  'a reconciliation that fails is reported once, and repeated beside the requests until it succeeds',
  async (t) => {
    const one = await reconciling(t, await newServer(t), 2);
    const expected = ['Redis is back, but what was counted meanwhile is not reconciled yet: Postgres is away, 1'];
    t.same(one.problems, expected);
    t.equal(one.connection.problem(), null, 'it is used all the same');
    await one.connection.set('key', 'value', 10);
    await one.called(3);
    t.equal(await one.connection.get('key'), 'value');
    await nextTry(t);
    t.equal(one.calls(), 3, 'that went well');
    t.same(one.problems, expected);
  },
);

t.test('neither a Redis that is away nor a closed connection is reconciled', async (t) => {
  const server = await newServer(t);
  const [away, closed] = [await reconciling(t, server, 1), await reconciling(t, server, 1)];
  await server.kill();
  closed.connection.close();
  await t.rejects(away.connection.get('key'), StoreAway);
  await nextTry(t);
  t.equal(away.calls(), 1);
  t.equal(closed.calls(), 1);
  await server.start();
  await isUsed(away);
  t.equal(away.calls(), 2, 'when it is back');
  t.equal(closed.calls(), 1);
  t.match(away.problems, [/^Redis is back, but/, /^Redis is away/]);
  t.equal(away.problems.length, 2);
});

t.test('after a stall in which no connection was lost, one reconciliation runs, not two', async (t) => {
  const server = await newServer(t);
  const one = await reconciling(t, server, 1);
  server.signal('SIGSTOP');
  await t.rejects(one.connection.get('key'), StoreAway);
  server.signal('SIGCONT');
  await isUsed(one);
  t.equal(one.calls(), 2);
  await nextTry(t);
  t.equal(one.calls(), 2);
});

t.test('until the reconciliation has ended nothing else reaches a Redis that is back', async (t) => {
  const server = await newServer(t);
  let given: RedisCommands | null = null;
  let endReconciliation: () => void = () => undefined;
  let isFirst = true;
  let asked: () => void = () => undefined;
  const isAsked = new Promise<void>((resolve) => {
    asked = resolve;
  });
  const connection = await openRedis({
    url: server.url,
    async onReturn(commands) {
      if (isFirst) {
        isFirst = false;
        return;
      }
      await commands.set('written', 'first', 10);
      given = commands;
      asked();
      await new Promise<void>((resolve) => {
        endReconciliation = resolve;
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
  t.ok(given);
  await t.rejects(connection.get('written'), StoreAway);
  t.match(connection.problem(), /^Redis is away/);
  endReconciliation();
  await until(() => connection.problem() === null);
  t.equal(await connection.get('written'), 'first');
});
