// What a key may of what its account may, one suite for each ledger: until when, how much an hour, for what; changed at once, without a ledger too.
import fc from 'fast-check';
import type { Test } from 'tap';
import type { Admission, KeyRecord, Ledger } from '../../src/admission/admission.js';
import { KEY_SCOPES, type KeyLimits, rulesOf } from '../../src/config/plans.js';
import { StoreAway } from '../../src/store/store-error.js';
import { createTestLedger } from '../fixtures/accounts.js';
import { keysOf, type LedgerAt, newUserId, nodesAt, onEachLedger, outcomes, SOON_MS } from './harness.js';

const free: KeyLimits = { expiresAtSeconds: null, hourlyLimit: null, scopes: KEY_SCOPES };
const SOON_SECONDS = SOON_MS / 1000;

/** Postgres with a key that may less, and one of the same user that may all. */
function keysWith(limits: Partial<KeyLimits>, hourlyLimit = 100) {
  const userId = newUserId();
  const [bounded, unbounded] = keysOf(userId);
  const known = { limits: { ...free, ...limits } };
  const keyId = userId.replace('8000', '9000');
  const find = async (hash: string): Promise<KeyRecord> => {
    if (hash === unbounded) return { userId, keyId: userId.replace('8000', 'a000'), hourlyLimit };
    return { userId, keyId, hourlyLimit, rules: rulesOf(known.limits) };
  };
  return { userId, keyId, bounded, unbounded, known, find };
}

const steps = ['bounded', 'unbounded', 'user', 'refund', 'giveBack', 'away', 'back', 'lose'] as const;

