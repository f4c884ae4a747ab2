// Turns at something that is bounded: who has the next one, who is refused, and that nobody's work gets lost.
import { mock } from 'node:test';
import t from 'tap';
import { FairTurns, type TurnRules, type Who } from '../../src/waiting/turns.js';
import { deferred } from '../fixtures/deferred.js';

const rules: TurnRules = {
  ...{ running: 1, runningEach: 1, waiting: 100, waitingEach: 100, waitMs: 60_000 },
  full: () => new Error('full'),
  late: () => new Error('late'),
};

/** Turns that each last until the test ends them, and who has had one. */
function open(changes: Partial<TurnRules> = {}) {
  const turns = new FairTurns({ ...rules, ...changes });
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  return {
    begun,
    /** Resolves with what came of it. */
    async ask(...who: Who): Promise<string> {
      const { promise, resolve } = deferred<string>();
      try {
        return await turns.run(who, () => {
          begun.push(who.join(' '));
          ends.push(() => resolve('done'));
          return promise;
        });
      } catch (error) {
        return error instanceof Error ? error.message : String(error);
      }
    },
    /** Ends the turn that was begun first, and lets the next one begin. */
    async end(): Promise<void> {
      ends.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    },
    serve: () => turns.serve(),
  };
}

t.test('a party with one question goes before the many of another', async (t) => {
  const { begun, ask, end } = open();
  const asked = ['many', 'many', 'many', 'many', 'one'].map((who) => ask(who));
  for (let n = 0; n < 5; n += 1) await end();
  t.same(begun, ['many', 'one', 'many', 'many', 'many']);
  t.same(await Promise.all(asked), ['done', 'done', 'done', 'done', 'done']);
});

t.test('at an address, who names another account goes before the many that name one', async (t) => {
  const { begun, ask, end } = open();
  const asked = [ask('a', 'x'), ask('a', 'x'), ask('a', 'x'), ask('a', 'y'), ask('b', 'x')];
  for (let n = 0; n < 5; n += 1) await end();
  t.equal(begun.indexOf('b x'), 1, 'the other address is next');
  t.equal(begun.indexOf('a y'), 2);
  t.same(await Promise.all(asked), Array(5).fill('done'));
});

t.test(
  'a turn lasts as long as the rules say: its work is answered at once, and the next one begins later',
  async (t) => {
    mock.timers.enable({ apis: ['setTimeout'] });
    t.teardown(() => mock.timers.reset());
    // More than the work takes by the real clock, which goes on.
    const leastMs = 60_000;
    const { begun, ask, end } = open({ leastMs, waitMs: 10 * leastMs });
    const first = ask('a');
    void ask('b');
    await end();
    t.equal(await first, 'done');
    t.same(begun, ['a']);
    mock.timers.tick(leastMs / 2);
    t.same(begun, ['a']);
    mock.timers.tick(leastMs / 2);
    t.same(begun, ['a', 'b']);
    await end();
    mock.timers.tick(leastMs);
  },
);

t.test('one party has no more turns at one time than its bound, also where nobody else wants one', async (t) => {
  const { begun, ask, end } = open({ running: 3, runningEach: 2 });
  const asked = [ask('a'), ask('a'), ask('a'), ask('b')];
  t.same(begun, ['a', 'a', 'b']);
  await end();
  t.same(begun, ['a', 'a', 'b', 'a']);
  for (let n = 0; n < 3; n += 1) await end();
  t.same(await Promise.all(asked), Array(4).fill('done'));
});

t.test('long turns are counted by their time: who has had one waits for several short ones', async (t) => {
  let nowMs = 0;
  t.intercept(performance, 'now', { value: () => nowMs });
  const { begun, ask, end } = open();
  const asked = [ask('long'), ask('long'), ask('short'), ask('short'), ask('short')];
  nowMs += 1_000;
  await end();
  for (let n = 0; n < 4; n += 1) {
    nowMs += 1;
    await end();
  }
  t.same(begun, ['long', 'short', 'short', 'short', 'long']);
  t.same(await Promise.all(asked), Array(5).fill('done'));
});

t.test('where too many wait, the last of those that want most is refused', async (t) => {
  const { ask, end } = open({ waiting: 4 });
  const asked = [ask('many'), ask('many'), ask('many'), ask('many'), ask('many'), ask('one'), ask('two'), ask('many')];
  for (let n = 0; n < 8; n += 1) await end();
  t.same(await Promise.all(asked), ['done', 'done', 'done', 'full', 'full', 'done', 'done', 'full']);
});

t.test('one party has a bounded part of the places, shared by what it names', async (t) => {
  const { ask, end } = open({ waitingEach: 2 });
  const asked = [ask('a', 'x'), ask('a', 'x'), ask('a', 'x'), ask('a', 'x'), ask('a', 'y'), ask('b', 'x')];
  for (let n = 0; n < 6; n += 1) await end();
  t.same(await Promise.all(asked), ['done', 'done', 'full', 'full', 'done', 'done']);
});

t.test('who waits too long is refused, and leaves its place', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const { begun, ask, end } = open({ waitMs: 1_000 });
  const asked = [ask('a'), ask('b')];
  mock.timers.tick(1_000);
  const late = ask('c');
  await end();
  t.same(begun, ['a', 'c']);
  await end();
  t.same(await Promise.all([...asked, late]), ['done', 'late', 'done']);
});

t.test('a turn needs room beside its bounds, and work that fails gives its turn back', async (t) => {
  let hasRoom = false;
  const { begun, ask, end, serve } = open({ hasRoom: () => hasRoom });
  const asked = ask('a');
  t.same(begun, []);
  hasRoom = true;
  serve();
  t.same(begun, ['a']);
  await end();
  await asked;
  const turns = new FairTurns(rules);
  await t.rejects(
    turns.run(['a'], async () => Promise.reject(new Error('failed'))),
    { message: 'failed' },
  );
  t.equal(await turns.run(['a'], async () => 'and on'), 'and on');
});

t.test('thousands of parties that come once are not kept', async (t) => {
  const { begun, ask, end } = open({ waiting: 5_000, waitingEach: 5_000 });
  const asked = Array.from({ length: 3_000 }, (_, n) => ask(String(n)));
  for (let n = 0; n < 3_000; n += 1) await end();
  t.equal(new Set(begun).size, 3_000);
  t.equal((await Promise.all(asked)).filter((outcome) => outcome === 'done').length, 3_000);
});
