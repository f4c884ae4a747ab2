// The history page: sorted and filtered, with the address bar as its memory; the pages of its scans; and the file of what is filtered.
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { eicar } from '../fixtures/samples.js';
import { signIn as apiSignIn, ask, bearer, post } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';
import { HOSTILE_NAMES, noComplaints, PASSWORD, SHOWN_NAMES, type Subtest } from './browser.js';
import { choose, file } from './scan-suite.js';
import type { Setting } from './setting.js';

const EICAR_SHA256 = '275a021bbfb6489e54d471899f7db9d1663fc695ec2fe2a2c4538aabf651fd0f';

const KEY_NAME = '<b>build</b>';
const KEYED = '=1+1.csv';
/** Between two questions of a page for what others change. */
const LIVE_MS = 15_000;

/** Whether the first character of a time that can be seen is to the right of its last one. */
const FIRST_IS_RIGHTMOST = `(() => {
  const { firstChild } = document.querySelector('main td time');
  const { length } = firstChild;
  const seen = Array.from({ length }, (_, at) => {
    const range = document.createRange();
    range.setStart(firstChild, at);
    range.setEnd(firstChild, at + 1);
    return range.getBoundingClientRect();
  }).filter(({ width }) => width > 0);
  return seen[0].left > seen.at(-1).left;
})()`;

