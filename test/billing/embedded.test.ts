// Billing on the embedded store, whose connections are few: none may be held while Stripe is asked.
import { billingTest, buy } from './nodes.js';

billingTest(
  'events, syncs and checkouts at once end in what Stripe has',
  async (t, world) => {
    const nodes = [await world.node(), await world.node()] as const;
    for (const plan of ['PRO', 'BUSINESS']) {
      const userId = await world.user();
      const opened = await Promise.all(
        Array.from({ length: 10 }, (_, index) =>
          nodes[index % 2 === 0 ? 0 : 1].ask(userId, 'POST', 'checkout-session', { plan }),
        ),
      );
      t.equal(new Set(opened.map(({ body }) => body['id'])).size, 1);
      const subscription = await buy(world, nodes[0], userId, plan);
      const object = world.stripe.account.subscriptionBody(subscription);
      const event = world.stripe.event('customer.subscription.created', object);
      const answers = await Promise.all(
        Array.from({ length: 20 }, async (_, index) => {
          const node = nodes[index % 2 === 0 ? 0 : 1];
          if (index % 5 === 0) return (await node.ask(userId, 'POST', 'sync')).status;
          return await world.stripe.deliver(node.url, event);
        }),
      );
      t.strictSame([...new Set(answers)], [200]);
      t.equal(await world.planOf(userId), plan);
    }
    t.equal(world.stripe.account.customers.size, 2);
  },
  { embedded: true },
);
