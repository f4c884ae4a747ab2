// Buying over the wire: one customer per user, one open checkout, retries that are the same attempt, and nobody else's session.
import { deferred } from '../fixtures/deferred.js';
import type { SeenRequest } from '../fixtures/stripe.js';
import { billingTest, buy, type Node, type World } from './nodes.js';

const CREATE_CUSTOMER = 'POST /v1/customers';
const CREATE_CHECKOUT = 'POST /v1/checkout/sessions';

function keysOf(world: World, call: string): string[] {
  const keys = world.stripe.requests
    .filter((request) => request.call === call)
    .map((request) => request.idempotencyKey);
  return [...new Set(keys.map(String))];
}

function openSessions({ stripe }: World): string[] {
  return [...stripe.account.sessions.values()].filter(({ status }) => status === 'open').map(({ id }) => id);
}

function checkout(node: Node, userId: string, plan: string) {
  return node.ask(userId, 'POST', 'checkout-session', { plan });
}

billingTest('one account asks Stripe so often at most, and others go on', async (t, world) => {
  const node = await world.node();
  const [one, other] = [await world.user(), await world.user()];
  const answers = await Promise.all(Array.from({ length: 90 }, () => node.ask(one, 'POST', 'sync')));
  const refused = answers.find(({ status }) => status === 429);
  t.match(refused, { body: { error: 'Too many requests', message: 'At most 1 a second' } });
  t.equal((await node.ask(other, 'POST', 'sync')).status, 200);
});

billingTest('a checkout is opened, paid and synced: the plan follows, and the admission has it', async (t, world) => {
  const node = await world.node();
  const userId = await world.user();
  const before = await node.ask(userId, 'GET', 'me');
  t.equal(before.status, 200);
  t.strictSame(before.body, {
    plan: 'FREE',
    hourlyLimit: 50,
    status: 'none',
    currentPeriodEnd: null,
    cancelAtPeriodEnd: false,
    plans: [
      { name: 'FREE', hourlyLimit: 50, price: null },
      {
        name: 'PRO',
        hourlyLimit: 1_000,
        price: { amount: 1_900, currency: 'eur', interval: 'month' },
      },
      {
        name: 'BUSINESS',
        hourlyLimit: 10_000,
        price: { amount: 1_902, currency: 'eur', interval: 'month' },
      },
    ],
  });
  const opened = await checkout(node, userId, 'PRO');
  t.equal(opened.status, 200);
  t.strictSame(Object.keys(opened.body), ['id', 'url']);
  t.equal(await world.planOf(userId), 'FREE', 'nothing is paid yet');
  const { periodEnd } = world.stripe.account.pay(String(opened.body['id']));
  const synced = await node.ask(userId, 'POST', 'sync', { checkoutSessionId: opened.body['id'] });
  t.match(synced, {
    status: 200,
    body: {
      plan: 'PRO',
      hourlyLimit: 1_000,
      status: 'active',
      currentPeriodEnd: new Date(periodEnd * 1000).toISOString().slice(0, 19),
      cancelAtPeriodEnd: false,
    },
  });
  t.strictSame((await node.ask(userId, 'GET', 'me')).body, synced.body);
  t.strictSame(node.told, [[userId, 'PRO']]);
  const again = await checkout(node, userId, 'BUSINESS');
  t.match(again, { status: 409, body: { message: 'There is a subscription already: change it in the portal' } });
  const portal = await node.ask(userId, 'POST', 'portal-session');
  t.match(portal, { status: 200, body: { url: /^https:\/\/billing\.stripe\.test\/p\// } });
});

billingTest('50 calls at once on two nodes make one customer and one checkout', async (t, world) => {
  const nodes = [await world.node(), await world.node()];
  const userId = await world.user();
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, index) =>
      nodes[index % 2]?.ask(userId, 'POST', 'checkout-session', { plan: 'PRO' }),
    ),
  );
  t.strictSame([...new Set(answers.map((answer) => answer?.status))], [200]);
  t.equal(new Set(answers.map((answer) => answer?.body['id'])).size, 1);
  t.equal(world.stripe.account.customers.size, 1);
  t.equal(world.stripe.account.sessions.size, 1);
  t.equal((await world.sql`SELECT customer_id FROM billing_customers WHERE user_id = ${userId}`).length, 1);
});

