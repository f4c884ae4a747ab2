// Ids of scans and requests: of the form of RFC 9562, each another one, and those with a time in the order in which they were made.
import t from 'tap';
import { validate, version } from 'uuid';
import { randomId, timeId } from '../src/ids.js';

const COUNT = 20_000;

t.test('random ids are of version 4, and none comes twice', async (t) => {
  const ids = Array.from({ length: COUNT }, randomId);
  t.ok(ids.every((id) => validate(id) && version(id) === 4));
  t.equal(new Set(ids).size, COUNT);
});

t.test(
  'ids with a time are of version 7, say it, and grow with each, more of them than a millisecond has numbers',
  async (t) => {
    const beforeMs = Date.now();
    const ids = Array.from({ length: COUNT }, timeId);
    t.ok(ids.every((id) => validate(id) && version(id) === 7));
    t.strictSame([...ids].sort(), ids);
    t.equal(new Set(ids).size, COUNT);
    const [first = ''] = ids;
    const saidMs = Number.parseInt(first.slice(0, 8) + first.slice(9, 13), 16);
    t.ok(saidMs >= beforeMs && saidMs <= Date.now() + 1);
  },
);

t.test(
  'an id has the time of now also when the clock was ahead for a moment, and its order when it was set back by a little',
  (t) => {
    const { now } = Date;
    const startedMs = now();
    let aheadMs = 0;
    Date.now = () => startedMs + aheadMs;
    t.teardown(() => {
      Date.now = now;
    });
    const saidMs = (id: string): number => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16) - startedMs;
    const ids: string[] = [];
    for (aheadMs of [86_400_000, 0, 500, 0]) ids.push(timeId());
    t.strictSame(ids.map(saidMs), [86_400_000, 0, 500, 500]);
    t.strictSame(ids.slice(1).sort(), ids.slice(1));
    t.end();
  },
);
