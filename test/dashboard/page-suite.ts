// Every page, in both schemes, from phone to wide screen: nothing serious for axe, nothing wider than the window, no complaint.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { guides } from '../../src/service/endpoints.js';
import { eicar } from '../fixtures/samples.js';
import { until } from '../fixtures/until.js';
import { go, looksWell, noComplaints, type Subtest, seriousFindings } from './browser.js';
import { choose, file } from './scan-suite.js';
import type { Setting } from './setting.js';

const SLOW_MS = 400;
const HOUR_MS = 3_600_000;
/** Of a page behind the sign-in. */
const SCRIPTS = 2;
/** Of the overview. */
const HOURS = 24;
export const OPEN_PAGES = [
  '/',
  '/sign-in?reason=ended',
  '/register',
  '/reset',
  '/docs/reference',
  ...guides.map((guide) => `/docs/${guide}`),
];
const closed = ['/', '/scan', '/history', '/keys', '/webhooks', '/billing', '/account'];

/** What comes behind the frame of the page is there as well. */
async function whole(page: Page): Promise<void> {
  await page.locator('h1').first().waitFor();
  await page.locator('[role=status][aria-label=Loading]').first().waitFor({ state: 'detached' });
}

export async function pageSuite(tap: Subtest, { server, browser, signedIn }: Setting): Promise<void> {
  tap.afterEach(() => browser.closePersons());
  async function look(t: Subtest, page: Page, path: string): Promise<void> {
    await go(page, path);
    await whole(page);
    await looksWell(t, page, path);
  }

  tap.test('for who is not signed in', async (t) => {
    const person = await browser.person();
    await person.page.goto(server.url);
    for (const path of OPEN_PAGES) await look(t, person.page, path);
    noComplaints(t, person);
  });

  tap.test('for who is signed in', async (t) => {
    const person = await signedIn('/scan');
    const { page } = person;
    await choose(page, [file('clean.txt'), file('virus.com', eicar())]);
    await page.getByText('2 of 2 finished').waitFor();
    for (const path of closed) await look(t, page, path);
    // Where the browser forces its colours the legend still says which is which, and a switch what is chosen.
    await go(page, '/');
    await page.emulateMedia({ forcedColors: 'active' });
    const styleOf = (element: string, name: string) =>
      page.evaluate(`getComputedStyle(document.querySelector('main ${element}'))['${name}']`);
    await page.locator('.legend-dot').first().waitFor();
    const today = page.locator('.bars').first().locator('g').last();
    await today.hover();
    for (const count of ['Clean: 1', 'Infected: 1']) await page.getByText(count, { exact: true }).waitFor();
    t.equal(await today.locator('[fill]').count(), 2, 'bars are drawn of what there is');
    const panel = await styleOf('.panel', 'backgroundColor');
    t.not(await styleOf('.legend-dot', 'backgroundColor'), panel);
    t.not(await styleOf('.mantine-Progress-section', 'backgroundColor'), panel);
    t.equal(await styleOf('.mantine-SegmentedControl-label[data-active]', 'outlineStyle'), 'solid');
    await page.emulateMedia({ forcedColors: 'none' });
    await go(page, '/history');
    await page.locator('.history-open').first().click();
    await page.getByText('SHA-256').waitFor();
    await look(t, page, new URL(page.url()).pathname);
    await go(page, '/keys');
    await page.getByRole('button', { name: 'Create a key' }).click();
    await page.getByRole('dialog').getByLabel('Name').fill('a key');
    t.strictSame(await seriousFindings(page), [], 'a dialog');
    await page.emulateMedia({ forcedColors: 'active' });
    const check = `getComputedStyle(document.querySelector('[role=dialog] .mantine-Checkbox-icon')).color`;
    t.equal(await page.evaluate(check), await page.evaluate('getComputedStyle(document.body).color'));
    noComplaints(t, person);
  });

  tap.test('the documentation opens on the quick start, with languages, copies and a search', async (t) => {
    const person = await browser.person();
    const { page } = person;
    await page.goto(`${server.url}/docs`);
    await page.getByRole('heading', { name: 'Quick start' }).first().waitFor();
    const shown = page.locator('.guide-panel:visible pre');
    await page.getByText('Python', { exact: true }).click();
    await page.getByText('import requests').waitFor();
    t.equal(await shown.count(), 1, 'one language at a time');
    await page.locator('.guide-panel:visible').getByRole('button', { name: 'Copy' }).click();
    await page.locator('.guide-panel:visible').getByText('Copied').waitFor();
    await page.getByLabel('Search the documentation').fill('Retry-After');
    await page.getByRole('heading', { name: 'Search', level: 1 }).waitFor();
    await page.getByRole('link', { name: 'Quick start · 2. Send a file' }).waitFor();
    t.notMatch(await page.locator('.docs-found').textContent(), /hljs|&\w+;|---/, 'what is read, not its marks');
    await page.getByLabel('Search the documentation').fill('EICAR');
    await page.getByRole('link', { name: 'Quick start · 3. Read the verdict' }).click();
    await page.waitForURL(/quick-start#3-read-the-verdict/);
    noComplaints(t, person);
  });

  tap.test(
    'a page behind the sign-in is two scripts, the overview with its charts as well, and nothing is asked for twice',
    async (t) => {
      const { page } = await signedIn('/livez');
      // Slow answers to what the page of a new account shows as well as that of a used one.
      for (const slow of ['**/web/quota', '**/version']) {
        await page.route(slow, async (route) => {
          await sleep(SLOW_MS);
          await route.continue();
        });
      }
      for (const path of ['/keys', '/']) {
        const asked: string[] = [];
        const placeOf = (url: string): string => url.replace(/\?.*/, '');
        page.on('request', (request) => asked.push(placeOf(request.url())));
        // What a busy service has put off is asked for again.
        page.on('response', (answer) => {
          const at = asked.indexOf(placeOf(answer.url()));
          if (answer.status() === 503 && at !== -1) asked.splice(at, 1);
        });
        await page.goto(`${server.url}${path}`);
        const asksFor = () => asked.filter((url) => url.endsWith('.js')).length;
        // A busy machine takes longer over one script than what counts as an idle network.
        await until(() => asksFor() >= SCRIPTS);
        await whole(page);
        await page.waitForLoadState('networkidle');
        for (const event of ['request', 'response'] as const) page.removeAllListeners(event);
        t.equal(asksFor(), SCRIPTS, path);
        t.strictSame(asked, [...new Set(asked)], path);
      }
    },
  );

  tap.test('by the keyboard alone, on a phone', async (t) => {
    const person = await signedIn('/livez');
    const { page } = person;
    await page.setViewportSize({ width: 380, height: 700 });
    await page.goto(`${server.url}/keys`);
    await page.getByText('No keys yet').waitFor();
    await page.keyboard.press('Tab');
    t.equal(await page.evaluate('document.activeElement.textContent'), 'Skip to the content');
    await page.getByRole('button', { name: 'Open the menu' }).focus();
    await page.keyboard.press('Enter');
    // On its side it is lower than the menu.
    await page.setViewportSize({ width: 700, height: 240 });
    await page.getByRole('button', { name: 'Your account' }).focus();
    const shown = '[scrollY, document.activeElement.getBoundingClientRect().bottom <= innerHeight]';
    t.strictSame(await page.evaluate(shown), [0, true], 'the end of the menu is reached where the page is');
    await page.getByRole('link', { name: 'History' }).focus();
    await page.keyboard.press('Enter');
    await page.waitForURL(/history/);
    t.equal(await page.evaluate('document.activeElement.id'), 'content', 'the new page has the focus');
    t.notOk(await page.getByRole('link', { name: 'API keys' }).isVisible(), 'the menu has closed');
    noComplaints(t, person);
  });

  tap.test('colours are chosen, and stay chosen', async (t) => {
    const person = await browser.person();
    const { page } = person;
    await page.emulateMedia({ colorScheme: 'light' });
    await page.goto(server.url);
    await page.getByTitle('Dark').click();
    await page.locator('html[data-mantine-color-scheme=dark]').waitFor();
    await page.reload();
    await page.locator('html[data-mantine-color-scheme=dark]').waitFor();
    t.match(await page.evaluate('getComputedStyle(document.body).backgroundColor'), /rgb\(20, 23, 26\)/);
    noComplaints(t, person);
  });

  tap.test('a page is printed in dark letters on white, without what is clicked on', async (t) => {
    const person = await signedIn('/history');
    const { page } = person;
    await page.getByText('No scans yet').first().waitFor();
    t.equal(
      await page.getByRole('status').filter({ hasText: 'No scans yet' }).count(),
      1,
      'who listens hears the same',
    );
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
    await page.locator('html[data-mantine-color-scheme=dark]').waitFor();
    const colours = '(({ backgroundColor, color }) => [backgroundColor, color])(getComputedStyle(document.body))';
    t.strictSame(await page.evaluate(colours), ['rgb(255, 255, 255)', 'rgb(0, 0, 0)']);
    t.ok(await page.getByRole('heading', { name: 'History' }).isVisible());
    for (const clicked of ['.layout-header', '.history-filters', '.page-head button']) {
      t.notOk(await page.locator(clicked).isVisible(), clicked);
    }
  });

  tap.test('times are those of the viewer, with UTC beside them', async (t) => {
    const person = await signedIn('/account');
    const { page } = person;
    const time = page.locator('.sessions time').first();
    await time.waitFor();
    t.match(await time.getAttribute('title'), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/);
    t.match(await time.getAttribute('datetime'), /Z$/);
    // An hour that is there twice, where clocks go back.
    const first = Date.UTC(2026, 9, 24, 12);
    const hours = Array.from({ length: HOURS }, (_, at) => ({
      hour: new Date(first + at * HOUR_MS).toISOString().slice(0, 19),
      used: at,
      refused: 0,
    }));
    await page.route('**/web/quota/hours', (route) => route.fulfill({ json: hours }));
    const zone = await person.context.newCDPSession(page);
    await zone.send('Emulation.setTimezoneOverride', { timezoneId: 'Europe/Berlin' });
    await page.reload();
    await go(page, '/scan');
    await choose(page, [file('clean.txt')]);
    await page.getByText('1 of 1 finished').waitFor();
    await go(page, '/');
    const rows = page.getByRole('table', { name: 'Last 24 hours' }).getByRole('rowheader');
    await rows.first().waitFor();
    const names = await rows.allTextContents();
    t.equal(new Set(names).size, HOURS);
    t.strictSame(names.slice(11, 15), ['01:00', '02:00 CEST', '02:00 CET', '03:00']);
    // Days are the service's, whatever the browser has for a clock.
    const today = () => new Date().toISOString().slice(0, 10);
    const known = [today()];
    await page.clock.setFixedTime(Date.now() - 2 * HOURS * HOUR_MS);
    await page.reload();
    await page.getByRole('combobox', { name: 'Days' }).click();
    const asked = page.waitForRequest(/\/stats\/donuts/);
    await page.getByRole('option', { name: 'Last 90 days' }).click();
    const { searchParams } = new URL((await asked).url());
    known.push(today());
    t.ok(known.includes(searchParams.get('endDate') ?? ''), `${searchParams}`);
    noComplaints(t, person);
  });
}
