// Events from Stripe over the wire: in any order, again and again, on several nodes; what stays is always what Stripe has.
import type { Test } from 'tap';
import { type FakeEvent, WEBHOOK_SECRET } from '../fixtures/stripe.js';
import type { FakeSubscription } from '../fixtures/stripe-account.js';
import { billingTest, buy, type Node, PLANS, type World } from './nodes.js';

/** A subscriber whose plan has arrived. */
async function subscriber(world: World, node: Node, plan: string) {
  const userId = await world.user();
  const subscription = await buy(world, node, userId, plan);
  await node.ask(userId, 'POST', 'sync');
  if ((await world.planOf(userId)) !== plan) throw new Error('The plan has not arrived');
  return { userId, subscription };
}

function updated({ stripe }: World, subscription: FakeSubscription, type = 'customer.subscription.updated'): FakeEvent {
  return stripe.event(type, stripe.account.subscriptionBody(subscription));
}

async function expectPlan(t: Test, world: World, node: Node, userId: string, plan: string, what: string) {
  t.match((await node.ask(userId, 'GET', 'me')).body, { plan, hourlyLimit: PLANS.get(plan) ?? 0 }, what);
  t.equal(await world.planOf(userId), plan, what);
}

/** The same numbers in every run. */
function createRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

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
    const random = createRandom(36);
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

billingTest('a reading that was overtaken by a later one changes nothing', async (t, world) => {
  const [slow, fast] = [await world.node(), await world.node()];
  const { userId, subscription } = await subscriber(world, slow, 'PRO');
  const gate = deferred();
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
  t.strictSame(slow.told, [[userId, 'PRO']], 'nothing was told of the old answer');
});

