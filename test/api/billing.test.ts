// What is paid for, over the wire: two servers on one Postgres and one Redis, a user who buys, changes and cancels, and the limit of the next scan.
import t from 'tap';
import { startPostgres } from '../fixtures/postgres.js';
import { startRedis } from '../fixtures/redis.js';
import { startServer } from '../fixtures/server.js';
import { ask, bearer, EMAIL, post, signIn } from '../fixtures/sign-in.js';
import { SECRET_KEY, startStripe, WEBHOOK_SECRET } from '../fixtures/stripe.js';
import { upload } from '../fixtures/upload.js';
import { uploadSignedIn } from '../fixtures/web-scans.js';

t.test('the quota follows a plan on the next request on every node', async (t) => {
  const postgres = await startPostgres();
  const redis = await startRedis();
  const stripe = await startStripe();
  for (const id of ['price_pro', 'price_business']) {
    stripe.account.prices.set(id, { amount: 1_900, currency: 'eur', interval: 'month' });
  }
  const env = {
    DATABASE_URL: await postgres.database(),
    REDIS_URL: redis.url,
    BASE_URL: 'https://sluice.example.org',
    PLANS: 'FREE:50,PRO:1000,BUSINESS:10000',
    BOOTSTRAP_PLAN: 'FREE',
    STRIPE_SECRET_KEY: SECRET_KEY,
    STRIPE_WEBHOOK_SECRET: WEBHOOK_SECRET,
    STRIPE_PRICES: 'PRO:price_pro,BUSINESS:price_business',
    STRIPE_API_BASE: stripe.url,
    LOG_LEVEL: 'debug',
  };
  const one = await startServer({ env });
  const other = await startServer({ env });
  const { accessToken } = await signIn(one.url);
  const me = bearer(accessToken);
  const limits = async (): Promise<(string | null)[]> => {
    const answers = [
      await upload(one.url, 'a'),
      await upload(other.url, 'b'),
      await uploadSignedIn(other.url, accessToken, 'c'),
    ];
    for (const { status } of answers) t.equal(status, 200);
    return answers.map(({ headers }) => headers.get('x-ratelimit-limit'));
  };
  t.strictSame(await limits(), ['50', '50', '50']);

  const checkout = await post(`${one.url}/web/billing/checkout-session`, { plan: 'PRO' }, me);
  t.match(checkout, { status: 200, body: { id: String, url: /^https?:/ } });
  const subscription = stripe.account.pay(String(Object(checkout.body).id));
  const tell = async (server: typeof one, type: string): Promise<void> => {
    const event = stripe.event(type, stripe.account.subscriptionBody(subscription));
    t.equal(await stripe.deliver(server.url, event), 200);
  };
  await tell(one, 'customer.subscription.created');
  t.strictSame(await limits(), ['1000', '1000', '1000'], 'told to one node, true on both');

  subscription.price = 'price_business';
  const synced = await post(`${other.url}/web/billing/sync`, {}, me);
  t.match(synced, { status: 200, body: { plan: 'BUSINESS', hourlyLimit: 10_000 } });
  t.strictSame(await limits(), ['10000', '10000', '10000']);

  subscription.status = 'canceled';
  await tell(other, 'customer.subscription.deleted');
  t.strictSame(await limits(), ['50', '50', '50']);
  const mine = await ask(`${one.url}/web/billing/me`, { headers: me });
  t.match(mine, { status: 200, body: { plan: 'FREE', hourlyLimit: 50, status: 'canceled' } });

  await stripe.stop();
  t.match((await upload(one.url, 'd')).status, 200, 'without Stripe the last known plan goes on');
  const away = await post(`${one.url}/web/billing/checkout-session`, { plan: 'PRO' }, me);
  t.match(away, { status: 503, body: { error: 'Service unavailable' } });
  t.match(away.headers.get('retry-after'), /^\d+$/);

  for (const server of [one, other]) {
    t.equal(await server.stop(), 0);
    t.notMatch(server.output(), new RegExp(`${SECRET_KEY}|${WEBHOOK_SECRET}|${EMAIL}.*sk_`), 'no secret in the log');
  }
  t.strictSame(stripe.violations, []);
  await redis.stop();
  await postgres.stop();
});
