// The real programs: `sluice billing reconcile`, and `sluice serve` with billing on and off, against Postgres and the local Stripe.
import { mainPath } from '../../src/paths.js';
import { start } from '../fixtures/command.js';
import { startServer } from '../fixtures/server.js';
import { SECRET_KEY, WEBHOOK_SECRET } from '../fixtures/stripe.js';
import { billingTest, buy, type World } from './nodes.js';

function environmentOf(world: World): Record<string, string> {
  return {
    DATABASE_URL: world.databaseUrl ?? '',
    BASE_URL: 'https://sluice.example.org',
    STRIPE_SECRET_KEY: SECRET_KEY,
    STRIPE_WEBHOOK_SECRET: WEBHOOK_SECRET,
    STRIPE_PRICES: 'PRO:price_pro,BUSINESS:price_business',
    STRIPE_API_BASE: world.stripe.url,
  };
}

billingTest(
  'sluice billing reconcile repairs, says how much, and leaves the telling to the service',
  async (t, world) => {
    const node = await world.node();
    const users = [await world.user(), await world.user()];
    for (const userId of users) await buy(world, node, userId, 'BUSINESS');
    const reconcile = () => start(t, mainPath, ['billing', 'reconcile'], { env: environmentOf(world) }).ended;
    const first = await reconcile();
    t.strictSame([first.code, first.stdout], [0, '2 customers read, 2 plans repaired, 0 failed.\n']);
    t.equal(first.stderr, '');
    for (const userId of users) t.equal(await world.planOf(userId), 'BUSINESS');
    t.equal((await world.sql`SELECT user_id FROM billing_customers WHERE NOT announced`).length, 2);
    world.stripe.fault = () => ({ kind: 'fail', status: 401 });
    const failed = await reconcile();
    t.strictSame([failed.code, failed.stdout], [2, '2 customers read, 0 plans repaired, 2 failed.\n']);
    t.match(failed.stderr, /"call":"read customer","status":401/);
    t.notMatch(failed.stdout + failed.stderr, SECRET_KEY);
    await world.sql`UPDATE billing_reconciles SET held_until = now() + interval '1 minute'`;
    const busy = await reconcile();
    t.strictSame(
      [busy.code, busy.stdout],
      [2, 'Nothing was read: another process reconciles, or broke off a moment ago.\n'],
    );
  },
);

billingTest('sluice serve takes events from Stripe, and shows no secret', async (t, world) => {
  const node = await world.node();
  const userId = await world.user();
  const subscription = await buy(world, node, userId, 'PRO');
  const server = await startServer({ t, env: { ...environmentOf(world), LOG_LEVEL: 'trace' }, untilReady: false });
  const object = world.stripe.account.subscriptionBody(subscription);
  t.equal(await world.stripe.deliver(server.url, world.stripe.event('customer.subscription.created', object)), 200);
  t.equal(await world.planOf(userId), 'PRO');
  subscription.status = 'canceled';
  world.stripe.fault = () => ({ kind: 'fail', status: 401 });
  const deleted = world.stripe.event('customer.subscription.deleted', object);
  t.equal(await world.stripe.deliver(server.url, deleted), 503);
  const document: unknown = await (await fetch(`${server.url}/openapi.json`)).json();
  t.match(document, { paths: { '/webhooks/stripe': { post: { tags: ['billing'] } } } });
  t.equal(await server.stop(), 0);
  t.match(server.output(), /"msg":"billing: event applied"/);
  for (const secret of [SECRET_KEY, WEBHOOK_SECRET]) t.notMatch(server.output(), secret);
});

billingTest('sluice serve without a secret key refuses events', async (t, world) => {
  const server = await startServer({ t, env: { DATABASE_URL: world.databaseUrl ?? '' }, untilReady: false });
  const event = world.stripe.event('customer.deleted', { id: 'cus_1', object: 'customer' });
  t.equal(await world.stripe.deliver(server.url, event), 503);
  t.equal(await server.stop(), 0);
});
