// The keys of access tokens, on both stores: one first key for all nodes, rotation that every node knows of in time, and bounded curiosity.
import {
  createTokens,
  KEYS_RELOAD_MS,
  openSigningKeys,
  RETIRED_KEY_MS,
  ROTATION_AHEAD_MS,
  ROTATION_MS,
  type SigningKeys,
} from '../../src/account/tokens.js';
import type { Sql } from '../../src/store/postgres.js';
import { makeTransactionsRepeatable, onEachStore, open } from '../fixtures/stores.js';

const START = Date.UTC(2026, 10, 21, 9);
const session = {
  userId: '01900000-0000-7000-8000-0000000000ab',
  sessionId: '01900000-0000-7000-8000-0000000000cd',
};
const unknownId = '01900000-0000-7000-8000-00000000000a';

function idsOf(keys: SigningKeys): string[] {
  return keys.all().map(({ id }) => id);
}

/** Counts the statements that go through it. */
function counting(sql: Sql): { readonly sql: Sql; count(): number } {
  let count = 0;
  const counted = new Proxy(sql, {
    apply(target, self, parameters) {
      count += 1;
      return Reflect.apply(target, self, parameters);
    },
  });
  return { sql: counted, count: () => count };
}

onEachStore(async (t, store) => {
  t.test('nodes that start at once on an empty database have one key', async (t) => {
    const target = await store.target(t);
    const { sql } = await open(t, target);
    await makeTransactionsRepeatable(sql);
    const nodes = await Promise.all([open(t, target), open(t, target), open(t, target)]);
    const opened = await Promise.all(nodes.map(({ sql }) => openSigningKeys(sql, () => START)));
    const [first] = opened.map((keys) => keys.current().id);
    for (const keys of opened) t.same(idsOf(keys), [first]);
    t.match(await sql`SELECT count(*)::int AS n FROM signing_keys`, [{ n: 1 }]);
  });

  t.test('the next key is known before it signs, and the old one stays for its last tokens', async (t) => {
    const target = await store.target(t);
    const [one, other] = await Promise.all([open(t, target), open(t, target)]);
    let nowMs = START;
    const now = () => nowMs;
    const [rotating, waiting] = [await openSigningKeys(one.sql, now), await openSigningKeys(other.sql, now)];
    const options = { issuer: 'sluice', trusted: null, now };
    const [minter, verifier] = [createTokens(rotating, options), createTokens(waiting, options)];
    const old = rotating.current().id;

    nowMs = START + ROTATION_MS - ROTATION_AHEAD_MS - 1;
    await Promise.all([rotating.reload(), waiting.reload()]);
    t.same(idsOf(rotating), [old], 'not before its time');
    nowMs += 1;
    await Promise.all([rotating.reload(), waiting.reload()]);
    const [, next] = idsOf(rotating);
    t.same(idsOf(waiting), [old, next], 'both rotate at once and make one key');
    t.equal(rotating.current().id, old);
    t.equal(createTokens(waiting, options).jwks().keys.length, 2, 'published before it is used');
    t.ok(KEYS_RELOAD_MS * 2 < ROTATION_AHEAD_MS, 'every node reloads before the key signs');

    nowMs = START + ROTATION_MS - 1;
    const lastOfOld = await minter.mint(session);
    nowMs += 1;
    t.equal(rotating.current().id, next);
    t.equal(waiting.current().id, next);
    t.match(await verifier.verify(lastOfOld, ['test']), { outcome: 'own' });
    t.match(await verifier.verify(await minter.mint(session), ['test']), { outcome: 'own' });

    nowMs = START + 2 * ROTATION_MS - ROTATION_AHEAD_MS;
    t.ok(nowMs > START + ROTATION_MS + RETIRED_KEY_MS);
    await rotating.reload();
    const left = idsOf(rotating);
    t.equal(left.length, 2);
    t.equal(left[0], next);
    t.notOk(left.includes(old));
  });

  t.test('a node learns of a key that another one made, from the first token', async (t) => {
    const target = await store.target(t);
    const [one, other] = await Promise.all([open(t, target), open(t, target)]);
    let nowMs = START;
    const now = () => nowMs;
    const stale = await openSigningKeys(one.sql, now);
    await one.sql`DELETE FROM signing_keys`;
    const fresh = createTokens(await openSigningKeys(other.sql, now), { issuer: 'sluice', trusted: null, now });
    const token = await fresh.mint(session);
    nowMs += 1000;
    t.match(await createTokens(stale, { issuer: 'sluice', trusted: null, now }).verify(token, ['test']), {
      outcome: 'own',
    });
  });

  t.test('made-up key ids ask Postgres once a second', async (t) => {
    const { sql } = await open(t, await store.target(t));
    let nowMs = START;
    const counter = counting(sql);
    const keys = await openSigningKeys(counter.sql, () => nowMs);
    const before = counter.count();
    for (let n = 0; n < 1000; n += 1) {
      nowMs += 10;
      await Promise.all([keys.find(unknownId), keys.find(unknownId)]);
    }
    t.equal(counter.count() - before, 10);
  });

  t.test('a database without keys gets one again, and the old ones count no more', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const keys = await openSigningKeys(sql, () => START);
    const leaked = keys.current().id;
    await sql`DELETE FROM signing_keys`;
    await keys.reload();
    t.not(keys.current().id, leaked);
    t.equal(keys.all().length, 1);
  });
});
