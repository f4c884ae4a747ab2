// The server is away in the middle of what people do: nothing that they have entered is lost, one line says what is the matter, and all goes on by itself.
// `STOPPED_SECONDS=30` has it away for as long as a restart may take.
import { setTimeout as delay } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { startReceiver } from '../fixtures/receiver.js';
import { EMAIL } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';
import { PASSWORD, type Subtest } from './browser.js';
import { choose, file } from './scan-suite.js';
import type { Setting } from './setting.js';

const STOPPED_MS = Number(process.env['STOPPED_SECONDS'] ?? 3) * 1_000;
/** Rows of a page of the history. */
const PAGE_ROWS = 50;

interface Flow {
  readonly name: string;
  readonly page: Page;
  /** Where it begins, with what is entered. */
  readonly begin: () => Promise<unknown>;
  /** What somebody does while the server is away. */
  readonly away: () => Promise<unknown>;
  /** It has come back: what was entered is there, and leads to its end. */
  readonly end: (t: Subtest) => Promise<unknown>;
}

export async function awaySuite(tap: Subtest, setting: Setting): Promise<void> {
  const receiver = await startReceiver();
  tap.teardown(() => receiver.stop());

  tap.test('whatever somebody is at', async (t) => {
    const flows = await flowsOf(setting, receiver.url('/hears'));
    const loads = new Map<string, number>();
    for (const { name, page, begin } of flows) {
      await begin();
      page.on('load', () => loads.set(name, (loads.get(name) ?? 0) + 1));
    }
    await setting.whileStopped(async () => {
      const time = delay(STOPPED_MS);
      await Promise.all(flows.map((flow) => whileAway(t, flow)));
      await time;
    });
    for (const flow of flows) {
      await flow.page.locator(LINE).waitFor({ state: 'detached' });
      await flow.end(t);
      t.ok((loads.get(flow.name) ?? 0) <= 1, `${flow.name}: at most one reload`);
      t.equal(await flow.page.getByText('Waiting for the server.').count(), 0, `${flow.name}: nothing waits any more`);
    }
  });
}

const LINE = '.unreachable';
/** Who knows that the server is away sends nothing; who finds it out may have been heard. */
const NOT_DONE = /^Not done: the server can’t be reached\.|^The server has not answered, so it is not known/;

async function whileAway(t: Subtest, { name, page, away }: Flow): Promise<void> {
  await away();
  await page.locator(LINE).waitFor();
  t.equal(
    await page.locator(LINE).textContent(),
    'The server can’t be reached. This page goes on by itself as soon as it answers.',
    name,
  );
}

async function flowsOf(setting: Setting, webhook: string): Promise<Flow[]> {
  const { server, browser, signedIn, operator, newAccount } = setting;
  for (let row = 0; row <= PAGE_ROWS; row += 1) await upload(server.url, `row ${row}`, { filename: `row-${row}.txt` });
  const tenant = await signedIn('/scan');
  const admin = await operator('/livez');
  const tabs = {
    signIn: (await browser.person()).page,
    register: (await browser.person()).page,
    ...{ scan: tenant.page, url: await tenant.newPage(), key: await tenant.newPage(), account: await tenant.newPage() },
    webhook: await tenant.newPage(),
    ...{ history: await admin.newPage(), guide: await admin.newPage(), operator: admin.page },
  };
  const email = await newAccount();
  const files = Array.from({ length: 3 }, (_, index) => file(`away-${index}.txt`));
  return [
    signInFlow(tabs.signIn, server.url, email),
    registerFlow(tabs.register, server.url),
    {
      name: 'a queue of files',
      page: tabs.scan,
      begin: () => tabs.scan.getByRole('heading', { name: 'Scan', exact: true }).waitFor(),
      away: () => choose(tabs.scan, files),
      end: () => tabs.scan.getByText('3 of 3 finished').waitFor(),
    },
    {
      name: 'the scan of a URL',
      page: tabs.url,
      async begin() {
        await tabs.url.goto(`${server.url}/scan`);
        await tabs.url.getByLabel('Or what is behind a URL').fill(`${server.url}/livez`);
      },
      away: () => tabs.url.getByRole('button', { name: 'Scan the URL' }).click(),
      end: () => tabs.url.getByText('Clean', { exact: true }).waitFor(),
    },
    keyFlow(tabs.key, server.url),
    webhookFlow(tabs.webhook, server.url, webhook),
    accountFlow(tabs.account, server.url),
    {
      name: 'pages of the history',
      page: tabs.history,
      async begin() {
        await tabs.history.goto(`${server.url}/history?q=row-`);
        await tabs.history.getByText('Page 1 of 2').waitFor();
      },
      away: () => tabs.history.getByRole('button', { name: 'Next page' }).click(),
      async end(t) {
        await tabs.history.getByText('Page 2 of 2').waitFor();
        t.match(tabs.history.url(), /q=row-&page=2|page=2&q=row-/);
      },
    },
    {
      name: 'a page whose parts are not there yet',
      page: tabs.guide,
      async begin() {
        await tabs.guide.goto(`${server.url}/keys`);
        await tabs.guide.getByText('First key').waitFor();
      },
      away: () => tabs.guide.getByRole('link', { name: 'Docs' }).click(),
      end: () => tabs.guide.locator('.guide').waitFor(),
    },
    operatorFlow(tabs.operator, server.url),
  ];
}

