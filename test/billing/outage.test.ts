// When something is away: Stripe down or hanging, the admission or Postgres unreachable. The service goes on with the last known plan.
import postgres from 'postgres';
import type { Sql } from '../../src/store/postgres.js';
import { createConnections, createSql } from '../../src/store/queries.js';
import { guarded } from '../../src/store/store-error.js';
import { deferred } from '../fixtures/deferred.js';
import { billingTest, buy } from './nodes.js';

/** A database that isn't there, as the service's requests would meet it: nothing listens where it should be. */
function databaseAway(): { readonly sql: Sql; close(): Promise<void> } {
  const open = () => postgres('postgres://nobody@127.0.0.1:1/none', { connect_timeout: 1, max: 1 });
  const connections = createConnections({ open, size: 2 });
  const lane = connections.lane({ running: 2, spare: 0, waiting: 10 });
  return { sql: createSql(open(), lane, '', guarded), close: () => connections.close(0) };
}

billingTest('with Stripe down every call that needs it is a 503, and the plan stays', async (t, world) => {
  const node = await world.node();
  const userId = await world.user();
  const subscription = await buy(world, node, userId, 'PRO');
  await node.ask(userId, 'POST', 'sync');
  const event = world.stripe.event(
    'customer.subscription.deleted',
    world.stripe.account.subscriptionBody(subscription),
  );
  subscription.status = 'canceled';
  for (const status of [500, 503, 429, 409, 401, 403]) {
    world.stripe.fault = () => ({ kind: 'fail', status });
    const answers = await Promise.all([
      node.ask(userId, 'POST', 'sync'),
      node.ask(userId, 'POST', 'portal-session'),
      node.ask(userId, 'POST', 'checkout-session', { plan: 'PRO' }),
    ]);
    for (const { status: answered, headers, body } of answers) {
      t.match([answered, body], [503, { error: 'Service unavailable', message: /^Stripe (does not answer|refuses)/ }]);
      t.ok(Number(headers.get('retry-after')) >= 1);
    }
    t.match((await node.ask(userId, 'GET', 'me')).body, { plan: 'PRO', hourlyLimit: 1_000, status: 'active' });
    t.equal(await world.stripe.deliver(node.url, event), 503, 'Stripe will send it again');
  }
  t.equal((await world.sql`SELECT id FROM billing_events`).length, 0, 'a failed application leaves no trace');
  t.equal(await world.planOf(userId), 'PRO');
  world.stripe.fault = () => null;
  t.equal(await world.stripe.deliver(node.url, event), 200);
  t.equal(await world.planOf(userId), 'FREE');
});

billingTest(
  'while Stripe hangs, everything that does not need it is answered, and no connection is held',
  async (t, world) => {
    const node = await world.node();
    const users = await Promise.all(Array.from({ length: 40 }, () => world.user()));
    const [first = '', ...others] = users;
    await buy(world, node, first, 'PRO');
    await node.ask(first, 'GET', 'me');
    for (const userId of others) await node.ask(userId, 'POST', 'checkout-session', { plan: 'PRO' });
    const gate = deferred<void>();
    const before = world.stripe.requests.length;
    world.stripe.fault = () => ({ kind: 'hold', until: gate.promise });
    const waiting = users.map((userId) => node.ask(userId, 'POST', 'sync'));
    await world.stripe.seen((all) => all.length - before >= 24);
    // Twice as many queries as there are connections, while all of the calls hang.
    for (let round = 0; round < 2; round += 1) {
      const answers = await Promise.all(Array.from({ length: 10 }, () => node.ask(first, 'GET', 'me')));
      for (const { status } of answers) t.equal(status, 200);
    }
    const [{ held } = { held: -1 }] = await world.sql<{ held: number }[]>`
    SELECT count(*)::int AS held FROM pg_stat_activity
    WHERE datname = current_database() AND state LIKE 'idle in transaction%'`;
    t.equal(held, 0);
    t.equal(world.stripe.requests.length - before, 24, 'no more calls at once than the bound');
    gate.resolve();
    for (const { status } of await Promise.all(waiting)) t.equal(status, 200);
    t.equal(await world.planOf(first), 'PRO');
  },
);

