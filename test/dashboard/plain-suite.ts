// The dashboard of a server as it comes: registration closed, billing off, and signatures that are not those of a daily update.
import { startServer } from '../fixtures/server.js';
import { EMAIL } from '../fixtures/sign-in.js';
import { go, noComplaints, type Subtest, seriousFindings, signIn } from './browser.js';
import type { Setting } from './setting.js';

export async function plainSuite(tap: Subtest, { browser }: Setting): Promise<void> {
  const server = await startServer();
  tap.teardown(() => server.stop());

  tap.test('registration is closed, and every page says so', async (t) => {
    const person = await browser.person();
    const { page } = person;
    await page.goto(`${server.url}/register`);
    await page.getByText('Registration is closed').waitFor();
    t.equal(await page.getByLabel('Password').count(), 0, 'nothing to fill in');
    t.strictSame(await seriousFindings(page), []);
    await page.goto(`${server.url}/sign-in`);
    await page.getByText('Accounts are made by the operator of this server.').waitFor();
    t.equal(await page.getByRole('link', { name: 'Create one' }).count(), 0);
    noComplaints(t, person);
  });

  const person = await browser.person();
  tap.test('billing is off, and the page shows the plan without anything to buy', async (t) => {
    const { page } = person;
    await page.goto(`${server.url}/sign-in?${new URLSearchParams({ next: '/billing' })}`);
    await signIn(page, EMAIL);
    await page.getByText('Billing is off on this server').waitFor();
    t.equal(await page.getByRole('button', { name: /Buy|Manage/ }).count(), 0);
    t.strictSame(await seriousFindings(page), []);
    await page.goto(`${server.url}/billing?checkoutSessionId=cs_test_1`);
    await page.getByRole('alert').first().waitFor();
    noComplaints(t, person, [404, 503]);
  });

  tap.test('weak and old signatures are said on the first page', async (t) => {
    const { page } = person;
    await go(page, '/');
    await page.getByText(/daily signatures are not installed/).waitFor();
    const answer = await (await fetch(`${server.url}/version`)).text();
    // What a server says after five days without updates, and one that has no ClamAV.
    const said: [RegExp, string, RegExp][] = [
      [/"dailyAgeHours":null/, '"dailyAgeHours":120', /daily signatures are 5 days old/],
      [/"standsIn":false/, '"standsIn":true', /YARA rules stand in for ClamAV/],
    ];
    for (const [found, put, notice] of said) {
      const body = answer.replace(found, put);
      t.not(body, answer);
      await page.route('**/version', (route) => route.fulfill({ contentType: 'application/json', body }));
      await page.reload();
      await page.getByText(notice).waitFor();
      t.strictSame(await seriousFindings(page), []);
      await page.unroute('**/version');
    }
    noComplaints(t, person, [404, 503]);
  });
}
