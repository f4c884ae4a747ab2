// The ledger in this process keeps so many users, forgets who has asked least recently, and counts in hours that have gone by.
import t from 'tap';
import { HOURS_KEPT } from '../../src/admission/admission.js';
import { createMemoryLedger } from '../../src/admission/memory-ledger.js';
import { createTestLedger } from '../fixtures/accounts.js';

const USERS_MAX = 1_000;
const SOON_MS = Date.UTC(2026, 10, 21, 12, 5);
const HOUR_SECONDS = 3_600;

t.test('who has asked least recently is forgotten first, not who came first', async (t) => {
  const ledger = createTestLedger(() => SOON_MS, USERS_MAX);
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

t.test('a unit of an hour that is long over takes no count from the present one', async (t) => {
  const ledger = createTestLedger(() => SOON_MS);
  const windowStartSeconds = Math.floor(SOON_MS / 1000) - 5 * 60;
  const hours = Array.from({ length: HOURS_KEPT + 1 }, (_, ago) => ({
    ...{ userId: 'u', windowStartSeconds: windowStartSeconds - ago * HOUR_SECONDS },
    ...{ mirrored: 5, returned: 0, direct: 0, directReturned: 0 },
  }));
  const facts = { key: null, hourlyLimit: 10, hours: hours.slice(0, HOURS_KEPT) };
  await ledger.fill('u', await ledger.begin('u'), facts);
  await ledger.raise(hours.slice(HOURS_KEPT));
  t.match(await ledger.take('u', null), { kind: 'taken', counted: 6 });
});

t.test('a clock that jumps begins no other hour before the one that has begun has gone by', async (t) => {
  let jumpedSeconds = 0;
  let uptime = 1_000_000;
  const start = uptime;
  const clock = (): number => SOON_MS + (uptime - start + jumpedSeconds) * 1000;
  const ledger = createMemoryLedger({ clock, uptimeSeconds: () => uptime });
  await ledger.fill('u', await ledger.begin('u'), { key: null, hourlyLimit: 100, hours: [] });
  const windowStartSeconds = Math.floor(SOON_MS / 1000) - 5 * 60;
  t.match(await ledger.take('u', null), { counted: 1, windowStartSeconds });
  let counted = 1;
  for (const hours of [3, -3, 600, -600, 0]) {
    jumpedSeconds = hours * HOUR_SECONDS;
    uptime += 60;
    counted += 1;
    const answer = await ledger.take('u', null);
    t.match(answer, { kind: 'taken', counted, windowStartSeconds }, `${hours} hours`);
    // What is left of it is what is really left, whatever the clock says: Retry-After is made of it.
    if ('nowSeconds' in answer) t.equal(answer.nowSeconds, Math.floor(SOON_MS / 1000) + uptime - start);
  }
  uptime += 55 * 60;
  t.match(await ledger.take('u', null), { counted: 1, windowStartSeconds: windowStartSeconds + HOUR_SECONDS });
  jumpedSeconds = 3 * HOUR_SECONDS;
  uptime += HOUR_SECONDS;
  t.match(
    await ledger.take('u', null),
    { counted: 1, windowStartSeconds: windowStartSeconds + 5 * HOUR_SECONDS },
    'a clock that was set for good is followed with the next hour',
  );
});

t.test('a clock that is corrected by seconds at the end of an hour is followed at once', async (t) => {
  let nowMs = SOON_MS;
  let uptime = 0;
  const ledger = createMemoryLedger({ clock: () => nowMs, uptimeSeconds: () => uptime });
  await ledger.fill('u', await ledger.begin('u'), { key: null, hourlyLimit: 100, hours: [] });
  await ledger.take('u', null);
  nowMs += 55 * 60_000;
  uptime += 55 * 60 - 30;
  t.match(await ledger.take('u', null), { kind: 'taken', counted: 1 });
});