function deferred(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

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

interface Row {
  readonly what: string;
  readonly type: string;
  readonly from?: string;
  /** What happens at Stripe; the event's object, if it isn't the subscription. */
  happens(world: World, subscription: FakeSubscription): Record<string, unknown> | undefined;
  readonly plan: string;
  readonly status: string;
}

const DAY = 24 * 3600;
const set = (patch: Partial<FakeSubscription>) => (_: World, subscription: FakeSubscription) => {
  Object.assign(subscription, patch);
  return undefined;
};
const charge = (subscription: FakeSubscription) => ({
  id: 'ch_1',
  object: 'charge',
  customer: subscription.customer,
  payment_method_details: { card: { last4: '4242', fingerprint: '4242-card-marker' } },
});

const table: readonly Row[] = [
  { what: 'renewed', type: 'invoice.paid', happens: set({}), plan: 'PRO', status: 'active' },
  {
    what: 'upgraded',
    type: 'customer.subscription.updated',
    happens: set({ price: 'price_business' }),
    plan: 'BUSINESS',
    status: 'active',
  },
  {
    what: 'downgraded',
    type: 'customer.subscription.updated',
    from: 'BUSINESS',
    happens: set({ price: 'price_pro' }),
    plan: 'PRO',
    status: 'active',
  },
  {
    what: 'moved to another price of its plan',
    type: 'customer.subscription.updated',
    happens: set({ price: 'price_pro_yearly' }),
    plan: 'PRO',
    status: 'active',
  },
  {
    what: 'on trial',
    type: 'customer.subscription.updated',
    happens: set({ status: 'trialing', refunds: [] }),
    plan: 'PRO',
    status: 'trialing',
  },
  {
    what: 'to be canceled at the end of the period',
    type: 'customer.subscription.updated',
    happens: set({ cancelAtPeriodEnd: true }),
    plan: 'PRO',
    status: 'active',
  },
  {
    what: 'to be canceled at a time',
    type: 'customer.subscription.updated',
    happens: set({ cancelAt: 4_000_000_000 }),
    plan: 'PRO',
    status: 'active',
  },
  {
    what: 'canceled',
    type: 'customer.subscription.deleted',
    happens: set({ status: 'canceled' }),
    plan: 'FREE',
    status: 'canceled',
  },
  {
    what: 'past due since today',
    type: 'invoice.payment_failed',
    happens: set({ status: 'past_due', refunds: [] }),
    plan: 'PRO',
    status: 'past_due',
  },
  {
    what: 'past due for 8 days',
    type: 'customer.subscription.updated',
    happens: (world, subscription) => {
      subscription.periodStart -= 8 * DAY;
      return set({ status: 'past_due', refunds: [] })(world, subscription);
    },
    plan: 'FREE',
    status: 'past_due',
  },
  {
    what: 'unpaid',
    type: 'customer.subscription.updated',
    happens: set({ status: 'unpaid' }),
    plan: 'FREE',
    status: 'unpaid',
  },
  {
    what: 'paused',
    type: 'customer.subscription.paused',
    happens: set({ status: 'paused' }),
    plan: 'FREE',
    status: 'paused',
  },
  {
    what: 'never paid at all',
    type: 'customer.subscription.updated',
    happens: set({ status: 'incomplete' }),
    plan: 'FREE',
    status: 'incomplete',
  },
  {
    what: 'never paid in time',
    type: 'customer.subscription.updated',
    happens: set({ status: 'incomplete_expired' }),
    plan: 'FREE',
    status: 'incomplete_expired',
  },
  {
    what: 'in a status of the future',
    type: 'customer.subscription.updated',
    happens: set({ status: 'hibernating' }),
    plan: 'FREE',
    status: 'hibernating',
  },
  {
    what: 'refunded in full',
    type: 'charge.refunded',
    happens: (world, subscription) => {
      set({ refunds: [true] })(world, subscription);
      return charge(subscription);
    },
    plan: 'FREE',
    status: 'refunded',
  },
  {
    what: 'refunded in part',
    type: 'charge.refunded',
    happens: (world, subscription) => {
      set({ refunds: [true, false] })(world, subscription);
      return charge(subscription);
    },
    plan: 'PRO',
    status: 'active',
  },
  {
    what: 'paid for with a new period after a refund',
    type: 'invoice.paid',
    happens: set({ invoice: 'in_next', refunds: [false] }),
    plan: 'PRO',
    status: 'active',
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
    happens: ({ stripe }, subscription) => {
      subscription.status = 'canceled';
      stripe.account.subscribe(subscription.customer, 'price_business');
      return undefined;
    },
    plan: 'BUSINESS',
    status: 'active',
  },
  {
    what: 'one of two, the smaller one',
    type: 'customer.subscription.created',
    from: 'BUSINESS',
    happens: ({ stripe }, { customer }) => {
      stripe.account.subscribe(customer, 'price_pro');
      return undefined;
    },
    plan: 'BUSINESS',
    status: 'active',
  },
  {
    what: 'for something that the configuration does not know',
    type: 'customer.subscription.updated',
    happens: set({ price: 'price_of_another_time' }),
    plan: 'PRO',
    status: 'active',
  },
];

billingTest('each event ends in the plan that Stripe has, and the limit of it', async (t, world) => {
  const node = await world.node();
  for (const { what, type, from = 'PRO', happens, plan, status } of table) {
    const { userId, subscription } = await subscriber(world, node, from);
    const object = happens(world, subscription) ?? world.stripe.account.subscriptionBody(subscription);
    const told = node.told.length;
    t.equal(await world.stripe.deliver(node.url, world.stripe.event(type, object)), 200, what);
    t.strictSame(node.told.slice(told), plan === from ? [] : [[userId, plan]], `${what}: told before the answer`);
    await expectPlan(t, world, node, userId, plan, `a subscription that is ${what}`);
    const me = await node.ask(userId, 'GET', 'me');
    t.equal(me.body['status'], status, what);
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

billingTest(
  'what is not signed by Stripe, over these bytes and now, is refused before anything is read',
  async (t, world) => {
    const node = await world.node();
    const { userId, subscription } = await subscriber(world, node, 'PRO');
    subscription.status = 'canceled';
    const { body } = updated(world, subscription);
    const { signature } = world.stripe;
    const nowSeconds = Math.floor(Date.now() / 1000);
    const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
    const replaced = body.replace('"object": "event"', '"object": "ev\ufffdnt"');
    const asked = world.stripe.requests.length;
    const refused: Record<string, { body: string | Buffer; signature?: string }> = {
      'no signature': { body },
      'an empty signature': { body, signature: '' },
      'no scheme that counts': { body, signature: `t=${nowSeconds},v0=${'0'.repeat(64)}` },
      'no time': { body, signature: signature(body).replace(/^t=\d+,/, '') },
      'another secret': { body, signature: signature(body, { secret: `${WEBHOOK_SECRET}x` }) },
      'another body': { body: body.replace('PRO', 'XXX').replace('canceled', 'active'), signature: signature(body) },
      're-serialised before the check': { body: JSON.stringify(JSON.parse(body)), signature: signature(body) },
      'one more byte': { body: `${body}\n`, signature: signature(body) },
      'a byte order mark before it': {
        body: Buffer.concat([byteOrderMark, Buffer.from(body)]),
        signature: signature(body),
      },
      'bytes that decode to the same text': { body: latin(replaced), signature: signature(replaced) },
      'older than 300 seconds': { body, signature: signature(body, { timestamp: nowSeconds - 302 }) },
      'another time than was signed': {
        body,
        signature: signature(body, { timestamp: nowSeconds - 1_000 }).replace(/^t=\d+/, `t=${nowSeconds}`),
      },
      'signed, but no event': { body: '{"id":1}', signature: signature('{"id":1}') },
      'signed, but not JSON': { body: 'hello', signature: signature('hello') },
      'an empty body': { body: '', signature: signature('') },
    };
    for (const [what, sent] of Object.entries(refused)) {
      const headers: Record<string, string> = { 'Content-Type': 'application/json' };
      if (sent.signature !== undefined) headers['Stripe-Signature'] = sent.signature;
      const response = await fetch(`${node.url}/webhooks/stripe`, { method: 'POST', body: sent.body, headers });
      t.match(
        [response.status, await response.json()],
        [400, { error: 'Bad request', message: /^Stripe-Signature: / }],
        what,
      );
    }
    const large = 'x'.repeat(300 * 1024);
    const headers = { 'Stripe-Signature': signature(large) };
    t.equal((await fetch(`${node.url}/webhooks/stripe`, { method: 'POST', body: large, headers })).status, 413);
    t.equal(world.stripe.requests.length, asked, 'Stripe was not asked');
    t.equal(await world.planOf(userId), 'PRO');
    const fine = { body, headers: { 'Stripe-Signature': signature(body, { timestamp: nowSeconds - 290 }) } };
    t.equal((await fetch(`${node.url}/webhooks/stripe`, { method: 'POST', ...fine })).status, 200, 'the same, in time');
    t.equal(await world.planOf(userId), 'FREE');
  },
);

/** Its U+FFFD as a byte that is not UTF-8. */
function latin(text: string): Buffer {
  const [before = '', after = ''] = text.split('\ufffd');
  return Buffer.concat([Buffer.from(before), Buffer.from([0xff]), Buffer.from(after)]);
}

billingTest("an event of Stripe's other mode is refused, with either key", async (t, world) => {
  const node = await world.node();
  const { userId, subscription } = await subscriber(world, node, 'PRO');
  subscription.status = 'canceled';
  const object = world.stripe.account.subscriptionBody(subscription);
  const live = world.stripe.event('customer.subscription.deleted', object, { livemode: true });
  t.equal(await world.stripe.deliver(node.url, live), 400);
  t.equal(await world.planOf(userId), 'PRO');
  t.match(world.logLines.join(''), /other mode was refused/);
});

billingTest(
  'with a live key, what was bought in test mode is not there, and the other way round',
  async (t, world) => {
    const live = await world.node();
    const userId = await world.user();
    await world.sql`
      INSERT INTO billing_customers (user_id, livemode, customer_id, status, plan)
      VALUES (${userId}, false, 'cus_of_test_mode', 'active', 'PRO')`;
    t.match((await live.ask(userId, 'GET', 'me')).body, { plan: 'FREE', status: 'none' });
    const test = world.stripe.event(
      'customer.deleted',
      { id: 'cus_of_test_mode', object: 'customer' },
      { livemode: false },
    );
    t.equal(await world.stripe.deliver(live.url, test), 400);
    const stray = world.stripe.event('customer.deleted', { id: 'cus_of_test_mode', object: 'customer' });
    t.equal(await world.stripe.deliver(live.url, stray), 200, 'nobody of this mode is that customer');
    await buy(world, live, userId, 'BUSINESS');
    t.match((await live.ask(userId, 'POST', 'sync')).body, { plan: 'BUSINESS' });
    t.equal((await world.sql`SELECT livemode FROM billing_customers WHERE user_id = ${userId}`).length, 2);
  },
  { livemode: true, secretKey: 'sk_live_notToBeShown51H8gKxLkdIwHu7' },
);

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
