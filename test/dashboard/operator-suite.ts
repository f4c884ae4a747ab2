// The pages of operators: seen by them alone, in all widths and schemes; accounts changed, suspended and deleted, and the log that tells of it.
import { ask, bearer, EMAIL, post, signIn as signInByWire } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { go, looksWell, noComplaints, overflow, PASSWORD, type Subtest, signIn } from './browser.js';
import { REFUSED, type Setting } from './setting.js';

export const ADMIN_PAGES = ['/admin', '/admin/accounts', '/admin/activity', '/admin/audit'];

export async function operatorSuite(tap: Subtest, setting: Setting): Promise<void> {
  const { server, browser, signedIn, operator, newAccount } = setting;
  tap.afterEach(() => browser.closePersons());

  tap.test('who is no operator has no way there, and finds no page', async (t) => {
    const person = await signedIn('/');
    const { page } = person;
    await page.getByRole('button', { name: 'Your account' }).click();
    await page.getByRole('menuitem', { name: 'Billing' }).waitFor();
    t.equal(await page.getByRole('menuitem', { name: 'Operation' }).count(), 0);
    for (const path of ADMIN_PAGES) {
      await page.goto(`${server.url}${path}`);
      await page.getByRole('heading', { name: 'There is no such page', level: 1 }).waitFor();
    }
    noComplaints(t, person);
  });

  tap.test('every page fits, is found by the menu, and has nothing serious for axe', async (t) => {
    const person = await operator('/admin/accounts');
    const { page } = person;
    for (const path of ['/admin/accounts', '/keys', '/']) {
      await go(page, path);
      await page.getByText(/daily signatures are not installed/).waitFor();
    }
    await page.getByRole('link', { name: 'Update them' }).click();
    await page.getByRole('heading', { name: 'Health', level: 1 }).waitFor();
    t.equal(await page.getByRole('link', { name: 'Update them' }).count(), 0, 'here they are updated');
    await page.goBack();
    await page.getByRole('button', { name: 'Your account' }).click();
    await page.getByRole('menuitem', { name: 'Operation' }).click();
    await page.getByRole('heading', { name: 'Health', level: 1 }).waitFor();
    await page.getByRole('region', { name: 'Nodes' }).getByText('Answers you').waitFor();
    for (const path of ADMIN_PAGES) {
      await go(page, path);
      await page.locator('section.panel').first().waitFor();
      await page.locator('[role=status][aria-label=Loading]').first().waitFor({ state: 'detached' });
      await looksWell(t, page, path);
    }
    await page.goto(`${server.url}/admin/health`);
    await page.getByRole('heading', { name: 'There is no such page', level: 1 }).waitFor();
    noComplaints(t, person, [404]);
  });

  tap.test('a long address leaves the name of a plan whole', async (t) => {
    const email = `${'long'.repeat(15)}@example.com`;
    await post(`${server.url}/web/auth/register`, { email, password: PASSWORD, name: 'x'.repeat(100) });
    const person = await operator(`/admin/accounts?q=${email}`);
    const { page } = person;
    await page.getByRole('button', { name: `Open ${email}` }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('combobox', { name: 'Plan' }).click();
    await page.getByRole('option', { name: 'BUSINESS' }).click();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.keyboard.press('Escape');
    await page.getByRole('cell', { name: 'BUSINESS', exact: true }).waitFor();
    for (const width of [800, 1_280]) {
      await page.setViewportSize({ width, height: 800 });
      const lines: unknown = await page.evaluate(`(() => {
        const text = new Range();
        text.selectNodeContents(document.querySelector('.table td:nth-child(3)'));
        return new Set([...text.getClientRects()].map(({ top }) => top)).size;
      })()`);
      t.equal(lines, 1, `one line at ${width} pixels`);
      t.ok((await overflow(page)) <= 0);
    }
    noComplaints(t, person);
  });

  tap.test('a content that crashed the engine is allowed again, by the keyboard', async (t) => {
    const person = await operator('/admin');
    const { page } = person;
    const allow = page.getByRole('button', { name: `Allow again: ${REFUSED}` });
    await allow.focus();
    await page.keyboard.press('Enter');
    await page.getByText('It is scanned again').waitFor();
    await allow.waitFor({ state: 'detached' });
    t.equal(await page.getByText('Refused contents').count(), 0);
    await page.locator('main:focus').waitFor();
    noComplaints(t, person);
  });

  tap.test('an account is found, given a limit, suspended, restored and deleted', async (t) => {
    const email = await newAccount();
    const tenant = await signInByWire(server.url, email, PASSWORD);
    const asked = { headers: { ...bearer(tenant.accessToken), 'Content-Type': 'application/json' } };
    await ask(`${server.url}/web/users/me`, { ...asked, method: 'PUT', body: JSON.stringify({ name: '<b>Ada</b>' }) });
    await ask(`${server.url}/web/keys`, { ...asked, method: 'POST', body: JSON.stringify({ name: 'the office' }) });
    const person = await operator('/admin/accounts');
    const { page } = person;
    await page.getByRole('searchbox', { name: 'Search by address, name or id' }).fill(email.toUpperCase());
    await page.getByText('1–1 of 1').waitFor();
    // The address has what is looked for, also after a reload and backwards, and leads to no page that there is not.
    await page.goto(`${page.url()}&page=99`);
    await page.getByText('1–1 of 1').waitFor();
    t.equal(page.url(), `${server.url}/admin/accounts?${new URLSearchParams({ q: email.toUpperCase() })}`);
    await page.getByRole('link', { name: 'Audit log' }).click();
    await page.getByRole('heading', { name: 'Audit log', level: 1 }).waitFor();
    await page.goBack();
    await page.getByText('1–1 of 1').waitFor();
    t.equal(await page.getByRole('searchbox').inputValue(), email.toUpperCase());
    await page.getByText('<b>Ada</b>').waitFor();
    await page.getByRole('button', { name: `Open ${email}` }).focus();
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog');
    await dialog.getByText('the office').waitFor();
    await looksWell(t, page, 'the dialog');
    await dialog.getByLabel('Own scans/h').fill('3'.repeat(30));
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByText('Enter a number above 0, or nothing').waitFor();
    t.equal(await page.getByText('Saved: it holds').count(), 0);
    await dialog.getByLabel('Own scans/h').fill('3');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved: it holds from the next request on').waitFor();
    await dialog.locator('button:focus', { hasText: 'Save' }).waitFor();
    t.match(await ask(`${server.url}/web/quota`, asked), { body: { limit: 3 } });
    await dialog.getByRole('button', { name: 'Suspend' }).click();
    await dialog.getByRole('button', { name: 'Restore' }).waitFor();
    t.equal((await ask(`${server.url}/web/quota`, asked)).status, 401);
    t.match(await post(`${server.url}/web/auth/login`, { email, password: PASSWORD }), { status: 403 });
    await dialog.getByRole('button', { name: 'Restore' }).click();
    await dialog.getByRole('button', { name: 'Suspend' }).waitFor();
    const again = await signInByWire(server.url, email, PASSWORD);
    await dialog.getByRole('button', { name: 'Revoke the key the office' }).click();
    await page.getByText('This cannot be undone.').waitFor();
    await page.keyboard.press('Escape');
    await page.getByText('This cannot be undone.').waitFor({ state: 'detached' });
    await dialog.getByRole('button', { name: 'Revoke the key the office' }).click();
    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    await dialog.getByText('No keys.').waitFor();
    t.equal((await ask(`${server.url}/web/quota`, { headers: bearer(again.accessToken) })).status, 200);
    await dialog.getByRole('button', { name: 'End all sessions' }).click();
    await dialog.getByText('Signed in nowhere.').waitFor();
    t.equal((await ask(`${server.url}/web/quota`, { headers: bearer(again.accessToken) })).status, 401);
    await dialog.getByRole('button', { name: 'Delete' }).click();
    const sure = dialog.getByRole('button', { name: 'Delete for good' });
    t.ok(await sure.isDisabled(), 'not before the address is typed');
    await page.locator('[role=dialog]:focus').waitFor();
    await dialog.getByLabel('E-mail address').fill(email);
    await sure.click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByText('No account found').waitFor();
    await page.getByRole('link', { name: 'Audit log' }).click();
    const first = page.locator('.table tbody tr').first();
    await first.getByText('account.delete').waitFor();
    t.match(await first.textContent(), email);
    noComplaints(t, person);
  });

  tap.test('of two operators at one account none undoes what the other has changed', async (t) => {
    const email = await newAccount();
    const person = await operator(`/admin/accounts?${new URLSearchParams({ q: email })}`);
    const { page } = person;
    await page.getByRole('button', { name: `Open ${email}` }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('combobox', { name: 'Role' }).click();
    await page.getByRole('option', { name: 'Operator' }).click();
    const other = await signInByWire(server.url, EMAIL, PASSWORD);
    const headers = { ...bearer(other.accessToken), 'Content-Type': 'application/json' };
    // A session that ends under the dialog leaves it as it is.
    await ask(`${server.url}/web/users/me/sessions?keepCurrent=true`, { method: 'DELETE', headers });
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Your session has ended').waitFor();
    await signIn(page, EMAIL);
    t.equal(await dialog.getByRole('combobox', { name: 'Role' }).inputValue(), 'Operator');
    const { userId: id } = await signInByWire(server.url, email, PASSWORD);
    const account = `${server.url}/web/admin/accounts/${id}`;
    await ask(account, { method: 'PUT', headers, body: JSON.stringify({ plan: 'PRO', ownLimit: 500 }) });
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved: it holds from the next request on').waitFor();
    t.match(await ask(account, { headers }), { body: { plan: 'PRO', ownLimit: 500, role: 'operator' } });
    await until(async () => (await dialog.getByLabel('Own scans/h').inputValue()) === '500');
    noComplaints(t, person, [401]);
    // Who is no operator any more has none of the pages, also of those that are open.
    const made = await browser.person();
    await made.page.goto(`${server.url}/sign-in?next=/admin`);
    await signIn(made.page, email);
    await made.page.getByRole('heading', { name: 'Health', level: 1 }).waitFor();
    await ask(account, { method: 'PUT', headers, body: JSON.stringify({ role: 'user' }) });
    await made.page.getByRole('heading', { name: 'There is no such page', level: 1 }).waitFor();
    noComplaints(t, made, [403]);
  });

  tap.test('an operator opens the own account, and can not end it', async (t) => {
    const person = await operator('/admin/accounts');
    const { page } = person;
    await page.getByRole('searchbox').fill(EMAIL);
    await page.getByRole('button', { name: `Open ${EMAIL}` }).click();
    await page.getByText('This is your own account').waitFor();
    t.equal(await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).count(), 0);
    t.ok(await page.getByRole('dialog').getByRole('combobox', { name: 'Role' }).isDisabled());
    noComplaints(t, person);
  });
}
