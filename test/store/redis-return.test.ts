// What Redis is told when it comes back, before anybody uses it: all of it, until it has been told, and by one at a time.
import t from 'tap';
import { LedgerAway } from '../../src/store/ledger.js';
import { openRedis, type RedisCommands, type RedisConnection } from '../../src/store/redis.js';
import { type RedisServer, startRedis } from '../fixtures/redis.js';
import type { Subtest } from './redis-node.js';

interface Settling {
  readonly connection: RedisConnection;
  readonly problems: readonly string[];
  /** How often it was asked to settle the books. */
  calls(): number;
  /** Resolves when it has been asked so often. */
  called(times: number): Promise<void>;
}

/** A connection whose books can't be settled the first times. */
async function settling(t: Subtest, server: RedisServer, failures: number): Promise<Settling> {
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

/** Whoever was to try again before this was called has done so when it resolves: timers of the same length fire in their order. */
async function nextTry(t: Subtest): Promise<void> {
  const server = await startRedis();
  t.teardown(() => server.stop());
  const reference = await settling(t, server, 1);
  await reference.called(2);
}

async function isUsed({ connection }: Settling): Promise<void> {
  while (connection.problem() !== null) await new Promise((resolve) => setImmediate(resolve));
}

async function newServer(t: Subtest): Promise<RedisServer> {
  const server = await startRedis();
  t.teardown(() => server.stop());
  return server;
}

t.test('books that can not be settled are told once, and settled beside the requests, once', async (t) => {
  const one = await settling(t, await newServer(t), 2);
  const told = ['Redis is back, but what was counted meanwhile is not settled yet: Postgres is away, 1'];
  t.same(one.problems, told);
  t.equal(one.connection.problem(), null, 'it is used all the same');
  await one.connection.set('key', 'value', 10);
  await one.called(3);
  t.equal(await one.connection.get('key'), 'value');
  await nextTry(t);
  t.equal(one.calls(), 3, 'that went well');
  t.same(one.problems, told);
});

t.test('nobody settles the books of a Redis that is away, nor of a connection that is closed', async (t) => {
  const server = await newServer(t);
  const [away, closed] = [await settling(t, server, 1), await settling(t, server, 1)];
  await server.kill();
  closed.connection.close();
  await t.rejects(away.connection.get('key'), LedgerAway);
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

t.test('who settles anew after a stall, in which no connection was lost, is the only one', async (t) => {
  const server = await newServer(t);
  const one = await settling(t, server, 1);
  server.signal('SIGSTOP');
  await t.rejects(one.connection.get('key'), LedgerAway);
  server.signal('SIGCONT');
  await isUsed(one);
  t.equal(one.calls(), 2);
  await nextTry(t);
  t.equal(one.calls(), 2);
});

t.test('until the books are settled nobody else reaches a Redis that is back', async (t) => {
  const server = await newServer(t);
  let told: RedisCommands | null = null;
  let settle: () => void = () => undefined;
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
      await commands.set('told', 'first', 10);
      told = commands;
      asked();
      await new Promise<void>((resolve) => {
        settle = resolve;
      });
    },
    onProblem: () => undefined,
  });
  t.teardown(() => connection.close());
  t.equal(connection.problem(), null);
  await server.kill();
  await t.rejects(connection.get('key'), LedgerAway);
  await server.start();
  await isAsked;
  t.ok(told);
  await t.rejects(connection.get('told'), LedgerAway);
  t.match(connection.problem(), /^Redis is away/);
  settle();
  while (connection.problem() !== null) await new Promise((resolve) => setImmediate(resolve));
  t.equal(await connection.get('told'), 'first');
});
