// Reconciling: what no webhook has reported is repaired, in pages, by one process at a time, and Stripe's absence ends it early.
import { lastDueMs, type ReconcileOptions, reconcile, startUpkeep } from '../../src/billing/reconcile.js';
import { billingTest, buy, type Node, type World } from './nodes.js';

function run(world: World, node: Node, options: Partial<ReconcileOptions> = {}) {
  const { log, sql } = world;
  const defaults = { unlessSince: null, signal: new AbortController().signal, onProgress: () => undefined };
  return reconcile({ ...node.billing.active(), sql, log }, { ...defaults, ...options });
}

async function subscribers(world: World, node: Node, count: number): Promise<string[]> {
  const users: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const userId = await world.user();
    await buy(world, node, userId, 'PRO');
    users.push(userId);
  }
  return users;
}

billingTest('what the webhooks missed is repaired, in pages, with progress', async (t, world) => {
  const node = await world.node();
  const users: string[] = [];
  for (let index = 0; index < 230; index += 1) {
    // As if it had been bought while nobody listened.
    const userId = await world.user();
    const customer = `cus_missed${index}`;
    world.stripe.account.customers.set(customer, { email: '', user: userId, deleted: false });
    await world.sql`
      INSERT INTO billing_customers (user_id, livemode, customer_id) VALUES (${userId}, false, ${customer})`;
    if (index % 2 === 0) world.stripe.account.subscribe(customer, 'price_business');
    users.push(userId);
  }
  const progress: number[] = [];
  const result = await run(world, node, { onProgress: (done, all) => progress.push(done / all) });
  t.strictSame(result, { outcome: 'finished', read: 230, repaired: 115, failed: 0 });
  t.equal(progress.length, 231);
  t.equal(progress.at(-1), 1);
  for (const [index, userId] of users.entries()) {
    t.equal(await world.planOf(userId), index % 2 === 0 ? 'BUSINESS' : 'FREE');
  }
  t.equal(node.told.length, 230, 'each is announced, even when it was before');
  t.strictSame(await run(world, node), { outcome: 'finished', read: 230, repaired: 0, failed: 0 });
});

billingTest('a payment that stays due ends the plan without any event', async (t, world) => {
  const node = await world.node();
  const userId = await world.user();
  const subscription = await buy(world, node, userId, 'PRO');
  subscription.status = 'past_due';
  await run(world, node);
  t.equal(await world.planOf(userId), 'PRO');
  world.clock.nowMs = Date.now() + 8 * 24 * 3_600_000;
  t.match(await run(world, node), { repaired: 1 });
  t.equal(await world.planOf(userId), 'FREE');
});

billingTest('two at once: one does it, the other one says so', async (t, world) => {
  const nodes = [await world.node(), await world.node()] as const;
  await subscribers(world, nodes[0], 3);
  const results = await Promise.all([run(world, nodes[0]), run(world, nodes[1])]);
  t.strictSame(results.map(({ outcome }) => outcome).sort(), ['finished', 'notNeeded']);
});

billingTest(
  'one customer that fails holds nobody up; when all fail it ends early and is tried later',
  async (t, world) => {
    const node = await world.node();
    const users = await subscribers(world, node, 30);
    const [broken = ''] = [...world.stripe.account.customers.keys()];
    world.stripe.fault = ({ call }) => (call.endsWith(broken) ? { kind: 'fail', status: 403 } : null);
    t.strictSame(await run(world, node), { outcome: 'finished', read: 30, repaired: 29, failed: 1 });
    world.stripe.fault = () => ({ kind: 'fail', status: 401 });
    const stopped = await run(world, node);
    t.match(stopped, { outcome: 'stopped', repaired: 0 });
    t.ok('read' in stopped && stopped.read < 20, 'Stripe is away, and is left alone');
    t.strictSame(await run(world, node), { outcome: 'notNeeded' }, 'for a while');
    await world.sql`UPDATE billing_reconciles SET held_until = now() - interval '1 second'`;
    world.stripe.fault = () => null;
    t.match(await run(world, node), { outcome: 'finished', repaired: 1 });
    for (const userId of users) t.equal(await world.planOf(userId), 'PRO');
  },
);

billingTest('a stop ends it, and the next one begins anew', async (t, world) => {
  const node = await world.node();
  await subscribers(world, node, 20);
  const abortion = new AbortController();
  const stopped = await run(world, node, {
    signal: abortion.signal,
    onProgress: (done) => {
      if (done === 3) abortion.abort();
    },
  });
  t.equal(stopped.outcome, 'stopped');
  t.match(await run(world, node), { outcome: 'finished', read: 20 });
});

billingTest(
  'the service does it once a night, with any number of nodes, and repeats announcements that failed',
  async (t, world) => {
    let away = true;
    const node = await world.node({
      onPlanChanged: async () => {
        if (away) throw new Error('The admission is away');
      },
    });
    const [userId = ''] = await subscribers(world, node, 1);
    await node.ask(userId, 'POST', 'sync');
    t.strictSame(node.told, []);
    away = false;
    const { sql, log } = world;
    const now = () => world.clock.nowMs ?? Date.now();
    const upkeeps = [0, 1].map(() => startUpkeep({ billing: node.billing, sql, log, now }));
    const rounds = async () => {
      for (const upkeep of upkeeps) await upkeep?.round();
    };
    const reads = () => world.stripe.requests.filter(({ call }) => call.startsWith('GET /v1/customers/')).length;
    const before = reads();
    await rounds();
    t.ok(node.told.length >= 1);
    t.strictSame(node.told.at(-1), [userId, 'PRO']);
    t.equal(reads(), before + 1);
    await rounds();
    t.equal(reads(), before + 1, 'not twice in a night');
    await sql`UPDATE billing_reconciles SET finished_at = finished_at - interval '1 day'`;
    await rounds();
    t.equal(reads(), before + 2);
    for (const upkeep of upkeeps) await upkeep?.stop();
  },
);

billingTest('a night begins at three, and billing that is off has no upkeep', async (t, world) => {
  const at = (text: string) => new Date(lastDueMs(Date.parse(text))).toISOString();
  t.equal(at('2026-11-21T02:59:59.999Z'), '2026-11-20T03:00:00.000Z');
  t.equal(at('2026-11-21T03:00:00.000Z'), '2026-11-21T03:00:00.000Z');
  const { billing } = await world.node({ secretKey: null });
  t.equal(startUpkeep({ billing, sql: world.sql, log: world.log, now: Date.now }), null);
});
