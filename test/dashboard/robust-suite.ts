// What a page does when parts of it can't be loaded, when the server is away, and when a dialog is closed by accident.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Page, Route } from 'playwright-core';
import { until } from '../fixtures/until.js';
import { go, noComplaints, type Subtest } from './browser.js';
import { choose, file } from './scan-suite.js';
import type { Setting } from './setting.js';

const run = promisify(execFile);
const GUIDE = '**/assets/quick-start*.js';

function countLoads(page: Page): () => number {
  let loads = 0;
  page.on('load', () => {
    loads += 1;
  });
  return () => loads;
}

export async function robustSuite(tap: Subtest, { server, signedIn }: Setting): Promise<void> {
  const shared = await signedIn('/keys');
  tap.test('a part that can not be loaded makes one reload, then a page that says so', async (t) => {
    const { page } = shared;
    await page.getByText('No keys yet').waitFor();
    await page.route(GUIDE, (route) => route.abort());
    const loads = countLoads(page);
    await page.getByRole('link', { name: 'Docs' }).click();
    await page.getByText('A part of this page could not be loaded').waitFor();
    t.equal(loads(), 1);
    await page.getByRole('link', { name: 'API keys' }).click();
    await page.getByText('No keys yet').waitFor();
    t.equal(loads(), 1, 'other pages still work');
    await page.getByRole('link', { name: 'Docs' }).click();
    await page.unroute(GUIDE);
    await page.getByRole('button', { name: 'Load again' }).click();
    await page.locator('.guide').waitFor();
    t.equal(loads(), 2);
  });

  tap.test('files that are queued stay queued when a part of another page can not be loaded', async (t) => {
    const { page } = await signedIn('/scan');
    await page.route('**/web/scans', (route) => route.abort());
    await page.route(GUIDE, (route) => route.abort());
    await choose(page, [file('waits.txt')]);
    await page.getByText('The server does not answer.').waitFor();
    const loads = countLoads(page);
    await page.getByRole('link', { name: 'Docs' }).click();
    await page.getByText('A part of this page could not be loaded').waitFor();
    await page.unrouteAll();
    await page.getByRole('link', { name: 'Scan', exact: true }).click();
    await page.getByText('1 of 1 finished').waitFor();
    t.equal(loads(), 0);
  });

  tap.test('what could not be loaded says so until it is, however often it is asked for', async (t) => {
    const person = await signedIn('/livez');
    const { page } = person;
    let asked = 0;
    let answer: Parameters<Route['fulfill']>[0] = {
      status: 503,
      json: { error: 'Service unavailable', message: 'The database is away' },
    };
    await page.clock.install();
    await page.route('**/web/keys/me', async (route) => {
      asked += 1;
      await route.fulfill(answer);
    });
    await page.goto(`${server.url}/keys`);
    const pass = async (): Promise<void> => page.clock.runFor(1_000);
    const says = (text: string) =>
      until(async () => {
        await pass();
        return (await page.getByText(text).count()) > 0;
      });
    await says('The database is away');
    await page.evaluate("document.querySelector('main [role=alert]').id = 'said'");
    const before = asked;
    await until(async () => {
      await pass();
      return asked > before + 1;
    });
    t.equal(await page.locator('#said').count(), 1, 'the same is still there');
    const headers = { 'Retry-After': '7' };
    answer = { status: 429, headers, json: { error: 'Too many requests', message: 'At most 20 a second' } };
    await says('Too many requests. Try again in 7 s.');
    // Longer than a timer of a browser can be: it would be asked for all the time.
    answer = { ...answer, headers: { 'Retry-After': '2600000' } };
    await says('Too many requests. Try again in 24 h.');
    const patient = asked;
    await page.clock.runFor(10_000);
    t.equal(asked, patient);
    answer = { status: 500, body: 'of a proxy' };
    await page.getByRole('button', { name: 'Try again' }).click();
    await says('The server answered with status 500.');
    await page.unroute('**/web/keys/me');
    await page.getByRole('button', { name: 'Try again' }).click();
    await says('No keys yet');
    t.equal(await page.getByRole('alert').count(), 0);
    noComplaints(t, person, [429, 500, 503]);
  });

  tap.test('a page that is on its way has a title of its own', async (t) => {
    const { page } = shared;
    await page.route(/\/web\/(scans|webhooks)\/\w/, () => new Promise<void>(() => undefined));
    for (const [path, title] of [
      ['/scans/0190c5f0-0000-7000-8000-00000000a11c', 'Scan'],
      ['/webhooks/0190c5f0-0000-7000-8000-00000000a11c', 'Webhook'],
    ] as const) {
      await go(page, path);
      await page.getByRole('heading', { name: title, level: 1 }).waitFor();
      t.equal(await page.title(), `${title} · Sluice`);
    }
  });

  tap.test('one line says that the server can not be reached, and goes away by itself', async (t) => {
    const { page } = shared;
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await go(page, '/keys');
    await page.getByText('No keys yet').waitFor();
    await page.route(/\/web\/|\/livez|\/version/, (route) => route.abort());
    await page.getByRole('link', { name: 'Overview' }).click();
    const line = page.getByText('The server can’t be reached.');
    await line.waitFor();
    await until(async () => (await page.getByText('Waiting for the server.').count()) >= 4);
    t.equal(await line.count(), 1);
    t.equal(await page.getByRole('alert').count(), 0, 'no box for each panel');
    await page.unrouteAll();
    await line.waitFor({ state: 'detached' });
    await page.getByText('0 of 6 scans used').waitFor();
    await until(async () => (await page.getByText('Waiting for the server.').count()) === 0);
  });

  tap.test('a server that takes requests and answers none is said, and waited for', async () => {
    const { page } = await signedIn('/livez');
    await page.clock.install();
    await page.goto(`${server.url}/keys`);
    await page.getByText('No keys yet').waitFor();
    const line = page.getByText('The server can’t be reached.');
    /** Seconds go by until it is so. */
    const comes = (isSo: () => Promise<boolean> | boolean) =>
      until(async () => {
        await page.clock.runFor(5_000);
        return await isSo();
      });
    let questions = 0;
    await page.route(/\/web\/|\/livez|\/version/, (route) => {
      if (route.request().url().endsWith('/livez')) questions += 1;
    });
    await page.getByRole('link', { name: 'Overview' }).click();
    await comes(async () => (await line.count()) === 1);
    // The first of them has no answer, ever.
    await comes(() => questions >= 2);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await page.clock.runFor(10_000);
    await line.waitFor({ state: 'detached' });
    await page.getByText('0 of 6 scans used').waitFor();
  });

  tap.test('a new key is not lost by Esc, its line runs as it is pasted, and the focus goes back', async (t) => {
    const { page } = shared;
    await go(page, '/keys');
    const button = page.getByRole('button', { name: 'Create a key' }).first();
    await button.click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('terminal');
    await dialog.getByRole('button', { name: 'Create a key' }).click();
    const value = await dialog.getByLabel('Key', { exact: true }).inputValue();
    await page.keyboard.press('Escape');
    t.equal(await dialog.getByLabel('Key', { exact: true }).inputValue(), value, 'it is still there');
    const line = (await dialog.getByRole('tabpanel').locator('pre').textContent()) ?? '';
    const { stdout } = await run('/bin/bash', ['-c', `set -e; ${line}`]);
    t.match(JSON.parse(stdout), { filename: 'eicar.com', infected: true });
    await dialog.getByRole('button', { name: 'I have copied it' }).click();
    await dialog.waitFor({ state: 'detached' });
    t.equal(await page.evaluate('document.activeElement.textContent'), 'Create a key');
  });

  tap.test('a key can be copied where the browser has no clipboard for scripts, as over plain http', async (t) => {
    const { page } = shared;
    await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })");
    await page.getByRole('button', { name: 'Create a key' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('intranet');
    await dialog.getByRole('button', { name: 'Create a key' }).click();
    const value = await dialog.getByLabel('Key', { exact: true }).inputValue();
    await dialog.getByRole('button', { name: 'Copy' }).first().click();
    await dialog.getByRole('button', { name: 'Copied', exact: true }).waitFor();
    await dialog.getByRole('button', { name: 'I have copied it' }).click();
    await page.getByRole('button', { name: 'Create a key' }).first().click();
    await dialog.getByLabel('Name').press('Control+V');
    t.equal(await dialog.getByLabel('Name').inputValue(), value);
  });
}