function signInFlow(page: Page, url: string, email: string): Flow {
  const submit = () => page.getByRole('button', { name: 'Sign in' }).click();
  return {
    ...{ name: 'signing in', page },
    async begin() {
      await page.goto(`${url}/sign-in?next=/keys`);
      await page.getByLabel('E-mail').fill(email);
      await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
    },
    away: () => refused(page, submit),
    async end(t) {
      t.equal(await page.getByText(NOT_DONE).count(), 0);
      t.equal(await page.getByLabel('E-mail').inputValue(), email);
      t.equal(await page.getByLabel('Password', { exact: true }).inputValue(), PASSWORD);
      await submit();
      await page.getByText('No keys yet').waitFor();
    },
  };
}

function registerFlow(page: Page, url: string): Flow {
  const submit = () => page.getByRole('button', { name: 'Create the account' }).click();
  return {
    ...{ name: 'making an account', page },
    async begin() {
      await page.goto(`${url}/register`);
      await page.getByLabel('Name').fill('Ada');
      await page.getByLabel('E-mail').fill('while-away@example.com');
      await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
    },
    away: () => refused(page, submit),
    async end(t) {
      t.equal(await page.getByLabel('Name').inputValue(), 'Ada');
      t.equal(await page.getByLabel('E-mail').inputValue(), 'while-away@example.com');
      await submit();
      await page.getByText('First steps').waitFor();
    },
  };
}

function keyFlow(page: Page, url: string): Flow {
  const dialog = page.getByRole('dialog');
  const submit = () => dialog.getByRole('button', { name: 'Create a key' }).click();
  return {
    ...{ name: 'making a key', page },
    async begin() {
      await page.goto(`${url}/keys`);
      await page.getByRole('button', { name: 'Create a key' }).first().click();
      await dialog.getByLabel('Name').fill('made while away');
      await dialog.getByRole('checkbox', { name: 'Read' }).click();
    },
    away: () => refused(page, submit),
    async end(t) {
      t.equal(await dialog.getByLabel('Name').inputValue(), 'made while away');
      t.notOk(await dialog.getByRole('checkbox', { name: 'Read' }).isChecked());
      await submit();
      t.match(await dialog.getByLabel('Key', { exact: true }).inputValue(), /^[0-9a-f]{32}$/);
    },
  };
}

function webhookFlow(page: Page, url: string, address: string): Flow {
  const dialog = page.getByRole('dialog');
  const submit = () => dialog.getByRole('button', { name: 'Create a webhook' }).click();
  return {
    ...{ name: 'making a webhook', page },
    async begin() {
      await page.goto(`${url}/webhooks`);
      await page.getByRole('button', { name: 'Create a webhook' }).first().click();
      await dialog.getByLabel('Address').fill(address);
    },
    away: () => refused(page, submit),
    async end(t) {
      t.equal(await dialog.getByLabel('Address').inputValue(), address);
      await submit();
      t.match(await dialog.getByLabel('Secret', { exact: true }).inputValue(), /^whsec_/);
    },
  };
}

function accountFlow(page: Page, url: string): Flow {
  const submit = () => page.getByRole('button', { name: 'Save the e-mail address' }).click();
  const field = page.getByLabel('New e-mail address');
  return {
    ...{ name: 'a change of the account', page },
    async begin() {
      await page.goto(`${url}/account`);
      await field.fill('moved-while-away@example.com');
      await page.getByLabel('Current password').first().fill(PASSWORD);
    },
    away: () => refused(page, submit),
    async end(t) {
      t.equal(await field.inputValue(), 'moved-while-away@example.com');
      await submit();
      await page.getByText('moved-while-away@example.com', { exact: true }).waitFor();
    },
  };
}

function operatorFlow(page: Page, url: string): Flow {
  const dialog = page.getByRole('dialog');
  return {
    ...{ name: "an operator's page", page },
    async begin() {
      await page.goto(`${url}/admin/accounts`);
      await page.getByRole('searchbox').fill(EMAIL);
      await page.getByRole('button', { name: `Open ${EMAIL}` }).click();
      await dialog.getByLabel('Own scans/h').fill('777');
    },
    async away() {
      await dialog.getByRole('button', { name: 'Save' }).click();
      await page.getByText(/^The server (?:does not answer|has not answered)/).waitFor();
    },
    async end(t) {
      t.equal(await dialog.getByLabel('Own scans/h').inputValue(), '777');
      t.equal(await page.getByRole('searchbox').inputValue(), EMAIL);
      await dialog.getByRole('button', { name: 'Save' }).click();
      await until(async () => (await page.locator('tr', { hasText: EMAIL }).getByText('777').count()) === 1);
    },
  };
}

/** What was sent has reached nobody, and the form says so. */
async function refused(page: Page, submit: () => Promise<void>): Promise<void> {
  await submit();
  await page.getByText(NOT_DONE).waitFor();
}
