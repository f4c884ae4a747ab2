// Events from Stripe over the wire: in any order, again and again, on several nodes; what stays is always what Stripe has.

import { deferred } from '../fixtures/deferred.js';
import { wholeNumbers } from '../fixtures/random.js';
import type { FakeSubscription } from '../fixtures/stripe-account.js';
import { billingTest, buy } from './nodes.js';
import { expectPlan, subscriber, updated } from './steps.js';

const orders = [
  [0, 1, 2],
  [0, 2, 1],
  [1, 0, 2],
  [1, 2, 0],
  [2, 0, 1],
  [2, 1, 0],
] as const;

/** What Stripe has in the end, reached by three changes. */
const ends: Record<string, { plan: string; changes: ((subscription: FakeSubscription) => void)[] }> = {
  'an upgrade': {
    plan: 'BUSINESS',
    changes: [
      (subscription) => {
        subscription.status = 'past_due';
      },
      (subscription) => {
        subscription.status = 'active';
      },
      (subscription) => {
        subscription.price = 'price_business';
      },
    ],
  },
  'an end': {
    plan: 'FREE',
    changes: [
      (subscription) => {
        subscription.price = 'price_business';
      },
      (subscription) => {
        subscription.cancelAtPeriodEnd = true;
      },
      (subscription) => {
        subscription.status = 'canceled';
      },
    ],
  },
};

for (const [what, { plan, changes }] of Object.entries(ends)) {
  billingTest(`three events of ${what} in every order, each twice, and syncs in between`, async (t, world) => {
    const nodes = [await world.node(), await world.node()] as const;
    const random = wholeNumbers(36);
    for (const order of orders) {
      for (const together of [false, true]) {
        const { userId, subscription } = await subscriber(world, nodes[0], 'PRO');
        const events = changes.map((change) => {
          change(subscription);
          return updated(world, subscription);
        });
        const steps: (() => Promise<number>)[] = order.flatMap((index) => {
          const event = events[index];
          if (event === undefined) return [];
          return [0, 1].map(() => () => world.stripe.deliver(nodes[random(2) === 0 ? 0 : 1].url, event));
        });
        for (let syncs = 0; syncs < 3; syncs += 1) {
          const sync = async () => (await nodes[random(2) === 0 ? 0 : 1].ask(userId, 'POST', 'sync')).status;
          steps.splice(random(steps.length + 1), 0, sync);
        }
        const statuses = together ? await Promise.all(steps.map((step) => step())) : await inTurn(steps);
        t.strictSame([...new Set(statuses)], [200]);
        await expectPlan(t, world, nodes[1], userId, plan, `${order.join(' ')} ${together ? 'together' : 'in turn'}`);
      }
    }
    const [{ count } = { count: 0 }] = await world.sql<{ count: number }[]>`SELECT count(*)::int FROM billing_events`;
    t.equal(count, orders.length * 2 * 3, 'each event has one row');
  });
}

