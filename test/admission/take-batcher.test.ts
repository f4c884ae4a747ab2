// Units that are asked for in one turn: one step for each user, each unit with its own answer, all of them refused or failed alike.

import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import type { LedgerAnswer } from '../../src/admission/admission.js';
import { createRedisLedger, createTakeBatcher } from '../../src/admission/redis-ledger.js';
import { clientOf, inOneWrite, openRedis } from '../../src/store/redis/redis.js';
import { patient, startRedis, startRedisCluster } from '../fixtures/redis.js';

const HASH = 'a'.repeat(64);

/** Units that were taken, and how often the last one was answered with. */
function summary(answers: readonly LedgerAnswer[]): Record<string, number[]> {
  const counted: Record<string, number[]> = {};
  for (const answer of answers) {
    if (!('counted' in answer)) throw new Error(answer.kind);
    counted[answer.kind] = [...(counted[answer.kind] ?? []), answer.counted];
  }
  return counted;
}

for (const kind of ['alone', 'cluster'] as const) {
  t.test(`${kind}: users of one turn have their units, and no more`, async (t) => {
    const server = kind === 'alone' ? await startRedis() : await startRedisCluster();
    t.teardown(() => server.stop());
    const onProblem = (problem: string): void => void t.fail(problem);
    const redis = await openRedis({ url: server.url, onReturn: async () => undefined, onProblem, ...patient });
    t.teardown(() => redis.close());
    const ledger = createRedisLedger(redis);
    const users = Array.from({ length: 40 }, (_, index) => `user-${index}`);
    for (const userId of users) {
      const facts = { key: { hash: HASH, keyId: 'key' }, hourlyLimit: 5, hours: [] };
      t.ok(await ledger.fill(userId, await ledger.begin(userId), facts));
    }
    await ledger.revoke('user-0', HASH);
    // As many as there are units, in two turns; then one more than are left.
    for (const [units, expected] of [
      [2, { taken: [1, 2] }],
      [4, { taken: [3, 4, 5], exhausted: [5] }],
      [1, { exhausted: [5] }],
    ] as const) {
      const asked = users.map((userId) =>
        Promise.all(Array.from({ length: units }, () => ledger.take(userId, userId === 'user-1' ? null : HASH))),
      );
      const [revoked = [], ...others] = await Promise.all(asked);
      t.strictSame(revoked, Array(units).fill({ kind: 'revoked' }));
      for (const answers of others) t.strictSame(summary(answers), expected);
    }
    const strangers = await Promise.all([ledger.take('nobody', HASH), ledger.take('user-2', 'b'.repeat(64))]);
    t.strictSame(strangers, [{ kind: 'missing' }, { kind: 'missing' }]);
  });
}

t.test('one step for each key of a user in each turn; who comes later has a step of his own', async (t) => {
  const steps: string[] = [];
  const reply = [9, 100, 50, 0, 0, 3600, 4000];
  const takes = createTakeBatcher(
    async (userId, keyHash, units) => {
      steps.push(`${userId} ${keyHash} ${units}`);
      return [units, ...reply.slice(1)];
    },
    (send) => {
      steps.push('together');
      send();
    },
  );
  const all = [takes.take('u', 'a'), takes.take('u', 'a'), takes.take('u', null), takes.take('v', 'a')];
  t.strictSame(steps, []);
  await turn();
  all.push(takes.take('u', 'a'));
  await Promise.all(all);
  t.strictSame(steps, ['together', 'u a 2', 'u null 1', 'v a 1', 'together', 'u a 1']);
});

t.test(
  'a step that fails, and an answer that makes no sense, fail for all who waited, and for nobody else',
  async (t) => {
    const replies = [
      () => Promise.reject(new Error('gone')),
      async () => [3, 100, 50, 0, 0, 3600, 4000],
      async () => 'x',
    ];
    for (const next of replies) {
      let fails = true;
      const takes = createTakeBatcher(
        (_userId, _keyHash, units) => (fails ? next() : Promise.resolve([units, 100, 50, 0, 0, 3600, 4000])),
        (send) => send(),
      );
      const outcomes = await Promise.allSettled([takes.take('u', 'a'), takes.take('u', 'a')]);
      t.strictSame(
        outcomes.map(({ status }) => status),
        ['rejected', 'rejected'],
      );
      fails = false;
      t.match(await takes.take('u', 'a'), { kind: 'taken', counted: 50 });
    }
  },
);

t.test('what is sent while a connection is away fails, and the connection is usable afterwards', async (t) => {
  const server = await startRedis({ t });
  const client = clientOf(server.url);
  t.teardown(() => client.disconnect());
  // Nothing is connected yet: there is no stream to hold back.
  inOneWrite(client, () => void client.get('a').catch(() => undefined));
  await new Promise((resolve) => client.once('ready', resolve));
  t.throws(
    () =>
      inOneWrite(client, () => {
        throw new Error('ours');
      }),
    { message: 'ours' },
  );
  t.equal(await client.set('a', '1'), 'OK');
});
