// Plans: their limits, their prices, and the one that costs nothing.
import t from 'tap';
import { freePlanOf, hourlyLimitOf, planNamed, planOfPrice, plansOf } from '../../src/config/plans.js';

const limits = new Map([
  ['PRO', 1_000],
  ['FREE', 50],
  ['BUSINESS', 10_000],
]);

t.test('a plan has its limit, and one that the configuration no longer has that of the smallest', async (t) => {
  const plans = plansOf(limits, null);
  t.equal(hourlyLimitOf(plans, 'PRO'), 1_000);
  t.equal(hourlyLimitOf(plans, 'GONE'), 50);
  t.equal(planNamed(plans, 'GONE'), null);
});

t.test('every price of a plan pays for it, and the plan that nobody chose is the smallest without one', async (t) => {
  const plans = plansOf(limits, new Map([['FREE', ['price_1', 'price_2']]]));
  t.equal(planOfPrice(plans, 'price_2')?.name, 'FREE');
  t.equal(planOfPrice(plans, 'price_3'), null);
  t.equal(freePlanOf(plans).name, 'PRO');
  t.equal(freePlanOf(plansOf(limits, null)).name, 'FREE');
  const sold = new Map([...limits.keys()].map((name) => [name, [`price_${name}`]]));
  t.throws(() => freePlanOf(plansOf(limits, sold)), { message: /no plan without a price/ });
});
