// When keys were used last: written in batches, forwards only, for keys that are there, also after Postgres was away.
import t from 'tap';
import { createKeyUse, type KeyTouch, PENDING_MAX, touchKeys } from '../../src/account/key-use.js';
import { createKey, listKeys } from '../../src/account/keys.js';
import { endKey } from '../../src/account/revocation.js';
import type { Sql } from '../../src/store/postgres.js';
import { newUser } from '../fixtures/dashboard.js';
import { makeTransactionsRepeatable, onEachStore, open } from '../fixtures/stores.js';

const MINUTE = 60_000;
const NOON = Date.UTC(2026, 0, 2, 12);

async function lastUse(sql: Sql, keyId: string): Promise<number | null> {
  const [row] = await sql<{ last_use: Date | null }[]>`SELECT last_use FROM api_keys WHERE id = ${keyId}`;
  return row?.last_use?.getTime() ?? null;
}

onEachStore(async (t, store) => {
  t.test('the latest time stays, whatever order the batches come in', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const userId = await newUser(sql, 'ada@example.com');
    const one = (await createKey(sql, { userId, name: 'one' })).keyId;
    const other = (await createKey(sql, { userId, name: 'other' })).keyId;
    await touchKeys(sql, [
      { keyId: one, atMs: NOON },
      { keyId: one, atMs: NOON + MINUTE + 7 },
      { keyId: other, atMs: NOON },
    ]);
    await touchKeys(sql, [
      { keyId: one, atMs: NOON },
      { keyId: other, atMs: NOON + 1 },
    ]);
    await touchKeys(sql, []);
    t.equal(await lastUse(sql, one), NOON + MINUTE + 7);
    t.equal(await lastUse(sql, other), NOON + 1);
  });

  t.test('a key that has ended or gone meanwhile does not come back', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const userId = await newUser(sql, 'ada@example.com');
    const ended = (await createKey(sql, { userId, name: 'ended' })).keyId;
    const gone = (await createKey(sql, { userId, name: 'gone' })).keyId;
    await endKey(sql, { revoke: async () => undefined }, userId, ended);
    await sql`DELETE FROM api_keys WHERE id = ${gone}`;
    await touchKeys(sql, [
      { keyId: gone, atMs: NOON },
      { keyId: ended, atMs: NOON },
    ]);
    t.same(await listKeys(sql, userId), []);
    t.same([...(await sql`SELECT id FROM api_keys`)], [{ id: ended }]);
  });

  t.test('nodes that write the same keys in opposite orders all get through', async (t) => {
    const target = await store.target(t);
    await makeTransactionsRepeatable((await open(t, target)).sql);
    const nodes = await Promise.all([open(t, target), open(t, target)]);
    const sql = nodes[0].sql;
    const userId = await newUser(sql, 'ada@example.com');
    const keys: string[] = [];
    for (let index = 0; index < 40; index += 1) keys.push((await createKey(sql, { userId, name: 'x' })).keyId);
    const rounds = Array.from({ length: 40 }, (_, round) => {
      const order = round % 2 === 0 ? keys : [...keys].reverse();
      return touchKeys(
        (nodes[round % 2] ?? nodes[0]).sql,
        order.map((keyId) => ({ keyId, atMs: NOON + round })),
      );
    });
    await Promise.all(rounds);
    for (const keyId of keys) t.equal(await lastUse(sql, keyId), NOON + 39);
  });

  t.test('uses are gathered, kept while Postgres is away, and written when it is back and at the stop', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const userId = await newUser(sql, 'ada@example.com');
    const { keyId } = await createKey(sql, { userId, name: 'one' });
    const problems: unknown[] = [];
    const writes: (readonly KeyTouch[])[] = [];
    let isAway = true;
    let wake: () => void = () => undefined;
    const use = createKeyUse({
      intervalMs: 1,
      onProblem: (error) => problems.push(error),
      async flush(touches) {
        writes.push(touches);
        wake();
        if (isAway) throw new Error('away');
        await touchKeys(sql, touches);
      },
    });
    const written = async (count: number): Promise<void> => {
      while (writes.length < count) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    };
    t.equal(use.pending(keyId), null);
    use.used(keyId, NOON + 5);
    use.used(keyId, NOON);
    t.same(use.pending(keyId), new Date(NOON + 5));
    await written(3);
    t.same(writes[0], [{ keyId, atMs: NOON + 5 }], 'one entry for each key, the latest');
    t.same(writes[2], writes[0], 'tried again');
    t.same(use.pending(keyId), new Date(NOON + 5));
    t.equal(problems.length, 1, 'told once');
    isAway = false;
    const before = writes.length;
    await written(before + 1);
    use.used(keyId, NOON + MINUTE);
    await use.stop();
    t.equal(await lastUse(sql, keyId), NOON + MINUTE);
    t.equal(problems.length, 1);
  });
});

t.test('while Postgres is away a bounded number of keys is kept, and a stop does not wait for it', async (t) => {
  let isAway = true;
  const problems: unknown[] = [];
  const seen = new Set<string>();
  const use = createKeyUse({
    intervalMs: MINUTE,
    onProblem: (error) => problems.push(error),
    async flush(touches) {
      if (isAway) throw new Error('away');
      for (const { keyId } of touches) seen.add(keyId);
    },
  });
  for (let index = 0; index < PENDING_MAX + 10; index += 1) use.used(`key ${index}`, NOON);
  t.equal(use.pending('key 9'), null, 'those noted first made room');
  t.same(use.pending('key 10'), new Date(NOON));
  await use.stop();
  t.equal(problems.length, 1);
  isAway = false;
  await use.stop();
  t.equal(seen.size, PENDING_MAX, 'in several statements');
});
