// Look-ups in batches: few statements however many ask, an answer that is never older than the question, and no wait without an end.
import t from 'tap';
import type { KeyRecord } from '../../src/admission/admission.js';
import { createLookups } from '../../src/admission/key-owners.js';

type Found = ReadonlyMap<string, KeyRecord>;

function heldLookups(times?: { timeoutMs: number; abandonMs: number }) {
  const batches: { keys: readonly string[]; answer: (found: Found) => void; fail: (error: Error) => void }[] = [];
  const lookups = createLookups((keys) => new Promise((answer, fail) => batches.push({ keys, answer, fail })), times);
  return { lookups, batches };
}

const turn = () => new Promise(setImmediate);
const record = { userId: 'user', keyId: 'key', hourlyLimit: 1 };

t.test('look-ups at the same time share a statement, and two statements run at most', async (t) => {
  const { lookups, batches } = heldLookups();
  const asked = Array.from({ length: 1_200 }, (_, index) => lookups(String(index % 1_100)));
  await turn();
  await turn();
  t.same(
    batches.map(({ keys }) => keys.length),
    [500, 500],
  );
  await turn();
  t.equal(batches.length, 2);
  batches[0]?.answer(new Map([['7', record]]));
  batches[1]?.answer(new Map());
  await turn();
  await turn();
  t.same(
    batches.map(({ keys }) => keys.length),
    [500, 500, 100],
  );
  batches[2]?.answer(new Map());
  const found = await Promise.all(asked);
  t.same(
    found.filter((one) => one !== null),
    [record, record],
    'asked for twice',
  );
});

t.test('an answer is never older than the question', async (t) => {
  const { lookups, batches } = heldLookups();
  const first = lookups('key');
  await turn();
  // The key is made now: the statement that runs may have looked before.
  const second = lookups('key');
  await turn();
  t.equal(batches.length, 2);
  batches[0]?.answer(new Map());
  batches[1]?.answer(new Map([['key', record]]));
  t.equal(await first, null);
  t.same(await second, record);
});

t.test('a Postgres that hangs is unavailable in time, and is asked again after a while', async (t) => {
  const { lookups, batches } = heldLookups({ timeoutMs: 1, abandonMs: 5 });
  const down = { code: 'unavailable', detail: 'The account store is not reachable', retryAfterSeconds: 2 };
  for (let next = 0; next < 4; next += 1) {
    const asked = lookups(String(next));
    await t.rejects(asked, down);
    // The first two have the places of those that may run; after that one must be given up first.
    while (batches.length <= next) await turn();
    t.same(batches[next]?.keys, [String(next)]);
  }
});

t.test('what Postgres refuses is unavailable, for everybody of the batch', async (t) => {
  const { lookups, batches } = heldLookups();
  const asked = [lookups('one'), lookups('two')];
  await turn();
  batches[0]?.fail(Object.assign(new Error('connection refused'), { code: 'ECONNREFUSED' }));
  for (const one of asked) await t.rejects(one, { code: 'unavailable', cause: /refused/ });
});

t.test('so many may wait, the next one is refused', async (t) => {
  const { lookups, batches } = heldLookups({ timeoutMs: 120_000, abandonMs: 120_000 });
  const asked = Array.from({ length: 20_000 }, (_, index) => lookups(String(index)));
  await t.rejects(lookups('one more'), {
    code: 'unavailable',
    detail: 'Too many key look-ups at once',
    retryAfterSeconds: 1,
  });
  for (let next = 0; next < 40; next += 1) {
    while (batches[next] === undefined) await turn();
    batches[next]?.answer(new Map());
  }
  t.ok((await Promise.all(asked)).every((one) => one === null));
});
