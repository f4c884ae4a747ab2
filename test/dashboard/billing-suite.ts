// The page of billing against a stand-in of Stripe: bought, come back from, managed, and Stripe away.
import { deferred } from '../fixtures/deferred.js';
import { noComplaints, type Subtest } from './browser.js';
import type { Setting } from './setting.js';

export async function billingSuite(tap: Subtest, { server, stripe, signedIn }: Setting): Promise<void> {
  const person = await signedIn('/livez');
  const { page, context } = person;
  /** Stripe's own pages, which the buyer is sent to. */
  const visited: string[] = [];
  await context.route(/stripe\.(com|test)/, async (route) => {
    visited.push(route.request().url());
    await route.fulfill({ contentType: 'text/html', body: '<h1>Stripe</h1>' });
  });

  tap.test(
    'a Stripe that takes long to say its prices is said, and the plans are for sale as soon as it has',
    async (t) => {
      const gate = deferred<void>();
      stripe.fault = ({ call }) => (call.startsWith('GET /v1/prices/') ? { kind: 'hold', until: gate.promise } : null);
      await page.goto(`${server.url}/billing`);
      const waiting = page.getByText('Stripe has not said the prices yet');
      await waiting.waitFor();
      const buy = page.getByRole('button', { name: 'Buy PRO' });
      t.ok(await buy.isDisabled());
      t.equal(await page.getByText('Billing is off').count(), 0);
      gate.resolve();
      stripe.fault = () => null;
      await page.getByText('€19.00 per month').waitFor();
      t.ok(await buy.isEnabled());
      t.equal(await waiting.count(), 0);
      noComplaints(t, person);
    },
  );

  tap.test('a price is what Stripe asks for, also where browsers have other parts of the currency', async (t) => {
    for (const [amount, currency, shown] of [
      [499_000, 'huf', 'HUF 4,990 per month'],
      [499_050, 'huf', 'HUF 4,990.50 per month'],
      [1_900, 'jpy', 'JP¥1,900 per month'],
      [1_905, 'eur', '€19.05 per month'],
      [1_900, 'kwd', 'KWD 1.900 per month'],
    ] as const) {
      await page.route('**/web/billing/me', async (route) => {
        const answer = await (await route.fetch()).text();
        const body = answer
          .replace('"amount":1900,"currency":"eur"', `"amount":${amount},"currency":"${currency}"`)
          .replace('"plans":[', '$&{"name":"BUSINESS","hourlyLimit":10000,"price":null},');
        await route.fulfill({ contentType: 'application/json', body });
      });
      await page.reload();
      await page.getByText(shown).waitFor();
      const priceless = page.locator('.billing-card').filter({ hasText: /Free|Ask the operator/ });
      t.strictSame(await priceless.getByRole('heading').allTextContents(), ['BUSINESS', 'FREE']);
      t.equal(
        await priceless.filter({ hasText: 'BUSINESS' }).getByText('Free').count(),
        0,
        'what nobody can buy is not free',
      );
      await page.unroute('**/web/billing/me');
    }
    await page.reload();
    noComplaints(t, person);
  });

  tap.test('Stripe that fails is said, and nothing is bought', async (t) => {
    await page.getByRole('button', { name: 'Buy PRO' }).waitFor();
    stripe.fault = () => ({ kind: 'fail', status: 500 });
    await page.getByRole('button', { name: 'Buy PRO' }).click();
    await page.getByRole('alert').first().waitFor();
    stripe.fault = () => null;
    t.strictSame(visited, []);
    noComplaints(t, person, [503]);
  });

  tap.test('a plan is bought, and the return says so', async (t) => {
    await page.getByRole('button', { name: 'Buy PRO' }).click();
    await page.getByRole('heading', { name: 'Stripe' }).waitFor();
    t.equal(visited.length, 1);
    const id = /cs_test_\w+/.exec(visited[0] ?? '')?.[0] ?? '';
    await page.goto(`${server.url}/billing?checkoutSessionId=${id}`);
    await page.getByText('The payment is not complete yet').waitFor();
    stripe.account.pay(id);
    await page.reload();
    await page.getByText('You are on PRO now: 1,000 scans per hour.').waitFor();
    await page.getByText('Active').waitFor();
    t.equal(await page.getByRole('button', { name: 'Buy PRO' }).count(), 0, 'nobody buys it twice');
    noComplaints(t, person, [503]);
  });

  tap.test("somebody else's checkout, an unknown one and a Stripe that is away are told apart", async (t) => {
    const other = await signedIn('/billing');
    await other.context.route(/stripe\.(com|test)/, (route) => route.fulfill({ body: 'Stripe' }));
    const id = /cs_test_\w+/.exec(visited[0] ?? '')?.[0] ?? '';
    await other.page.goto(`${server.url}/billing?checkoutSessionId=${id}`);
    await other.page.getByText('This checkout belongs to another account').waitFor();
    await other.page.goto(`${server.url}/billing?checkoutSessionId=cs_test_unknown`);
    await other.page.getByText('Stripe does not know this checkout').waitFor();
    stripe.fault = () => ({ kind: 'fail', status: 500 });
    await other.page.goto(`${server.url}/billing?checkoutSessionId=${id}`);
    await other.page.getByText('Stripe could not be asked').waitFor();
    stripe.fault = () => null;
    noComplaints(t, other, [403, 404, 503]);
  });

  tap.test('the portal is opened', async (t) => {
    await page.getByRole('button', { name: 'Manage the subscription' }).click();
    await page.waitForURL(/stripe/);
    t.equal(visited.length, 2);
  });
}
