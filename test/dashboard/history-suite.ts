// The history page: sorted, filtered and opened, with the address bar as its memory; and the file of what is filtered.
import { readFileSync } from 'node:fs';
import { eicar } from '../fixtures/samples.js';
import { HOSTILE_NAMES, noComplaints, overflow, SHOWN_NAMES } from './browser.js';
import { choose, file } from './scan-suite.js';
import type { Setting, Subtest } from './setting.js';

export async function historySuite(tap: Subtest, { server, signedIn }: Setting): Promise<void> {
  const person = await signedIn('/scan');
  const { page } = person;
  await choose(page, [...HOSTILE_NAMES.map((name) => file(name)), file('virus.com', eicar())]);
  await page.getByText('6 of 6 finished').waitFor();
  const rows = page.locator('.history-open');
  const names = () => rows.locator('.name').allInnerTexts();

  tap.test('all scans are listed, with their names as they are', async (t) => {
    await page.getByRole('link', { name: 'History' }).click();
    await page.getByText('6 scans').waitFor();
    t.strictSame(new Set(await names()), new Set([...SHOWN_NAMES, 'virus.com']));
    t.equal(await page.locator('main img').count(), 0);
  });

  tap.test('names are shown as they are in a row that is open, and among the latest scans', async (t) => {
    for (const name of SHOWN_NAMES) {
      await rows.filter({ hasText: name }).click();
      await page.locator('.history-detail').waitFor();
      t.equal(await rows.and(page.locator('[aria-expanded=true]')).locator('.name').textContent(), name);
      await rows.filter({ hasText: name }).click();
      await page.locator('.history-detail').waitFor({ state: 'detached' });
    }
    await page.getByRole('link', { name: 'Overview' }).click();
    await page.locator('.latest-name').first().waitFor();
    t.strictSame(new Set(await page.locator('.latest-name').allInnerTexts()), new Set([...SHOWN_NAMES, 'virus.com']));
    t.ok((await overflow(page)) <= 0);
    t.equal(await page.locator('main img').count(), 0);
    await page.getByRole('link', { name: 'History' }).click();
  });

  tap.test('the address bar holds filters, order and the open row, also after a reload and backwards', async (t) => {
    await page.getByRole('button', { name: 'File' }).click();
    await page.waitForURL(/sort=filename/);
    await page
      .getByRole('textbox', { name: 'Verdict' })
      .or(page.getByRole('combobox', { name: 'Verdict' }))
      .first()
      .click();
    await page.getByRole('option', { name: 'Infected' }).click();
    await page.waitForURL(/verdict=infected/);
    await page.getByText('1 scans').or(page.getByText('1 scan')).first().waitFor();
    await rows.first().click();
    await page.getByText('SHA-256').waitFor();
    await page.getByText('275a021bbfb6489e54d471899f7db9d1663fc695ec2fe2a2c4538aabf651fd0f').waitFor();
    await page.getByText('68 B (68 B)').waitFor();
    const address = page.url();
    await page.reload();
    await page.getByText('SHA-256').waitFor();
    t.equal(page.url(), address);
    t.strictSame(await names(), ['virus.com']);
    await page.goBack();
    await page.getByText('6 scans').waitFor();
    t.match(page.url(), /sort=filename/);
  });

  tap.test('a name is searched while it is typed', async (t) => {
    await page.getByLabel('Filename contains').pressSequentially('=1+');
    await page.waitForURL(/q=%3D1%2B/);
    await page.getByText('1 scan').first().waitFor();
    t.strictSame(await names(), ['=1+1.csv']);
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

  tap.test('a page that there is not, and days in the wrong order, are said', async (t) => {
    await page.goto(`${server.url}/history?from=2026-02-02&to=2026-01-01`);
    await page.getByText('The first day is after the last one.').waitFor();
    await page.goto(`${server.url}/history?page=99&sort=nonsense&verdict=nonsense&from=yesterday`);
    await page.getByText('6 scans').waitFor();
    await page.getByRole('button', { name: 'Previous page' }).click();
    await page.getByText('virus.com').waitFor();
    t.match(page.url(), /history/);
    noComplaints(t, person);
  });
}
