// Pictures of every page for somebody to look at, at two widths and in both schemes: `node dist/test/dashboard/screens.js FOLDER`.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { nestedZip } from '../fixtures/archives.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startReceiver } from '../fixtures/receiver.js';
import { eicar } from '../fixtures/samples.js';
import { HOSTILE_NAMES, type Person } from './browser.js';
import { fillOffice } from './office.js';
import { ADMIN_PAGES } from './operator-suite.js';
import { OPEN_PAGES } from './page-suite.js';
import { choose, file } from './scan-suite.js';
import { FREE_LIMIT, type Setting, startSetting } from './setting.js';

const WIDTHS = [390, 1440];
const TOO_DEEP = 30;
const closed = ['/', '/history', '/keys', '/webhooks', '/billing', '/account'];

const [, , folder = 'screens'] = process.argv;
mkdirSync(folder, { recursive: true });

/** In all widths and schemes as the page is now; `name` begins the name of the files. */
async function shoot(page: Page, name: string): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.locator(`html[data-mantine-color-scheme=${colorScheme}]`).waitFor();
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      await page.screenshot({
        path: join(folder, `${name}-${width}-${colorScheme}.png`),
        animations: 'disabled',
        fullPage: true,
      });
    }
  }
}

async function visit(page: Page, url: string): Promise<void> {
  await page.goto(url);
  await page.locator('h1').first().waitFor();
  await page.waitForLoadState('networkidle');
}

const nameOf = (path: string): string => path.replace(/\?.*/, '').replaceAll('/', '_').replace(/^_$/, '_first');

async function shootAll(setting: Setting): Promise<void> {
  const { server, browser, signedIn } = setting;
  const stranger = await browser.person();
  for (const path of OPEN_PAGES) {
    await visit(stranger.page, `${server.url}${path}`);
    await shoot(stranger.page, `open${nameOf(path)}`);
  }
  const newcomer = await signedIn('/');
  for (const path of ['/', '/scan', '/history', '/keys', '/webhooks']) {
    await visit(newcomer.page, `${server.url}${path}`);
    await shoot(newcomer.page, `empty${nameOf(path)}`);
  }
  const person = await signedIn('/webhooks');
  await makeWebhooks(person, [receiver.url('/hears'), receiver.url('/refuses')]);
  await visit(person.page, `${server.url}/scan`);
  await fill(person);
  for (const path of closed) {
    await visit(person.page, `${server.url}${path}`);
    await shoot(person.page, `full${nameOf(path)}`);
  }
  const admin = await setting.operator('/livez');
  await visit(admin.page, `${server.url}/scan`);
  await choose(admin.page, [file('virus.com', eicar()), file('deep.zip', nestedZip(Buffer.from('deep'), TOO_DEEP))]);
  await admin.page.getByText('2 of 2 finished').waitFor();
  for (const path of [...closed, ...ADMIN_PAGES]) {
    await visit(admin.page, `${server.url}${path}`);
    await shoot(admin.page, `office${nameOf(path)}`);
  }
  await visit(person.page, `${server.url}/history`);
  await person.page.locator('.history-open').first().click();
  await person.page.getByText('SHA-256').waitFor();
  await shoot(person.page, 'full_scan-detail');
  await visit(person.page, `${server.url}/keys`);
  await person.page.getByRole('button', { name: 'Change server in the office' }).click();
  await person.page.getByText('Nothing scanned yet.').waitFor();
  await shoot(person.page, 'full_keys-change');
  await visit(person.page, `${server.url}/webhooks`);
  await person.page.getByRole('link', { name: /refuses/ }).click();
  await person.page.getByText('No message has been delivered since').waitFor();
  await shoot(person.page, 'full_webhook');
}

/** Two of them: one that answers, one that does not. */
async function makeWebhooks({ page }: Person, urls: readonly string[]): Promise<void> {
  for (const url of urls) {
    await page.getByRole('button', { name: 'Create a webhook' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Address').fill(url);
    await shoot(page, 'full_webhooks-new');
    await dialog.getByRole('button', { name: 'Create a webhook' }).click();
    await dialog.getByRole('button', { name: 'I have copied it' }).click();
  }
}

/** Scans of every outcome, until the quota ends, and keys. */
async function fill({ page }: Person): Promise<void> {
  await choose(page, [
    file('virus.com', eicar()),
    file('deep.zip', nestedZip(Buffer.from('deep'), TOO_DEEP)),
    file('empty.txt', ''),
    ...HOSTILE_NAMES.map((name) => file(name)),
  ]);
  await page.getByText(`${FREE_LIMIT + 1} of 8 finished`).waitFor();
  await page.getByText(`${FREE_LIMIT} of ${FREE_LIMIT} scans used`).waitFor();
  await shoot(page, 'full_scan');
  await page.getByRole('link', { name: 'API keys' }).click();
  for (const name of [HOSTILE_NAMES[0] ?? '', 'server in the office']) {
    await page.getByRole('button', { name: 'Create a key' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill(name);
    await dialog.getByRole('button', { name: 'Create a key' }).click();
    await dialog.getByLabel('Key', { exact: true }).waitFor();
    await shoot(page, 'full_keys-new');
    await dialog.getByRole('button', { name: 'I have copied it' }).click();
  }
}

const receiver = await startReceiver();
receiver.answer = ({ path }) => (path === '/hears' ? 204 : 503);
const postgres = await startPostgres();
const databaseUrl = await postgres.database();
const setting = await startSetting({ DATABASE_URL: databaseUrl });
try {
  await fillOffice(setting.server.url, databaseUrl);
  await shootAll(setting);
} finally {
  await setting.stop();
  await receiver.stop();
  await postgres.stop();
}