async function inTurn<T>(steps: readonly (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  for (const step of steps) results.push(await step());
  return results;
}

const statuses = ['active', 'trialing', 'past_due', 'unpaid', 'canceled', 'paused', 'incomplete'] as const;
const prices = { price_pro: 'PRO', price_pro_yearly: 'PRO', price_business: 'BUSINESS' } as const;

billingTest(
  'whatever happens, and however its events arrive, fail and come again: the plan is that of Stripe',
  async (t, world) => {
    const nodes = [await world.node(), await world.node()] as const;
    const random = wholeNumbers(42);
    const pick = <T>(from: readonly [T, ...T[]]): T => from[random(from.length)] ?? from[0];
    for (let round = 0; round < 25; round += 1) {
      const { userId, subscription } = await subscriber(world, nodes[0], 'PRO');
      const steps: Promise<() => Promise<number>>[] = [];
      for (let change = 0; change < 8; change += 1) {
        subscription.status = pick(statuses);
        subscription.price = pick(['price_pro', 'price_pro_yearly', 'price_business']);
        const event = updated(world, subscription);
        // Some calls of this moment are refused, so their deliveries fail and come again below.
        const failing = random(4) === 0;
        world.stripe.fault = ({ call }) =>
          failing && call === 'GET /v1/subscriptions' ? { kind: 'fail', status: 403 } : null;
        for (let copy = 0; copy <= random(3); copy += 1) {
          const deliver = () => world.stripe.deliver(pick(nodes).url, event);
          steps.push(deliver().then((status) => (status === 200 ? async () => 200 : deliver)));
        }
        if (random(3) === 0)
          steps.push(
            pick(nodes)
              .ask(userId, 'POST', 'sync')
              .then(() => async () => 200),
          );
        if (random(3) === 0) await Promise.all(steps);
      }
      const again = await Promise.all(steps);
      world.stripe.fault = () => null;
      for (const deliver of again) t.equal(await deliver(), 200);
      const isPaid = ['active', 'trialing', 'past_due'].includes(subscription.status);
      const price = Object.entries(prices).find(([id]) => id === subscription.price)?.[1] ?? '';
      await expectPlan(t, world, nodes[1], userId, isPaid ? price : 'FREE', `round ${round}: ${subscription.status}`);
    }
  },
);

billingTest('a reading that was overtaken by a later one changes nothing', async (t, world) => {
  const [slow, fast] = [await world.node(), await world.node()];
  const { userId, subscription } = await subscriber(world, slow, 'PRO');
  const gate = deferred<void>();
  const before = world.stripe.requests.length;
  world.stripe.fault = ({ call }) =>
    call === 'GET /v1/subscriptions' ? { kind: 'holdAnswer', until: gate.promise } : null;
  const overtaken = world.stripe.deliver(slow.url, updated(world, subscription));
  await world.stripe.seen((all) => all.slice(before).some(({ call }) => call === 'GET /v1/subscriptions'));
  // Stripe's answer to the first is on its way, and old from here on.
  world.stripe.fault = () => null;
  subscription.status = 'canceled';
  t.equal(await world.stripe.deliver(fast.url, updated(world, subscription)), 200);
  t.equal(await world.planOf(userId), 'FREE');
  gate.resolve();
  t.equal(await overtaken, 200);
  await expectPlan(t, world, slow, userId, 'FREE', 'the old answer came last');
  t.strictSame(fast.told.at(-1), [userId, 'FREE']);
  t.strictSame(slow.told, [[userId, 'PRO']], 'nothing of the old answer was announced');
});

billingTest('the same event ten times on two nodes is applied once', async (t, world) => {
  const nodes = [await world.node(), await world.node()] as const;
  const userId = await world.user();
  const subscription = await buy(world, nodes[0], userId, 'BUSINESS');
  const event = updated(world, subscription, 'customer.subscription.created');
  const deliveries = Array.from({ length: 10 }, (_, index) =>
    world.stripe.deliver(nodes[index % 2 === 0 ? 0 : 1].url, event),
  );
  t.strictSame(
    await Promise.all(deliveries),
    Array.from({ length: 10 }, () => 200),
  );
  await expectPlan(t, world, nodes[0], userId, 'BUSINESS', 'applied');
  t.strictSame([...(await world.sql`SELECT id FROM billing_events`)], [{ id: event.id }]);
  const asked = world.stripe.requests.length;
  for (const { url } of nodes) t.equal(await world.stripe.deliver(url, event), 200);
  t.equal(world.stripe.requests.length, asked, 'from then on Stripe is not asked for it');
});

billingTest(
  'a webhook before the return from the checkout, and a sync beside it: one subscription, one plan',
  async (t, world) => {
    const [one, other] = [await world.node(), await world.node()];
    const userId = await world.user();
    const { body } = await one.ask(userId, 'POST', 'checkout-session', { plan: 'PRO' });
    const subscription = world.stripe.account.pay(String(body['id']));
    const session = world.stripe.account.sessions.get(String(body['id']));
    if (session === undefined) throw new Error('It was made');
    const events = [
      world.stripe.event('checkout.session.completed', world.stripe.account.sessionBody(session)),
      updated(world, subscription, 'customer.subscription.created'),
      world.stripe.event('invoice.paid', { id: 'in_1', object: 'invoice', customer: subscription.customer }),
    ];
    const answers = await Promise.all([
      ...events.map((event) => world.stripe.deliver(other.url, event)),
      one.ask(userId, 'POST', 'sync', { checkoutSessionId: body['id'] }).then(({ status }) => status),
      one.ask(userId, 'POST', 'checkout-session', { plan: 'BUSINESS' }).then(({ status }) => status),
    ]);
    t.strictSame(answers, [200, 200, 200, 200, 409]);
    await expectPlan(t, world, other, userId, 'PRO', 'paid');
    t.equal(world.stripe.account.subscriptions.size, 1);
  },
);
