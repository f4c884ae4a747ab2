// Plans: their limits, their prices, the one that costs nothing, and how they are read from the environment.
import t from 'tap';
import { readConfig } from '../../src/config/config.js';
import { freePlanOf, hourlyLimitOf, planNamed, planOfPrice, plansOf } from '../../src/config/plans.js';
import { problemsOf } from './problems.js';

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

t.test('plans that are none are refused', async (t) => {
  const bad = [
    'FREE',
    'FREE:',
    'FREE:0',
    'FREE:-1',
    'FREE:1.5',
    'FREE:1000000000',
    'free:5',
    ':5',
    'FREE:5,',
    'A:1;B:2',
    'FREE:1,FREE:2',
  ];
  for (const plans of bad) t.match(problemsOf({ PLANS: plans }), [/^PLANS must look like FREE:50,PRO:1000/], plans);
  t.match(
    problemsOf({ PLANS: 'FREE:50' }),
    ['BOOTSTRAP_PLAN must be one of FREE: while it is not set it is BUSINESS'],
    'the default plan is gone',
  );
  t.strictSame(problemsOf({ PLANS: 'FREE:50', BOOTSTRAP_PLAN: 'FREE' }), []);
});

const stripe = {
  STRIPE_SECRET_KEY: 'sk_test_abcDEF123',
  STRIPE_WEBHOOK_SECRET: 'whsec_secret',
  STRIPE_PRICES: 'PRO:price_1, PRO:price_2,BUSINESS:price_3',
  BASE_URL: 'https://sluice.example.org/',
};

t.test('with a secret key billing is on, and everything that it needs must be there', async (t) => {
  t.equal(readConfig({}).billing, null);
  t.strictSame(problemsOf({ ...stripe, STRIPE_SECRET_KEY: '' }), [
    'STRIPE_WEBHOOK_SECRET is for STRIPE_SECRET_KEY, which is off',
    'STRIPE_PRICES is for STRIPE_SECRET_KEY, which is off',
  ]);
  const { billing, plans } = readConfig(stripe);
  t.match(billing, {
    secretKey: 'sk_test_abcDEF123',
    webhookSecret: 'whsec_secret',
    apiBase: 'https://api.stripe.com',
    returnBase: 'https://sluice.example.org',
  });
  t.strictSame(
    plans.map(({ prices }) => prices),
    [[], ['price_1', 'price_2'], ['price_3']],
  );
  t.strictSame(problemsOf({ STRIPE_SECRET_KEY: 'sk_live_x' }), [
    'STRIPE_WEBHOOK_SECRET is needed when STRIPE_SECRET_KEY is set',
    'STRIPE_PRICES is needed when STRIPE_SECRET_KEY is set',
    'BASE_URL is needed when STRIPE_SECRET_KEY is set',
  ]);
});

t.test('prices that fit no plan, or every plan, are refused', async (t) => {
  const withPrices = (prices: string) => problemsOf({ ...stripe, STRIPE_PRICES: prices });
  t.match(withPrices('GOLD:price_1'), [/^STRIPE_PRICES must name plans of PLANS: FREE, PRO, BUSINESS$/]);
  t.match(withPrices('FREE:price_1,PRO:price_2,BUSINESS:price_3'), [
    /^STRIPE_PRICES must leave one plan without a price/,
  ]);
  for (const prices of ['PRO', 'PRO:', 'PRO:prod_1', 'pro:price_1', 'PRO:price_1,', 'PRO:price_1,BUSINESS:price_1']) {
    t.match(withPrices(prices), [/^STRIPE_PRICES must look like PRO:price_1/], prices);
  }
});

t.test("Stripe's API is asked over https, or on this machine", async (t) => {
  const withBase = (base: string) => problemsOf({ ...stripe, STRIPE_API_BASE: base });
  for (const base of ['https://stripe.example.org', 'http://127.0.0.1:8081', 'http://localhost:1', 'http://[::1]:2/']) {
    t.strictSame(withBase(base), [], base);
  }
  for (const base of [
    'http://api.stripe.com',
    'https://api.stripe.com/v1',
    'http://127.0.0.1.example.org',
    'ftp://x',
    'x',
  ]) {
    t.match(withBase(base), [/^STRIPE_API_BASE must be an https URL/], base);
  }
});
