// The ledger in this process keeps so many users, and forgets who has asked least recently.
import t from 'tap';
import { createMemoryLedger } from '../../src/admission/memory-ledger.js';

const USERS_MAX = 1_000;

t.test('who has asked least recently is forgotten first, not who came first', async (t) => {
  const ledger = createMemoryLedger(() => Date.UTC(2026, 10, 21, 12, 5), USERS_MAX);
  const facts = { key: null, hourlyLimit: 10, hours: [] };
  const come = async (userId: string) => t.ok(await ledger.fill(userId, await ledger.begin(userId), facts));
  await come('first');
  await come('second');
  for (let user = 2; user < USERS_MAX; user += 1) await ledger.begin(`user ${user}`);
  t.match(await ledger.take('first', null), { kind: 'taken', counted: 1 }, 'all of them are kept');
  await ledger.begin('one too many');
  t.match(await ledger.take('first', null), { kind: 'taken', counted: 2 }, 'with its count');
  t.match(await ledger.take('second', null), { kind: 'missing' });
});
