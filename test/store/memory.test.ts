// Admission in memory: exact under concurrency, by the UTC hour, bounded towards Postgres, and deaf to no revocation.
import fc from 'fast-check';
import t from 'tap';
import type { Admission, KeyRecord } from '../../src/store/admission.js';
import { createMemoryAdmission } from '../../src/store/memory.js';

const HOUR_MS = 3_600_000;
const NOON_MS = Date.UTC(2026, 10, 21, 12);
const HASH = 'a'.repeat(64);
const OTHER = 'b'.repeat(64);

function record(hourlyLimit: number, keyId = 'key'): KeyRecord {
  return { userId: 'user', keyId, hourlyLimit };
}

/** A store whose look-ups wait until the test answers them, in the order they came. */
function heldStore() {
  const waiting: { keyHash: string; answer: (found: KeyRecord | null) => void; fail: (error: Error) => void }[] = [];
  const store = createMemoryAdmission(
    (keyHash) => new Promise((answer, fail) => waiting.push({ keyHash, answer, fail })),
  );
  return { store, waiting };
}

function outcomes(admissions: readonly Admission[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { outcome } of admissions) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
}

t.test('a thousand at once at a limit of a hundred: exactly a hundred, over all keys of the user', async (t) => {
  let looked = 0;
  const store = createMemoryAdmission(async (keyHash) => {
    looked += 1;
    return record(100, keyHash);
  });
  const admissions = await Promise.all(
    Array.from({ length: 1000 }, (_, index) => store.admit(index % 2 ? HASH : OTHER, NOON_MS)),
  );
  t.same(outcomes(admissions), { admitted: 100, exhausted: 900 });
  t.equal(looked, 2, 'one look-up per key');
  const left = admissions.flatMap((one) => (one.outcome === 'admitted' ? [one.quota.remaining] : []));
  t.same(
    left.sort((a, b) => b - a),
    Array.from({ length: 100 }, (_, index) => 99 - index),
    'each remainder once, none below zero',
  );
});

t.test('the window is the UTC hour: the first millisecond of the next one starts anew', async (t) => {
  const store = createMemoryAdmission(async () => record(1));
  t.match(await store.admit(HASH, NOON_MS), {
    outcome: 'admitted',
    windowStartSeconds: NOON_MS / 1000,
    quota: { limit: 1, remaining: 0, resetEpochSeconds: (NOON_MS + HOUR_MS) / 1000 },
  });
  t.match(await store.admit(HASH, NOON_MS + HOUR_MS - 1), { outcome: 'exhausted', quota: { remaining: 0 } });
  t.match(await store.admit(HASH, NOON_MS + HOUR_MS), { outcome: 'admitted' });
  t.match(await store.admit(HASH, NOON_MS + 1), { outcome: 'exhausted' }, 'a clock set back finds its counter');
});

t.test('a refund goes into the hour it came from, never below zero, and nowhere when that hour is gone', async (t) => {
  const store = createMemoryAdmission(async () => record(2));
  await store.admit(HASH, NOON_MS);
  await store.admit(HASH, NOON_MS + HOUR_MS);
  const noon = NOON_MS / 1000;
  t.match(await store.refund('user', noon), { limit: 2, remaining: 2, resetEpochSeconds: noon + 3600 });
  t.match(await store.refund('user', noon), { remaining: 2 });
  t.match(await store.admit(HASH, NOON_MS + HOUR_MS), { quota: { remaining: 0 } }, 'the next hour keeps its count');
  await store.admit(HASH, NOON_MS + 2 * HOUR_MS);
  t.equal(await store.refund('user', noon), null);
  t.equal(await store.refund('nobody', noon + 7200), null);
});

t.test('a key that is made after it was refused works at once, also when a look-up of it was in flight', async (t) => {
  const { store, waiting } = heldStore();
  const first = store.admit(HASH, NOON_MS);
  // The key is made now; this request comes after that, and finds the earlier look-up running.
  const second = store.admit(HASH, NOON_MS);
  t.equal(waiting.length, 1);
  waiting[0]?.answer(null);
  t.match(await first, { outcome: 'unknownKey' });
  t.equal(waiting.length, 2, 'the second request has one of its own');
  waiting[1]?.answer(record(5));
  t.match(await second, { outcome: 'admitted' });
});

t.test('look-ups are bounded, and unknown keys leave nothing behind', async (t) => {
  const { store, waiting } = heldStore();
  const asked = Array.from({ length: 64 }, (_, index) => store.admit(String(index), NOON_MS));
  await t.rejects(store.admit('one more', NOON_MS), {
    code: 'unavailable',
    detail: 'Too many key look-ups at once',
    retryAfterSeconds: 1,
  });
  for (const { answer } of waiting) answer(null);
  t.same(outcomes(await Promise.all(asked)), { unknownKey: 64 });
  const again = store.admit('0', NOON_MS);
  t.equal(waiting.length, 65, 'an unknown key is looked up again');
  waiting[64]?.answer(null);
  t.match(await again, { outcome: 'unknownKey' });
});

