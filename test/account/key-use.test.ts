// What this process knows of the last use of keys: forwards only, and bounded. That it reaches Postgres is of the history (rows.test.ts).
import t from 'tap';
import { createKeyUse, RECENT_KEYS } from '../../src/account/keys.js';

const NOON = Date.UTC(2026, 0, 2, 12);

t.test('the latest use is known, whatever order they come in', async (t) => {
  const use = createKeyUse();
  t.equal(use.recent('a'), null);
  use.used('a', NOON + 5);
  use.used('a', NOON);
  t.same(use.recent('a'), new Date(NOON + 5));
});

t.test('there is a bound, and who was used longest ago makes room', async (t) => {
  const use = createKeyUse();
  for (let key = 0; key < RECENT_KEYS; key += 1) use.used(`key ${key}`, NOON);
  use.used('key 0', NOON + 1);
  for (let key = 0; key < 10; key += 1) use.used(`new ${key}`, NOON);
  t.equal(use.recent('key 1'), null);
  t.same(use.recent('key 0'), new Date(NOON + 1));
  t.same(use.recent('key 11'), new Date(NOON));
});