export async function historySuite(tap: Subtest, { server, browser, signedIn }: Setting): Promise<void> {
  const person = await signedIn('/scan');
  const { page } = person;
  const { accessToken } = await apiSignIn(server.url, person.email, PASSWORD);
  const made = await post(`${server.url}/web/keys`, { name: KEY_NAME }, bearer(accessToken));
  const { value } = z.object({ value: z.string() }).loose().parse(made.body);
  // The last name by a key, the others by hand.
  const names = HOSTILE_NAMES.slice(0, -1);
  await choose(page, [...names.map((name) => file(name)), file('virus.com', eicar())]);
  await page.getByText('5 of 5 finished').waitFor();
  await upload(server.url, 'by a key', { key: value, filename: KEYED });
  const rows = page.locator('.history-open');
  const shown = () => rows.locator('.name').allInnerTexts();

  tap.test('all scans are listed, with their names as they are', async (t) => {
    await page.getByRole('link', { name: 'History' }).click();
    await page.getByText('6 scans').first().waitFor();
    t.strictSame(new Set(await shown()), new Set([...SHOWN_NAMES, 'virus.com']));
    t.equal(await page.locator('main img').count(), 0);
  });

  tap.test('the address bar holds filters and order, also after a reload and backwards', async (t) => {
    await page.getByRole('button', { name: 'File' }).click();
    await page.waitForURL(/sort=filename/);
    await page.getByRole('combobox', { name: 'Verdict' }).click();
    await page.getByRole('option', { name: 'Infected' }).click();
    await page.waitForURL(/verdict=infected/);
    await page.getByText('1 scan').first().waitFor();
    const address = page.url();
    await page.reload();
    await rows.first().waitFor();
    t.equal(page.url(), address);
    t.strictSame(await shown(), ['virus.com']);
    await page.goBack();
    await page.getByText('6 scans').first().waitFor();
    t.match(page.url(), /sort=filename/);
  });

  tap.test(
    'a part of a name is searched while it is typed, a digest and a scan id where they are pasted',
    async (t) => {
      const field = page.getByLabel('Search', { exact: true });
      await field.pressSequentially('=1+');
      await page.waitForURL(/q=%3D1%2B/);
      await page.getByText('1 scan').first().waitFor();
      t.strictSame(await shown(), ['=1+1.csv']);
      await page.getByRole('button', { name: 'Duration' }).click();
      await page.waitForURL(/sort=/);
      await field.fill('nothing%20');
      await page.getByText('No scan matches these filters').first().waitFor();
      t.equal(await field.inputValue(), 'nothing%20', 'names have such letters where they were addresses');
      await page.goBack();
      await page.getByText('1 scan').first().waitFor();
      t.equal(await field.inputValue(), '=1+');
      await page.getByRole('combobox', { name: 'Search by' }).click();
      await page.getByRole('option', { name: 'SHA-256' }).click();
      await field.fill(EICAR_SHA256.slice(1));
      await page.getByText('A digest has 64 hex digits').waitFor();
      await field.fill(EICAR_SHA256.toUpperCase());
      await page.waitForURL(/sha256=/);
      await page.getByText('1 scan').first().waitFor();
      t.strictSame(await shown(), ['virus.com']);
      await rows.first().click();
      await page.waitForURL(/\/scans\//);
      await page.getByText(EICAR_SHA256).waitFor();
      await page.getByText('68 B', { exact: true }).waitFor();
      const id = new URL(page.url()).pathname.replace('/scans/', '');
      await page.getByRole('link', { name: 'Sluice.Test.EICAR.UNOFFICIAL' }).click();
      await page.waitForURL(/virus=/);
      await page.getByText('virus.com').waitFor();
      t.strictSame(await shown(), ['virus.com']);
      await field.fill(id);
      await page.waitForURL(`**/scans/${id}?virus=*`);
      await page.getByText(EICAR_SHA256).waitFor();
      await page.goto(`${server.url}/scans/00000000-0000-7000-8000-000000000000`);
      await page.getByText('There is no such scan').first().waitFor();
    },
  );

  tap.test('a row says which key it was asked for with, and the key filters', async (t) => {
    await page.goto(`${server.url}/history`);
    await page.getByText('6 scans').first().waitFor();
    t.match(await page.getByRole('row').filter({ hasText: KEYED }).textContent(), /<b>build<\/b>/);
    t.match(await page.getByRole('row').filter({ hasText: 'virus.com' }).textContent(), /Dashboard/);
    await page.getByRole('combobox', { name: 'API key' }).click();
    await page.getByRole('option', { name: KEY_NAME }).click();
    await page.waitForURL(/key=/);
    await page.getByText('1 scan').first().waitFor();
    t.strictSame(await shown(), [KEYED]);
    // Taken away by the keyboard, and back.
    await page.getByRole('combobox', { name: 'API key' }).press('Enter');
    await page.getByRole('option', { name: 'Any' }).waitFor();
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('Enter');
    await page.waitForURL((url) => url.search === '');
    await page.goBack();
    await page.getByText('1 scan').first().waitFor();
    await rows.first().click();
    await page.getByRole('link', { name: KEY_NAME }).waitFor();
    // The way back leads to what was filtered, also after the skip link and a reload.
    await page.locator('.layout-skip').press('Enter');
    await page.reload();
    await page.locator('.back').click();
    await page.waitForURL(/history\?key=/);
    await page.getByText('1 scan').first().waitFor();
    t.strictSame(await shown(), [KEYED]);
    await page.goto(`${server.url}/history?q=%3D1%2B`);
    await page.getByText('1 scan').first().waitFor();
  });

  tap.test('what is filtered can be had as CSV, with no formula in it', async (t) => {
    const downloading = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Export as CSV' }).click();
    const download = await downloading;
    t.equal(download.suggestedFilename(), 'sluice-scans.csv');
    const lines = readFileSync(await download.path(), 'utf8')
      .trimEnd()
      .split('\r\n');
    t.equal(lines.length, 2, 'the head and the one row that is shown');
    t.match(lines[1], /,"'=1\+1\.csv",200,false,/);
  });

  tap.test('a day that is typed is asked for when it is whole, and is one step back', async (t) => {
    await page.clock.install();
    await page.goto(`${server.url}/history`);
    await page.getByText('6 scans').first().waitFor();
    const asked: (string | null)[] = [];
    page.on('request', (request) => {
      const { pathname, searchParams } = new URL(request.url());
      if (pathname === '/web/scans/stats') asked.push(searchParams.get('startDate'));
    });
    await page.getByLabel('From day (UTC)').focus();
    for (const digit of '02022026') {
      await page.keyboard.press(digit);
      // Whoever looks for the next key takes longer than a pause.
      await page.clock.runFor(1_000);
    }
    await page.waitForURL(/from=2026-02-02/);
    await page.getByText('6 scans').first().waitFor();
    t.strictSame([...new Set(asked)], ['2026-02-02']);
    await page.goBack();
    await page.waitForURL((url) => url.search === '');
    await page.waitForFunction(`document.querySelector('input[type=date]').value === ''`);
    await page.goto(`${server.url}/history?from=2026-02-31`);
    await page.getByText('6 scans').first().waitFor();
  });

  tap.test('dates that are written from the right read so, and one scan is one in whichever digits', async (t) => {
    for (const [locale, scan] of [
      ['fa-IR', '۱ scan'],
      ['ar-EG', '١ scan'],
    ] as const) {
      const { page } = await browser.person(await person.context.storageState(), { locale });
      await page.goto(`${server.url}/history?q=virus.com`);
      await page.getByText(scan, { exact: true }).first().waitFor();
      t.ok(await page.evaluate(FIRST_IS_RIGHTMOST), locale);
      await page.context().close();
    }
  });

  tap.test('a page that there is not, and days in the wrong order, are said', async (t) => {
    await page.goto(`${server.url}/history?from=2026-02-02&to=2026-01-01`);
    await page.getByText('The first day is after the last one.').waitFor();
    await page.goto(`${server.url}/history?page=99&sort=nonsense&verdict=nonsense&from=yesterday`);
    await page.getByText('virus.com').waitFor();
    t.ok(await page.getByText('Page 1 of 1').isVisible());
    t.equal(page.url(), `${server.url}/history?`, 'the last page, and what is sense');
    t.match(await page.evaluate('document.activeElement.className'), /history-found/, 'its beginning has the focus');
    t.equal(await page.getByRole('status').filter({ hasText: '6 scans' }).count(), 1, 'who listens hears how many');
    noComplaints(t, person, [404]);
  });

  tap.test('the latest scans come by themselves, and a file that can not be had is said', async (t) => {
    const other = await signedIn('/livez');
    await other.page.clock.install();
    await other.page.goto(server.url);
    await other.page.getByText('First steps').waitFor();
    const { accessToken } = await apiSignIn(server.url, other.email, PASSWORD);
    const body = new FormData();
    body.append('file', new File(['later'], 'later.txt'));
    await ask(`${server.url}/web/scans`, { method: 'POST', headers: bearer(accessToken), body });
    const latest = other.page.locator('.latest-name');
    await until(async () => {
      await other.page.clock.runFor(LIVE_MS);
      return (await latest.count()) === 1;
    });
    t.equal(await latest.textContent(), 'later.txt');
    // A file that can't be had is said.
    await other.page.getByRole('link', { name: 'History' }).click();
    await other.page.getByRole('button', { name: 'Next page' }).waitFor();
    const elsewhere = await apiSignIn(server.url, other.email, PASSWORD);
    await ask(`${server.url}/web/users/me/sessions`, { method: 'DELETE', headers: bearer(elsewhere.accessToken) });
    await other.page.getByRole('button', { name: 'Export as CSV' }).click();
    await other.page.getByText('Your session has ended').waitFor();
    noComplaints(t, other, [401]);
  });
}
