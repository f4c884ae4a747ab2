// When a test file has passed: not by its exit code alone, nor by its totals alone.
import t from 'tap';
import { resultOf, withoutPasses } from './result.js';

const passed = 'TAP version 14\nok 1 - a\n1..1\n# { total: 3, pass: 3 }\n# time=1ms\n';

t.test('a file passes that ends in order, with totals of which none failed', async (t) => {
  t.strictSame(resultOf(passed, 0, null), { ok: true, total: 3, pass: 3, fail: 0, skip: 0, todo: 0, skipped: [] });
});

t.test('any other end is one failure at least', async (t) => {
  const failed = passed.replace('pass: 3', 'pass: 1, fail: 2');
  t.match(resultOf(failed, 1, null), { ok: false, pass: 1, fail: 2 });
  t.match(resultOf(failed, 0, null), { ok: false, fail: 2 }, 'whatever the exit code says');
  t.match(resultOf(passed, 1, null), { ok: false, fail: 1 }, 'whatever the totals say');
  for (const kind of ['skip', 'todo']) {
    t.match(resultOf(passed.replace('pass: 3', `pass: 2, ${kind}: 1`), 0, null), { ok: false, fail: 1 }, kind);
  }
  t.match(resultOf(passed, null, 'SIGSEGV'), { ok: false, fail: 1 });
  t.match(resultOf('TAP version 14\nok 1 - a\n', 0, null), { ok: false, fail: 1 }, 'cut short');
  t.match(resultOf('1..0\n# { total: 0 }\n', 0, null), { ok: false, fail: 1 }, 'a file without a test');
  t.match(resultOf(`${passed}# { total: 2, pass: 1, fail: 1 }\n`, 0, null), { ok: false }, 'the last totals count');
});

t.test('a skipped test is named with its reason, and without one it is a failure', async (t) => {
  const totals = '# { total: 3, pass: 2, skip: 1 }\n';
  const skipped = `ok 1 - a\n    ok 2 - Go # SKIP go is not installed\n${totals}`;
  t.match(resultOf(skipped, 0, null), { ok: true, pass: 2, skip: 1, skipped: ['Go: go is not installed'] });
  t.match(resultOf(`ok 1 - a\nok 2 - Go # SKIP\n${totals}`, 0, null), { ok: false, fail: 1 });
  t.match(resultOf('ok 1 - a # SKIP no reason\n# { total: 1, skip: 1 }\n', 0, null), { ok: false }, 'nothing is left');
});

t.test('what is shown of a failure leaves out what passed', async (t) => {
  t.equal(
    withoutPasses('# Subtest: a\n    ok 1 - b\n    not ok 2 - c\n      ---\n      diff: x\n    1..2\n\nnot ok 1 - a\n'),
    '# Subtest: a\n    not ok 2 - c\n      ---\n      diff: x\nnot ok 1 - a',
  );
});
