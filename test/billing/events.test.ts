// What happens at Stripe, event by event: the plan that the user has afterwards, and the limit of it.
import type { FakeSubscription } from '../fixtures/stripe-account.js';
import { billingTest, buy, type World } from './nodes.js';
import { expectPlan, subscriber, updated } from './steps.js';

interface Row {
  readonly what: string;
  /** Default: that the subscription was updated. */
  readonly type?: string;
  /** The plan before; default: PRO. */
  readonly from?: string;
  /** What is another one at Stripe. */
  readonly set?: Partial<FakeSubscription>;
  /** What else happens there; the event's object, if it isn't the subscription. */
  happens?(world: World, subscription: FakeSubscription): Record<string, unknown> | undefined;
  readonly plan: string;
  /** Default: that of the subscription. */
  readonly status?: string;
}

const DAY = 24 * 3600;
const charge = (_: World, { customer }: FakeSubscription) => ({
  id: 'ch_1',
  object: 'charge',
  customer,
  payment_method_details: { card: { last4: '4242', fingerprint: '4242-card-marker' } },
});
const buyAnother =
  (price: string) =>
  ({ stripe }: World, { customer }: FakeSubscription) => {
    stripe.account.subscribe(customer, price);
    return undefined;
  };

const table: readonly Row[] = [
  { what: 'renewed', type: 'invoice.paid', plan: 'PRO' },
  { what: 'upgraded', set: { price: 'price_business' }, plan: 'BUSINESS' },
  { what: 'downgraded', from: 'BUSINESS', set: { price: 'price_pro' }, plan: 'PRO' },
  { what: 'moved to another price of its plan', set: { price: 'price_pro_yearly' }, plan: 'PRO' },
  { what: 'on trial', set: { status: 'trialing', refunds: [] }, plan: 'PRO' },
  { what: 'to be canceled at the end of the period', set: { cancelAtPeriodEnd: true }, plan: 'PRO' },
  { what: 'to be canceled at a time', set: { cancelAt: 4_000_000_000 }, plan: 'PRO' },
  { what: 'canceled', type: 'customer.subscription.deleted', set: { status: 'canceled' }, plan: 'FREE' },
  {
    what: 'past due since today',
    type: 'invoice.payment_failed',
    set: { status: 'past_due', refunds: [] },
    plan: 'PRO',
  },
  {
    what: 'past due for 8 days',
    set: { status: 'past_due', refunds: [] },
    happens: (_, subscription) => {
      subscription.periodStart -= 8 * DAY;
      return undefined;
    },
    plan: 'FREE',
  },
  { what: 'unpaid', set: { status: 'unpaid' }, plan: 'FREE' },
  { what: 'paused', type: 'customer.subscription.paused', set: { status: 'paused' }, plan: 'FREE' },
  { what: 'never paid at all', set: { status: 'incomplete' }, plan: 'FREE' },
  { what: 'never paid in time', set: { status: 'incomplete_expired' }, plan: 'FREE' },
  { what: 'in a status of the future', set: { status: 'hibernating' }, plan: 'FREE' },
  {
    what: 'refunded in full',
    type: 'charge.refunded',
    set: { refunds: [true] },
    happens: charge,
    plan: 'FREE',
    status: 'refunded',
  },
  { what: 'refunded in part', type: 'charge.refunded', set: { refunds: [true, false] }, happens: charge, plan: 'PRO' },
  {
    what: 'paid for with a new period after a refund',
    type: 'invoice.paid',
    set: { invoice: 'in_next', refunds: [false] },
    plan: 'PRO',
  },
  {
    what: "a deleted customer's",
    type: 'customer.deleted',
    happens: ({ stripe }, { customer }) => {
      stripe.account.deleteCustomer(customer);
      return { id: customer, object: 'customer' };
    },
    plan: 'FREE',
    status: 'none',
  },
  {
    what: 'canceled, and another one bought',
    type: 'customer.subscription.deleted',
    set: { status: 'canceled' },
    happens: buyAnother('price_business'),
    plan: 'BUSINESS',
    status: 'active',
  },
  {
    what: 'one of two, the smaller one',
    type: 'customer.subscription.created',
    from: 'BUSINESS',
    happens: buyAnother('price_pro'),
    plan: 'BUSINESS',
  },
  { what: 'for something that the configuration does not know', set: { price: 'price_of_another_time' }, plan: 'PRO' },
];