async function suite(t: Test, ledgerAt: LedgerAt): Promise<void> {
  const node = nodesAt(t, ledgerAt);

  t.test('whatever becomes of the ledger, each unit comes back to account and key, once', async (t) => {
    const records = new Map<string, KeyRecord>();
    const open = (): Ledger => ledgerAt(() => SOON_MS);
    let real = open();
    let isAway = false;
    const ask = async <Answer>(work: () => Answer | Promise<Answer>): Promise<Answer> => {
      if (isAway) throw new StoreAway('cut');
      return await work();
    };
    const ledger: Ledger = {
      ...real,
      take: (...all) => ask(() => real.take(...all)),
      look: (...all) => ask(() => real.look(...all)),
      giveBack: (...all) => ask(() => real.giveBack(...all)),
      begin: (...all) => ask(() => real.begin(...all)),
      fill: (...all) => ask(() => real.fill(...all)),
      raise: (...all) => ask(() => real.raise(...all)),
    };
    const { store, hours } = node(async (hash) => records.get(hash) ?? null, { nowMs: SOON_MS }, ledger);
    const property = fc.asyncProperty(fc.array(fc.constantFrom(...steps), { maxLength: 16 }), async (all) => {
      const { userId, bounded, unbounded, find } = keysWith({ hourlyLimit: 50 }, 100);
      const keys = { bounded, unbounded };
      for (const hash of [bounded, unbounded]) records.set(hash, await find(hash));
      const taken: (Admission & { outcome: 'admitted' })[] = [];
      const done = { user: 0, bounded: 0, unbounded: 0 };
      const back = async (): Promise<void> => {
        await store.flush();
        isAway = false;
        await real.raise([...hours.rows.values()].filter((hour) => hour.userId === userId));
      };
      const named = ({ keyId }: { readonly keyId: string | null }) =>
        keyId === null ? 'user' : keyId === records.get(bounded)?.keyId ? 'bounded' : 'unbounded';
      for (const step of all) {
        if (step === 'away') isAway = true;
        else if (step === 'back') await back();
        else if (step === 'lose') {
          await store.flush();
          real = open();
        } else if (step === 'refund' || step === 'giveBack') {
          const unit = taken.shift();
          if (unit === undefined) continue;
          const { keyId, quota } = unit;
          if (step === 'refund') await Promise.all([unit.refund(), unit.refund()]);
          else await store.giveBack(userId, quota.resetEpochSeconds - 3600, keyId);
          done[named(unit)] -= 1;
        } else {
          const unit = await (step === 'user'
            ? store.admitUser({ userId, hourlyLimit: 100 })
            : store.admit(keys[step]));
          if (unit.outcome !== 'admitted') throw new Error(`${step}: ${unit.outcome}`);
          taken.push(unit);
          done[step] += 1;
        }
      }
      await back();
      const { remaining } = await store.quotaOf({ userId, hourlyLimit: 100 });
      const last = await store.admit(bounded);
      const ofKey = last.outcome === 'admitted' ? last.quota.remaining : null;
      return remaining === 100 - done.user - done.bounded - done.unbounded && ofKey === 50 - done.bounded - 1;
    });
    const examples: [(typeof steps)[number][]][] = [
      [['bounded', 'away', 'refund']],
      [['bounded', 'lose', 'refund']],
      [['away', 'bounded', 'back', 'giveBack']],
      [['unbounded', 'away', 'bounded', 'back', 'giveBack', 'giveBack']],
    ];
    const { failed, counterexample, errorInstance } = await fc.check(property, { examples, numRuns: 60 });
    t.notOk(failed, `${fc.stringify(counterexample)} ${errorInstance}`);
  });

  t.test(
    'five hundred at once at a limit of its own of fifty: exactly fifty, beside those of another key',
    async (t) => {
      const { userId, bounded, unbounded, find } = keysWith({ hourlyLimit: 50 }, 300);
      const ledger = ledgerAt(() => SOON_MS);
      const nodes = [node(find, { nowMs: SOON_MS }, ledger), node(find, { nowMs: SOON_MS }, ledger)];
      const asked = Array.from({ length: 500 }, (_, index) => nodes[index % nodes.length]?.store.admit(bounded));
      const others = Array.from({ length: 100 }, (_, index) => nodes[index % nodes.length]?.store.admit(unbounded));
      const admissions = (await Promise.all(asked)).flatMap((one) => one ?? []);
      t.same(outcomes(admissions), { admitted: 50, exhausted: 450 });
      t.same(outcomes((await Promise.all(others)).flatMap((one) => one ?? [])), { admitted: 100 });
      const left = admissions.flatMap((one) => (one.outcome === 'admitted' ? [one.quota.remaining] : []));
      t.same(
        left.sort((a, b) => b - a),
        Array.from({ length: 50 }, (_, index) => 49 - index),
        'each remainder once',
      );
      t.match(
        admissions.find(({ outcome }) => outcome === 'exhausted'),
        { quota: { limit: 50, remaining: 0 } },
      );
      t.match(await nodes[0]?.store.admitUser({ userId, hourlyLimit: 300 }), { quota: { limit: 300, remaining: 149 } });
    },
  );

  t.test('the account is the tighter one when it has less left, and a unit comes back to both', async (t) => {
    const { userId, bounded, unbounded, find } = keysWith({ hourlyLimit: 5 }, 6);
    const { store } = node(find);
    const first = await store.admit(bounded);
    t.match(first, { outcome: 'admitted', quota: { limit: 5, remaining: 4 } });
    for (let unit = 0; unit < 4; unit += 1) await store.admit(unbounded);
    t.match(await store.admit(bounded), { outcome: 'admitted', quota: { limit: 6, remaining: 0 } });
    t.match(await store.admit(bounded), { outcome: 'exhausted', quota: { limit: 6, remaining: 0 } });
    if (first.outcome !== 'admitted') throw new Error('It was admitted');
    t.match(await first.refund(), { limit: 6, remaining: 1 });
    t.match(await store.admitUser({ userId, hourlyLimit: 6 }), { outcome: 'admitted', quota: { remaining: 0 } });
  });

  t.test('its own count is kept in Postgres, where a ledger that has lost it finds it', async (t) => {
    const { userId, bounded, find } = keysWith({ hourlyLimit: 4 });
    const { store, hours, clock } = node(find);
    const first = await store.admit(bounded);
    for (let unit = 0; unit < 2; unit += 1) await store.admit(bounded);
    if (first.outcome === 'admitted') await first.refund();
    await store.flush();
    t.match(
      (await hours.read(userId)).filter(({ keyId }) => keyId !== undefined),
      [{ mirrored: 3, returned: 1 }],
    );
    const away: Ledger = { ...createTestLedger(() => clock.nowMs), take: () => Promise.reject(new StoreAway('down')) };
    const heir = nodesAt(t, () => createTestLedger(() => clock.nowMs))(find, clock, undefined, hours);
    t.match(await heir.store.admit(bounded), { outcome: 'admitted', quota: { limit: 4, remaining: 1 } });
    await heir.store.flush();
    const without = nodesAt(t, () => away)(find, clock, away, hours);
    const last = await without.store.admit(bounded);
    t.match(last, { outcome: 'admitted', quota: { limit: 4, remaining: 0 } });
    t.match(await without.store.admit(bounded), { outcome: 'exhausted', quota: { limit: 4 } });
    if (last.outcome !== 'admitted') throw new Error('It was admitted');
    t.match(await last.refund(), { limit: 4, remaining: 1 });
    t.match(await without.store.admit(bounded), { outcome: 'admitted' });
  });

  t.test('a key is refused from its last second on, and is not for what it was not made for', async (t) => {
    const late = keysWith({ expiresAtSeconds: SOON_SECONDS + 60 });
    const { store, clock } = node(late.find);
    t.match(await store.admit(late.bounded), { outcome: 'admitted' });
    clock.nowMs += 62_000;
    t.match(await store.admit(late.bounded), { outcome: 'keyInvalid' }, 'also where it is remembered');
    t.match(await store.admit(late.unbounded), { outcome: 'admitted' });
    const reader = keysWith({ scopes: ['read'] });
    const other = node(reader.find);
    t.match(await other.store.admit(reader.bounded), { outcome: 'scopeMissing' });
    t.match(await other.store.admit(reader.bounded), { outcome: 'scopeMissing' });
    t.equal(other.store.expectedUser(reader.bounded), null);
    t.match(await other.store.admit(reader.unbounded), { quota: { remaining: 99 } }, 'it took no unit');
  });

  t.test('what a key may is changed at once, on a node that remembers it otherwise as well', async (t) => {
    const { userId, keyId, bounded, known, find } = keysWith({});
    const ledger = ledgerAt(() => SOON_MS);
    const [one, other] = [node(find, { nowMs: SOON_MS }, ledger), node(find, { nowMs: SOON_MS }, ledger)];
    for (const { store } of [one, other]) t.match(await store.admit(bounded), { quota: { limit: 100 } });
    const changes: [Partial<KeyLimits>, object][] = [
      [{ hourlyLimit: 2 }, { outcome: 'admitted', quota: { limit: 2, remaining: 1 } }],
      [{ hourlyLimit: 1 }, { outcome: 'exhausted', quota: { limit: 1 } }],
      [{ scopes: ['read'] }, { outcome: 'scopeMissing' }],
      [{ expiresAtSeconds: SOON_SECONDS - 1 }, { outcome: 'keyInvalid' }],
      [{ expiresAtSeconds: SOON_SECONDS + 3600 }, { outcome: 'admitted', quota: { limit: 100 } }],
      [{}, { outcome: 'admitted', quota: { limit: 100 } }],
    ];
    for (const [change, expected] of changes) {
      known.limits = { ...free, ...change };
      await one.store.setKeyLimits({ userId, keyId, keyHash: bounded }, known.limits);
      t.match(await other.store.admit(bounded), expected, JSON.stringify(change));
    }
    await one.store.revoke({ userId, keyHash: bounded });
    await one.store.setKeyLimits({ userId, keyId, keyHash: bounded }, free);
    t.match(await other.store.admit(bounded), { outcome: 'keyInvalid' }, 'a key that has ended stays so');
  });

  t.test('a change that the ledger never heard of is taken over when Postgres is asked', async (t) => {
    const { bounded, known, find } = keysWith({ scopes: ['read'] });
    const ledger = ledgerAt(() => SOON_MS);
    const [one, other] = [node(find, { nowMs: SOON_MS }, ledger), node(find, { nowMs: SOON_MS }, ledger)];
    t.match(await one.store.admit(bounded), { outcome: 'scopeMissing' });
    known.limits = { ...free, hourlyLimit: 7 };
    t.match(await other.store.admit(bounded), { outcome: 'admitted', quota: { limit: 7, remaining: 6 } });
    t.match(await one.store.admit(bounded), { outcome: 'admitted', quota: { limit: 7, remaining: 5 } });
    known.limits = free;
    t.match(await node(find, { nowMs: SOON_MS }, ledger).store.admit(bounded), {
      quota: { limit: 100, remaining: 97 },
    });
  });
}

onEachLedger(suite);
