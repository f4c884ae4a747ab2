// Access by API key: which header is looked up at all, and a refund that acts once.
import t from 'tap';
import { createAccess } from '../../src/admission/access.js';
import { HOURS_KEPT } from '../../src/admission/admission.js';
import { hashOfKey } from '../../src/store/keys.js';
import { createTestAdmissions, createTestLedger, loaderOf } from '../fixtures/accounts.js';
import { planOf } from '../fixtures/plans.js';

const KEY = '0123456789abcdef0123456789abcdef';
const NOON_MS = Date.UTC(2026, 10, 21, 12);

function accessTo(hourlyLimit: number) {
  const looked: string[] = [];
  const clock = { nowMs: NOON_MS };
  const load = loaderOf(async (keyHash) => {
    looked.push(keyHash);
    return keyHash === hashOfKey(KEY) ? { userId: 'user', keyId: 'key', hourlyLimit } : null;
  });
  const inMemory = createTestLedger(() => clock.nowMs);
  // Answers later, as Redis does.
  const ledger = { ...inMemory, take: async (...all: Parameters<typeof inMemory.take>) => inMemory.take(...all) };
  const store = createTestAdmissions({ load, clock: () => clock.nowMs, ledger });
  t.teardown(() => store.stop());
  return { access: createAccess(store, [planOf('FREE', hourlyLimit)]), looked, clock };
}

t.test('an absent or blank header is missing, a malformed one invalid, neither is looked up', async (t) => {
  const { access, looked } = accessTo(1);
  for (const header of [undefined, '', '  \t']) t.same(await access.withApiKey(header), { outcome: 'keyMissing' });
  for (const header of [
    KEY.toUpperCase(),
    KEY.slice(1),
    `${KEY}0`,
    `${KEY}\n${KEY}`,
    `${KEY}, ${KEY}`,
    'ü'.repeat(32),
  ]) {
    t.same(await access.withApiKey(header), { outcome: 'keyInvalid' }, header);
  }
  t.same(looked, []);
});

t.test('an unknown key is invalid, a known one admitted until its units are used', async (t) => {
  const { access, looked } = accessTo(1);
  t.same(await access.withApiKey('f'.repeat(32)), { outcome: 'keyInvalid' });
  t.match(await access.withApiKey(` ${KEY} `), {
    outcome: 'admitted',
    userId: 'user',
    keyId: 'key',
    quota: { limit: 1, remaining: 0, resetEpochSeconds: NOON_MS / 1000 + 3600 },
  });
  t.same(await access.withApiKey(KEY), {
    outcome: 'exhausted',
    quota: { limit: 1, remaining: 0, resetEpochSeconds: NOON_MS / 1000 + 3600 },
    retryAfterSeconds: 3600,
  });
  t.match(
    await access.asUser({ userId: 'user', plan: 'ANY', ownLimit: null }),
    { outcome: 'exhausted' },
    'one count for keys and dashboard',
  );
  t.notOk(looked.includes(KEY), 'the store sees a hash, never the key');
});

t.test('whose key it is, is known beside the next admission, while there are units left', async (t) => {
  const { access } = accessTo(2);
  const begun: string[] = [];
  const work = { begin: (userId: string) => void begun.push(userId) };
  await access.withApiKey(KEY, work);
  t.same(begun, [], 'nobody has used it yet');
  const asked = access.withApiKey(` ${KEY} `, work);
  t.same(begun.splice(0), ['user']);
  await asked;
  for (const header of [undefined, '', 'x', 'f'.repeat(32)]) await access.withApiKey(header, work);
  await access.withApiKey(KEY, work);
  t.same(begun, [], 'the hour is used up');
});

t.test('a refund gives one unit back, once, into the hour it came from', async (t) => {
  const { access, clock } = accessTo(3);
  const first = await access.withApiKey(KEY);
  await access.withApiKey(KEY);
  if (first.outcome !== 'admitted') throw new Error('The first one is admitted');
  const quotas = await Promise.all([first.refund(), first.refund()]);
  quotas.push(await first.refund());
  for (const quota of quotas) t.match(quota, { limit: 3, remaining: 2 });
  t.match(await access.withApiKey(KEY), { quota: { remaining: 1 } });

  const late = await access.withApiKey(KEY);
  if (late.outcome !== 'admitted') throw new Error('The last one is admitted');
  for (let hour = 0; hour < HOURS_KEPT; hour += 1) {
    clock.nowMs += 3_600_000;
    t.match(await access.withApiKey(KEY), { quota: { remaining: 2 } });
  }
  const { resetEpochSeconds } = late.quota;
  t.match(
    await late.refund(),
    { remaining: 1, resetEpochSeconds },
    'Postgres has its hour, which the ledger keeps no more',
  );
  t.match(await access.withApiKey(KEY), { quota: { remaining: 1 } }, 'this hour is untouched by it');
});

t.test('a ledger in memory has answered when it is asked, and takes no unit twice', async (t) => {
  const store = createTestAdmissions({
    load: loaderOf(async () => ({ userId: 'user', keyId: 'key', hourlyLimit: 3 })),
    clock: () => NOON_MS,
  });
  t.teardown(() => store.stop());
  const access = createAccess(store, [planOf('FREE', 3)]);
  t.match(await access.withApiKey(KEY), { outcome: 'admitted', quota: { remaining: 2 } }, 'looked up in Postgres');
  t.match(access.withApiKey(KEY), { outcome: 'admitted', quota: { remaining: 1 } });
  t.match(access.withApiKey(KEY), { outcome: 'admitted', quota: { remaining: 0 } });
  t.match(access.withApiKey(KEY), { outcome: 'exhausted', quota: { remaining: 0 } });
  await store.revoke({ userId: 'user', keyHash: hashOfKey(KEY) });
  t.match(await access.withApiKey(KEY), { outcome: 'keyInvalid' });
});