billingTest('checkouts for two plans at once, on two nodes: never two that can be paid', async (t, world) => {
  const nodes = [await world.node(), await world.node()];
  const userId = await world.user();
  for (let round = 0; round < 10; round += 1) {
    const answers = await Promise.all(
      ['PRO', 'BUSINESS', 'PRO', 'BUSINESS'].map((plan, index) =>
        nodes[index % 2 === 0 ? 0 : 1]?.ask(userId, 'POST', 'checkout-session', { plan }),
      ),
    );
    t.ok(openSessions(world).length <= 1, `round ${round}: ${openSessions(world).length} are open`);
    for (const answer of answers) t.ok([200, 409, 503].includes(answer?.status ?? 0), String(answer?.status));
  }
  const [one, other] = nodes;
  if (one === undefined || other === undefined) return;
  const last = await checkout(one, userId, 'BUSINESS');
  t.strictSame(openSessions(world), [last.body['id']]);
  t.strictSame((await checkout(other, userId, 'BUSINESS')).body, last.body, 'it is reused while it is open');
  t.equal(world.stripe.account.customers.size, 1);
});

for (const [what, call] of [
  ['the customer', CREATE_CUSTOMER],
  ['the checkout', CREATE_CHECKOUT],
] as const) {
  billingTest(`${what} is made once when Stripe's answer is lost, and every try says the same`, async (t, world) => {
    const node = await world.node();
    const userId = await world.user();
    const isIt = (request: SeenRequest): boolean => request.call === call;
    world.stripe.fault = (request) => (isIt(request) ? { kind: 'drop' } : null);
    const lost = await checkout(node, userId, 'PRO');
    t.match(lost, { status: 503, body: { message: 'Stripe does not answer; the plan stays as it is' } });
    t.equal(lost.headers.get('retry-after'), '5');
    t.equal(world.stripe.requests.filter(isIt).length, 3, 'the package tried again');
    await world.sql`UPDATE users SET email = 'moved@example.org' WHERE id = ${userId}`;
    world.stripe.fault = () => null;
    t.equal((await checkout(node, userId, 'PRO')).status, 200);
    t.equal(keysOf(world, call).length, 1);
    t.equal(world.stripe.account.customers.size, 1);
    t.equal(world.stripe.account.sessions.size, 1);
  });

  billingTest(
    `a failure that Stripe remembers for ${what} doesn't stand in the way of the next attempt`,
    async (t, world) => {
      const node = await world.node();
      const userId = await world.user();
      world.stripe.fault = (request) => (request.call === call ? { kind: 'fail', status: 500, recorded: true } : null);
      t.equal((await checkout(node, userId, 'PRO')).status, 503);
      world.stripe.fault = () => null;
      t.equal((await checkout(node, userId, 'PRO')).status, 503, 'the same attempt, so the same answer');
      t.equal((await checkout(node, userId, 'PRO')).status, 200);
      t.equal(keysOf(world, call).length, 2);
      t.equal(openSessions(world).length, 1);
    },
  );
}

for (const call of [CREATE_CUSTOMER, CREATE_CHECKOUT]) {
  billingTest(`two nodes in the same attempt, while Stripe is still at ${call}`, async (t, world) => {
    const [one, other] = [await world.node(), await world.node()];
    const userId = await world.user();
    const gate = deferred<void>();
    const created = (all: readonly SeenRequest[]): number => all.filter((request) => request.call === call).length;
    world.stripe.fault = (request) => {
      return request.call === call && created(world.stripe.requests) === 1
        ? { kind: 'holdAnswer', until: gate.promise }
        : null;
    };
    const first = checkout(one, userId, 'PRO');
    await world.stripe.seen((all) => created(all) === 1);
    const second = checkout(other, userId, 'PRO');
    // Refused as in progress, and tried again by the package.
    await world.stripe.seen((all) => created(all) === 2);
    gate.resolve();
    t.strictSame((await first).body, (await second).body);
    t.equal((await second).status, 200);
    t.equal(world.stripe.account.customers.size, 1);
    t.equal(world.stripe.account.sessions.size, 1);
  });
}

billingTest("somebody else's checkout is refused, an unknown one not found, and no plan changes", async (t, world) => {
  const node = await world.node();
  const [owner, thief] = [await world.user(), await world.user()];
  const opened = await checkout(node, owner, 'BUSINESS');
  world.stripe.account.pay(String(opened.body['id']));
  const swap = { checkoutSessionId: opened.body['id'] };
  const foreign = { status: 403, body: { error: 'Forbidden', message: 'The checkout session is not yours' } };
  t.match(await node.ask(thief, 'POST', 'sync', swap), foreign, 'who has no customer');
  await checkout(node, thief, 'PRO');
  t.match(await node.ask(thief, 'POST', 'sync', swap), foreign, 'who has one');
  const unknown = await node.ask(thief, 'POST', 'sync', { checkoutSessionId: 'cs_test_doesNotExist' });
  t.match(unknown, { status: 404, body: { message: 'No such resource: checkout session' } });
  for (const checkoutSessionId of ['', 'cs_test_', 'sub_000001', 'cs_test_a/../../customers', 7]) {
    t.equal((await node.ask(thief, 'POST', 'sync', { checkoutSessionId })).status, 400, String(checkoutSessionId));
  }
  t.equal(await world.planOf(thief), 'FREE');
  t.equal(await world.planOf(owner), 'FREE', 'the refused ones changed nothing at all');
  t.match(await node.ask(owner, 'POST', 'sync', swap), { status: 200, body: { plan: 'BUSINESS' } });
  t.strictSame(node.told, [[owner, 'BUSINESS']]);
});

