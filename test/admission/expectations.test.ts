// What may be expected of the quota: never more at once than there is, by what was answered last.
import fc from 'fast-check';
import t from 'tap';
import { createExpectations } from '../../src/admission/units.js';
import { holds } from '../fixtures/holds.js';

t.test('nothing is expected of a user without an answer, or whose last one was none', async (t) => {
  const expectations = createExpectations(10);
  t.notOk(expectations.allow('a'));
  const standing = expectations.begin('a');
  t.notOk(expectations.allow('a'));
  standing.answered(3);
  t.ok(expectations.allow('a'));
  t.notOk(expectations.allow('b'));
  expectations.begin('a').answered(0);
  expectations.begin('a');
  t.notOk(expectations.allow('a'));
});

t.test('of a user who is alone with the quota, no more is expected than is admitted', async (t) => {
  const steps = fc.array(fc.oneof(fc.constant('ask' as const), fc.constant('answer' as const)), { maxLength: 200 });
  holds(
    t,
    fc.property(fc.integer({ min: 0, max: 30 }), steps, (limit, order) => {
      const expectations = createExpectations(10);
      const asked: { answered: (left: number) => void; isExpected: boolean }[] = [];
      let left = limit;
      let wrong = 0;
      const answerFirst = (): void => {
        const first = asked.shift();
        if (first === undefined) return;
        if (first.isExpected && left === 0) wrong += 1;
        left = Math.max(0, left - 1);
        first.answered(left);
      };
      for (const step of order) {
        if (step === 'answer') answerFirst();
        else {
          const standing = expectations.begin('user');
          asked.push({ answered: (left) => standing.answered(left), isExpected: expectations.allow('user') });
        }
      }
      while (asked.length > 0) answerFirst();
      return wrong === 0;
    }),
  );
});