t.test('without Postgres known keys go on and others are told to come back', async (t) => {
  const { store, waiting } = heldStore();
  const known = store.admit(HASH, NOON_MS);
  waiting[0]?.answer(record(5));
  await known;
  const later = store.admit(HASH, NOON_MS + 60_000);
  t.equal(waiting.length, 2, 'an old answer is asked for again');
  waiting[1]?.fail(new Error('connection refused'));
  t.match(await later, { outcome: 'admitted', quota: { remaining: 3 } });
  const unknown = store.admit(OTHER, NOON_MS);
  waiting[2]?.fail(new Error('connection refused'));
  await t.rejects(unknown, {
    code: 'unavailable',
    detail: 'The account store is not reachable',
    retryAfterSeconds: 2,
  });
});

t.test('a known key waits a moment for a Postgres that hangs, then not again for a second', async (t) => {
  const { store, waiting } = heldStore();
  const known = store.admit(HASH, NOON_MS);
  waiting[0]?.answer(record(9));
  await known;
  const later = NOON_MS + 60_000;
  t.match(await store.admit(HASH, later), { outcome: 'admitted' }, 'answered though the look-up is not');
  t.match(await store.admit(HASH, later + 999), { outcome: 'admitted', quota: { remaining: 6 } });
  t.equal(waiting.length, 2);

  // The look-up that nobody waits for any more finds that the key has ended.
  waiting[1]?.answer(null);
  await new Promise(setImmediate);
  const after = store.admit(HASH, later + 999);
  t.equal(waiting.length, 3);
  waiting[2]?.answer(null);
  t.match(await after, { outcome: 'unknownKey' });
});

t.test('a key that ends while its refresh hangs stays ended', async (t) => {
  const { store, waiting } = heldStore();
  const known = store.admit(HASH, NOON_MS);
  waiting[0]?.answer(record(9));
  await known;
  const stalled = store.admit(HASH, NOON_MS + 60_000);
  await store.revoke(HASH);
  waiting[1]?.answer(record(9));
  t.match(await stalled, { outcome: 'unknownKey' });
  t.match(await store.admit(HASH, NOON_MS + 60_000), { outcome: 'unknownKey' });
  t.equal(waiting.length, 2, 'without a look-up');
});

t.test('what another process did to a key or its plan arrives', async (t) => {
  let found: KeyRecord | null = record(5);
  const store = createMemoryAdmission(async () => found);
  await store.admit(HASH, NOON_MS);
  found = record(1);
  t.match(await store.admit(HASH, NOON_MS + 15_000), { outcome: 'exhausted', quota: { limit: 1, remaining: 0 } });
  found = null;
  t.match(await store.admit(HASH, NOON_MS + 30_000), { outcome: 'unknownKey' });
});

t.test('a revoked key is refused whatever is in flight', async (t) => {
  const step = fc.constantFrom('admit', 'answer', 'revoke', 'tick');
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), fc.boolean(), async (steps, staleReads) => {
      const { store, waiting } = heldStore();
      const admissions: { startedAfterRevoke: boolean; result: Promise<Admission>; settledBefore: boolean }[] = [];
      let revoked = false;
      let answered = 0;
      const answer = () => {
        const next = waiting[answered];
        if (next === undefined) return false;
        answered += 1;
        // A stale read saw the row before the revocation was committed.
        next.answer(revoked && !staleReads ? null : record(1_000));
        return true;
      };
      let nowMs = NOON_MS;
      for (const one of [...steps, 'admit', 'revoke', 'admit']) {
        if (one === 'admit') {
          const entry = { startedAfterRevoke: revoked, settledBefore: false, result: store.admit(HASH, nowMs) };
          entry.result.then(() => {
            entry.settledBefore = !revoked;
          }, t.fail);
          admissions.push(entry);
        } else if (one === 'answer') answer();
        else if (one === 'tick') {
          nowMs += 20_000;
          await new Promise(setImmediate);
        } else {
          await new Promise(setImmediate);
          revoked = true;
          await store.revoke(HASH);
        }
      }
      do await new Promise(setImmediate);
      while (answer());
      for (const { startedAfterRevoke, settledBefore, result } of admissions) {
        const { outcome } = await result;
        if (startedAfterRevoke || !settledBefore) t.equal(outcome, 'unknownKey');
      }
    }),
    { numRuns: 300 },
  );
});
