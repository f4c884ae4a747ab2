// What is stored and shown of keys, on each store.
import fc from 'fast-check';
import { createKey, listKeys } from '../../src/account/keys.js';
import { newUser } from '../fixtures/new-user.js';
import { onEachStore, open } from '../fixtures/stores.js';

onEachStore(async (t, store) => {
  t.test('what a list shows of a value is never more than eight of its characters', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const userId = await newUser(sql, 'ada@example.com');
    const values = fc.stringMatching(/^[0-9a-f]{32}$/);
    const { failed, counterexample } = await fc.check(
      fc.asyncProperty(values, async (value) => {
        const { keyId, masked } = await createKey(sql, { userId, name: 'one', value });
        const listed = (await listKeys(sql, userId)).find((key) => key.keyId === keyId);
        await sql`DELETE FROM api_keys`;
        const shown = [...masked].filter((character) => character !== '*').join('');
        return listed?.masked === masked && masked.length === 32 && shown === `${value.slice(0, 4)}${value.slice(-4)}`;
      }),
      { numRuns: 50 },
    );
    t.notOk(failed, `broken by ${fc.stringify(counterexample)}`);
  });
});
