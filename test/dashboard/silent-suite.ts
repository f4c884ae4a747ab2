// A server that takes a change and never answers. The page says what is known of it, and sends nothing twice.
import type { APIResponse, Page, Route } from 'playwright-core';
import { until } from '../fixtures/until.js';
import { noComplaints, type Subtest } from './browser.js';
import { choose, file } from './scan-suite.js';
import type { Setting } from './setting.js';

const UNKNOWN = 'The server has not answered, so it is not known whether this was done.';
const KEYS = '**/web/keys';
const REFRESH = '**/web/auth/refresh';

/** How often the page, or one of the pages of a person, asks for that. */
function count(page: Pick<Page, 'on'>, method: string, path: string): () => number {
  let requests = 0;
  page.on('request', (request) => {
    if (request.method() === method && new URL(request.url()).pathname === path) requests += 1;
  });
  return () => requests;
}

/** Seconds go by in the page until it is so. */
export async function comes(page: Page, isSo: () => Promise<boolean> | boolean): Promise<void> {
  await until(async () => {
    await page.clock.runFor(5_000);
    return await isSo();
  });
}

const expire = (page: Page): Promise<unknown> => page.evaluate("localStorage.setItem('sluice.signedInUntil', '1')");

export async function silentSuite(tap: Subtest, { server, browser, signedIn }: Setting): Promise<void> {
  tap.afterEach(() => browser.closePersons());
  tap.test('a change without an answer may have been made: that is said and stays, and it was sent once', async (t) => {
    const { page } = await signedIn('/livez');
    await page.clock.install();
    await page.goto(`${server.url}/keys`);
    await page.getByText('No keys yet').waitFor();
    const sent = count(page, 'POST', '/web/keys');
    // It is done, and nobody hears of it.
    await page.route(KEYS, async (route) => void (await route.fetch()));
    await page.getByRole('button', { name: 'Create a key' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('nobody knows');
    await dialog.getByRole('button', { name: 'Create a key' }).click();
    await comes(page, async () => (await dialog.getByText(UNKNOWN).count()) === 1);
    await comes(page, async () => (await page.locator('.unreachable').count()) === 0);
    t.equal(await dialog.getByText(UNKNOWN).count(), 1, 'also when the server answers again');
    t.equal(await dialog.getByLabel('Name').inputValue(), 'nobody knows');
    t.equal(sent(), 1);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Change nobody knows' }).waitFor();
    // The same where there is no form: a notice, which doesn't go by itself.
    const notice = page.getByRole('alert').getByText(UNKNOWN);
    await page.unroute(KEYS);
    await page.route('**/web/keys/*', () => undefined);
    await page.getByRole('button', { name: 'Revoke nobody knows' }).click();
    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    await comes(page, async () => (await notice.count()) === 1);
    await page.clock.runFor(60_000);
    t.equal(await notice.count(), 1);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
  });

  tap.test('what is to be changed while the server is known to be away is not sent', async (t) => {
    const { page } = await signedIn('/keys');
    await page.getByText('No keys yet').waitFor();
    const sent = count(page, 'POST', '/web/keys');
    await page.route(/\/web\/|\/livez|\/version/, (route) => route.abort());
    await page.getByRole('button', { name: 'Create a key' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('once');
    await dialog.getByRole('button', { name: 'Create a key' }).click();
    await dialog.getByText(UNKNOWN).waitFor();
    t.equal(sent(), 1, 'it was not known');
    await page.locator('.unreachable').waitFor();
    await dialog.getByRole('button', { name: 'Create a key' }).click();
    await dialog.getByText('Not done: the server can’t be reached.').waitFor();
    t.equal(sent(), 1, 'it was known');
    await page.unrouteAll();
    await dialog.getByText('Not done:').waitFor({ state: 'detached' });
    await dialog.getByRole('button', { name: 'Create a key' }).click();
    await dialog.getByLabel('Key', { exact: true }).waitFor();
    t.equal(sent(), 2);
  });

  tap.test('a renewal of the session without an answer is waited for no longer, and sent once', async (t) => {
    const { page } = await signedIn('/livez');
    await page.clock.install();
    await page.goto(`${server.url}/keys`);
    await page.getByText('No keys yet').waitFor();
    const refreshes = count(page, 'POST', '/web/auth/refresh');
    let answer = (): void => undefined;
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    await page.route(REFRESH, async (route) => {
      const response = await route.fetch();
      await answered;
      await route.fulfill({ response });
    });
    await expire(page);
    await page.getByRole('link', { name: 'History' }).click();
    await comes(page, async () => (await page.locator('.unreachable').count()) === 1);
    t.equal(refreshes(), 1, 'a token that was used may not be sent again');
    answer();
    await comes(page, async () => (await page.getByText('No scans yet').count()) > 0);
    t.equal(refreshes(), 1);
    // One that never comes is given up as well.
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await page.route(REFRESH, () => undefined);
    await expire(page);
    await page.getByRole('link', { name: 'Webhooks' }).click();
    await comes(page, () => refreshes() === 3);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
  });

  tap.test(
    'a renewal of the session whose answer is lost is sent again, also after a reload, and nobody is signed out',
    async (t) => {
      const person = await signedIn('/keys');
      const { page, context } = person;
      await page.getByText('No keys yet').waitFor();
      const keys: (string | undefined)[] = [];
      await page.route(REFRESH, async (route) => {
        keys.push(route.request().headers()['idempotency-key']);
        if (keys.length > 2) return await route.continue();
        const cookies = await context.cookies();
        const response = await route.fetch();
        t.equal(response.status(), 200, 'the token is used');
        // What it has set got lost with it.
        await context.clearCookies();
        await context.addCookies(cookies);
        await route.abort();
      });
      await expire(page);
      await page.getByRole('link', { name: 'History' }).click();
      await until(() => keys.length === 1);
      await page.locator('.unreachable').waitFor();
      await page.reload();
      await until(() => keys.length > 2);
      await page.getByText('No scans yet').first().waitFor();
      t.equal(new Set(keys).size, 1);
      t.match(keys[0], /^[0-9a-f]{32}$/);
      await expire(page);
      await page.reload();
      await page.getByText('No scans yet').first().waitFor();
      t.equal(new Set(keys).size, 2, 'another renewal has another one');
      const others = person.complaints().filter((text) => !text.includes('net::ERR_'));
      t.strictSame(others, []);
    },
  );

  tap.test('what nobody wants any more when the session is renewed is not sent', async (t) => {
    const person = await signedIn('/scan');
    const { page } = person;
    await page.getByText('0 of 6 scans used').waitFor();
    const scans = count(page, 'POST', '/web/scans');
    const rows = count(page, 'GET', '/web/scans/stats');
    let answer = (): void => undefined;
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    await page.route(REFRESH, async (route) => {
      await answered;
      await route.continue();
    });
    const renewed = page.waitForResponse(REFRESH);
    await expire(page);
    await choose(page, [file('cancelled.txt'), file('wanted.txt')]);
    await page.getByRole('button', { name: 'Cancel: cancelled.txt' }).click();
    await page.getByRole('link', { name: 'History' }).click();
    await page.getByRole('heading', { name: 'History' }).waitFor();
    await page.getByRole('link', { name: 'Scan', exact: true }).click();
    answer();
    await renewed;
    await page.getByText('2 of 2 finished').waitFor();
    await page.getByText('1 of 6 scans used').waitFor();
    t.equal(scans(), 1, 'the one that was not cancelled');
    t.equal(rows(), 0, 'the page that was left');
    noComplaints(t, person);
  });

  tap.test(
    'two tabs without locks, as over plain http, renew the session at once, and none is signed out',
    async (t) => {
      const person = await signedIn('/keys');
      const { page, context, newPage } = person;
      // As the page remembers a session.
      await expire(page);
      await page.reload();
      await page.getByText('No keys yet').waitFor();
      await context.addInitScript('delete Object.getPrototypeOf(navigator).locks');
      // A key that one of them makes now comes too late for the other.
      await context.addInitScript(`const { setItem } = Storage.prototype;
        Storage.prototype.setItem = function (name, value) {
          if (name !== 'sluice.renewalKey') setItem.call(this, name, value);
        };`);
      const other = await newPage();
      const tabs = [page, other];
      const renewals: Route[] = [];
      await context.route(REFRESH, async (route) => {
        if (renewals.push(route) !== 2) return;
        // Both were sent with the same token, and the service has answered one before it hears of the other.
        const cookies = await context.cookies(route.request().url());
        const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join('; ');
        const answers: [Route, APIResponse][] = [];
        for (const each of renewals) {
          answers.push([each, await each.fetch({ headers: { ...each.request().headers(), cookie } })]);
        }
        for (const [each, response] of answers) await each.fulfill({ response });
      });
      const visited: string[] = [];
      for (const tab of tabs) tab.on('framenavigated', (frame) => visited.push(new URL(frame.url()).pathname));
      await expire(page);
      await Promise.all([page.reload(), other.goto(`${server.url}/keys`)]);
      t.equal(await page.evaluate("'locks' in navigator"), false);
      await Promise.all(tabs.map((tab) => tab.getByText('No keys yet').waitFor()));
      t.equal(renewals.length, 2, 'one for each tab');
      t.strictSame([...new Set(visited)], ['/keys'], 'nobody was led to the sign-in');
      noComplaints(t, person);
    },
  );
}