billingTest('a Stripe that never answers ends as a 503, at its timeout', async (t, world) => {
  const node = await world.node({ stripeTimeoutMs: 50 });
  const userId = await world.user();
  const gate = deferred<void>();
  world.stripe.fault = () => ({ kind: 'hold', until: gate.promise });
  const answer = await node.ask(userId, 'POST', 'checkout-session', { plan: 'PRO' });
  t.match(answer, { status: 503, body: { message: 'Stripe does not answer; the plan stays as it is' } });
  t.match((await node.ask(userId, 'GET', 'me')).body, {
    plans: [
      { name: 'FREE', price: null },
      { name: 'PRO', price: null, pricePending: true },
      { name: 'BUSINESS', price: null, pricePending: true },
    ],
  });
  gate.resolve();
});

billingTest(
  'the answer of a webhook waits until the admission knows, and the next delivery tells it',
  async (t, world) => {
    let away = true;
    const node = await world.node({
      onPlanChanged: async () => {
        if (away) throw new Error('The admission is away');
      },
    });
    const userId = await world.user();
    const subscription = await buy(world, node, userId, 'PRO');
    const event = world.stripe.event(
      'customer.subscription.created',
      world.stripe.account.subscriptionBody(subscription),
    );
    t.equal(await world.stripe.deliver(node.url, event), 503);
    t.equal(await world.planOf(userId), 'PRO', 'Postgres has it');
    t.equal((await node.ask(userId, 'POST', 'sync')).status, 200, 'the user is not made to wait for it');
    t.strictSame(node.told, []);
    away = false;
    t.equal(await world.stripe.deliver(node.url, event), 200);
    t.strictSame(node.told, [[userId, 'PRO']]);
    t.equal(await world.stripe.deliver(node.url, event), 200);
    t.strictSame(node.told, [[userId, 'PRO']], 'once');
  },
);

billingTest(
  'a plan that changes while it is announced is announced again, so that the admission ends with the newest',
  async (t, world) => {
    const gate = deferred<void>();
    const entered = deferred<void>();
    const slow = await world.node({
      onPlanChanged: async (_, plan) => {
        if (plan !== 'PRO') return;
        entered.resolve();
        await gate.promise;
      },
    });
    const fast = await world.node();
    const userId = await world.user();
    const subscription = await buy(world, fast, userId, 'PRO');
    const { account, event, deliver } = world.stripe;
    const created = deliver(slow.url, event('customer.subscription.created', account.subscriptionBody(subscription)));
    await entered.promise;
    subscription.price = 'price_business';
    await deliver(fast.url, event('customer.subscription.updated', account.subscriptionBody(subscription)));
    gate.resolve();
    t.equal(await created, 200);
    t.strictSame(slow.told, [
      [userId, 'PRO'],
      [userId, 'BUSINESS'],
    ]);
  },
);

billingTest('without Postgres there is a 503, and Stripe sends its event again', async (t, world) => {
  const away = databaseAway();
  t.teardown(() => away.close());
  const node = await world.node({ sql: away.sql });
  const there = await world.node();
  const userId = await world.user();
  const subscription = await buy(world, there, userId, 'PRO');
  for (const [method, path, body] of [
    ['GET', 'me'],
    ['POST', 'sync'],
    ['POST', 'portal-session'],
    ['POST', 'checkout-session', { plan: 'PRO' }],
  ] as const) {
    const answer = await node.ask(userId, method, path, body);
    t.match(answer, { status: 503, body: { message: 'The account store is not reachable' } }, path);
    t.ok(Number(answer.headers.get('retry-after')) >= 1);
  }
  const event = world.stripe.event(
    'customer.subscription.created',
    world.stripe.account.subscriptionBody(subscription),
  );
  t.equal(await world.stripe.deliver(node.url, event), 503);
  t.equal(await world.stripe.deliver(there.url, event), 200);
});
