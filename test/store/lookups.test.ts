// Look-ups of a Postgres that hangs: nobody waits for ever, and it isn't given more and more to do.
import t from 'tap';
import type { KeyRecord } from '../../src/store/admission.js';
import { createLookups } from '../../src/store/lookups.js';

t.test('a look-up that hangs is unavailable in time and keeps its place until it ends', async (t) => {
  let loads = 0;
  const settle: ((found: KeyRecord | null) => void)[] = [];
  const lookups = createLookups((_keyHash) => {
    loads += 1;
    return new Promise((resolve) => settle.push(resolve));
  }, 1);
  const down = { code: 'unavailable', detail: 'The account store is not reachable', retryAfterSeconds: 2 };
  const busy = { code: 'unavailable', detail: 'Too many key look-ups at once', retryAfterSeconds: 1 };
  const asked = Array.from({ length: 64 }, (_, index) => lookups.find(String(index)));
  for (const one of asked) await t.rejects(one, down);
  await t.rejects(lookups.find('0'), down, 'the same key is not asked for twice');
  await t.rejects(lookups.find('another'), busy);
  t.equal(loads, 64);

  settle[0]?.(null);
  await new Promise(setImmediate);
  const found = lookups.find('another');
  settle[64]?.({ userId: 'user', keyId: 'key', hourlyLimit: 1 });
  t.match(await found, { keyId: 'key' });
});