billingTest('each event ends in the plan that Stripe has, and the limit of it', async (t, world) => {
  const node = await world.node();
  for (const { what, type = 'customer.subscription.updated', from = 'PRO', set, happens, plan, status } of table) {
    const { userId, subscription } = await subscriber(world, node, from);
    Object.assign(subscription, set);
    const object = happens?.(world, subscription) ?? world.stripe.account.subscriptionBody(subscription);
    const told = node.told.length;
    t.equal(await world.stripe.deliver(node.url, world.stripe.event(type, object)), 200, what);
    t.strictSame(node.told.slice(told), plan === from ? [] : [[userId, plan]], `${what}: announced before the answer`);
    await expectPlan(t, world, node, userId, plan, `a subscription that is ${what}`);
    const me = await node.ask(userId, 'GET', 'me');
    t.equal(me.body['status'], status ?? subscription.status, what);
    t.equal(me.body['cancelAtPeriodEnd'], subscription.cancelAtPeriodEnd || subscription.cancelAt !== null, what);
  }
  t.match(world.logLines.join(''), /STRIPE_PRICES does not name/);
});

billingTest('a plan that somebody gave by hand is not taken by a checkout that was left', async (t, world) => {
  const node = await world.node();
  const userId = await world.user('BUSINESS');
  await node.ask(userId, 'POST', 'checkout-session', { plan: 'PRO' });
  await node.ask(userId, 'POST', 'sync');
  await expectPlan(t, world, node, userId, 'BUSINESS', 'nothing was bought');
  const subscription = await buy(world, node, userId, 'PRO');
  await world.stripe.deliver(node.url, updated(world, subscription));
  await expectPlan(t, world, node, userId, 'PRO', 'what is paid for counts');
  subscription.status = 'canceled';
  await world.stripe.deliver(node.url, updated(world, subscription));
  await expectPlan(t, world, node, userId, 'FREE', 'and ends');
  await world.sql`UPDATE users SET plan = 'BUSINESS' WHERE id = ${userId}`;
  await node.ask(userId, 'POST', 'sync');
  await expectPlan(t, world, node, userId, 'BUSINESS', 'an end takes effect once');
});

billingTest('events that concern no plan and no customer of ours are answered and forgotten', async (t, world) => {
  const node = await world.node();
  const { subscription } = await subscriber(world, node, 'PRO');
  const asked = world.stripe.requests.length;
  const { customer } = subscription;
  for (const [type, object] of [
    ['product.created', { id: 'prod_1', object: 'product' }],
    ['customer.updated', { id: customer, object: 'customer' }],
    ['an.event.of.the.future', { id: 'x', object: 'x', customer }],
    ['invoice.paid', { id: 'in_1', object: 'invoice', customer: 'cus_of_another_shop' }],
    ['invoice.paid', { id: 'in_1', object: 'invoice', customer: null }],
  ] as const) {
    t.equal(await world.stripe.deliver(node.url, world.stripe.event(type, object)), 200, type);
  }
  t.equal(world.stripe.requests.length, asked);
  t.equal((await world.sql`SELECT id FROM billing_events`).length, 0);
});

billingTest('a customer that comes as a whole object is read as well as one that comes as an id', async (t, world) => {
  const node = await world.node();
  const { userId, subscription } = await subscriber(world, node, 'PRO');
  subscription.status = 'unpaid';
  const object = { id: 'in_1', object: 'invoice', customer: { id: subscription.customer, object: 'customer' } };
  t.equal(await world.stripe.deliver(node.url, world.stripe.event('invoice.payment_failed', object)), 200);
  t.equal(await world.planOf(userId), 'FREE');
});