billingTest('a plan that is unknown, or not for sale, is a 400 that names what is', async (t, world) => {
  const node = await world.node();
  const userId = await world.user();
  for (const plan of ['FREE', 'GOLD', 'pro', '__proto__']) {
    const answer = await checkout(node, userId, plan);
    t.match(answer, { status: 400, body: { message: 'plan: must be one of PRO, BUSINESS' } }, plan);
  }
  for (const body of [{}, { plan: 7 }, { plan: 'PRO', price: 'price_business' }]) {
    t.equal((await node.ask(userId, 'POST', 'checkout-session', body)).status, 400);
  }
  t.equal(world.stripe.requests.length, 0);
});

billingTest('a checkout that is about to expire, or was ended, is followed by a new one', async (t, world) => {
  const node = await world.node();
  const userId = await world.user();
  world.clock.nowMs = Date.now();
  const first = await checkout(node, userId, 'PRO');
  world.clock.nowMs += 100 * 60_000;
  t.strictSame((await checkout(node, userId, 'PRO')).body, first.body);
  world.clock.nowMs += 10 * 60_000;
  const second = await checkout(node, userId, 'PRO');
  t.not(second.body['id'], first.body['id']);
  world.clock.nowMs += 24 * 3_600_000;
  const third = await checkout(node, userId, 'PRO');
  t.strictSame(openSessions(world), [third.body['id']]);
});

billingTest('an attempt whose answer was lost too long ago is given up', async (t, world) => {
  const node = await world.node();
  const userId = await world.user();
  world.clock.nowMs = Date.now();
  world.stripe.fault = ({ call }) => (call === CREATE_CHECKOUT ? { kind: 'drop' } : null);
  t.equal((await checkout(node, userId, 'PRO')).status, 503);
  world.stripe.fault = () => null;
  world.clock.nowMs += 100 * 60_000;
  t.equal((await checkout(node, userId, 'PRO')).status, 200);
  t.equal(keysOf(world, CREATE_CHECKOUT).length, 2);
});

billingTest('a customer deleted at Stripe is followed by a new one at the next purchase', async (t, world) => {
  const node = await world.node();
  const userId = await world.user();
  const { customer } = await buy(world, node, userId, 'PRO');
  await node.ask(userId, 'POST', 'sync');
  t.equal(await world.planOf(userId), 'PRO');
  world.stripe.account.deleteCustomer(customer);
  const portal = await node.ask(userId, 'POST', 'portal-session');
  t.match(portal, { status: 409, body: { message: 'Nothing has been bought yet: start with a checkout' } });
  t.equal(await world.planOf(userId), 'FREE', 'it was noticed on the way');
  const again = await buy(world, node, userId, 'BUSINESS');
  t.not(again.customer, customer);
  t.match(await node.ask(userId, 'POST', 'sync'), { status: 200, body: { plan: 'BUSINESS' } });
  t.equal((await node.ask(await world.user(), 'POST', 'portal-session')).status, 409, 'nor has a new user');
});

billingTest('without a secret key billing is off: me answers, the rest is a 503 that says so', async (t, world) => {
  const node = await world.node({ secretKey: null });
  const userId = await world.user('BUSINESS');
  const me = await node.ask(userId, 'GET', 'me');
  t.match(me, { status: 200, body: { plan: 'BUSINESS', hourlyLimit: 10_000, status: 'none', currentPeriodEnd: null } });
  const off = { status: 503, body: { error: 'Service unavailable', message: 'Billing is not configured' } };
  for (const answer of [
    await checkout(node, userId, 'PRO'),
    await node.ask(userId, 'POST', 'portal-session'),
    await node.ask(userId, 'POST', 'sync'),
    await node.ask(userId, 'POST', 'sync', { wrong: true }),
  ]) {
    t.match(answer, off);
    t.ok(Number(answer.headers.get('retry-after')) >= 1);
  }
  const event = world.stripe.event('customer.deleted', { id: 'cus_1', object: 'customer' });
  t.equal(await world.stripe.deliver(node.url, event), 503);
  t.equal(world.stripe.requests.length, 0);
});
