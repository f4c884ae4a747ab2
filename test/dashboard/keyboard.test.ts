// Each flow of the dashboard from beginning to end with the keyboard alone, in a window whose size and scheme change from flow to flow (LOOKS=all: each flow in all four pairs): those of tenants, then those of operators.
import { TOTP } from 'otpauth';
import t from 'tap';
import { startMailServer } from '../fixtures/mail-server.js';
import { EMAIL } from '../fixtures/sign-in.js';
import { startMirror } from '../fixtures/signature-mirror.js';
import { until } from '../fixtures/until.js';
import { bodySignature } from '../native/engine.js';
import { noComplaints, PASSWORD, type Subtest } from './browser.js';
import { type Hands, handsIn, WALKS } from './hands.js';
import { file } from './scan-suite.js';
import { startSetting } from './setting.js';

const smtp = await startMailServer();
const mirror = await startMirror(t, { 'own.ndb': bodySignature('Test.New', 'a new mark') });
const setting = await startSetting({
  SMTP_URL: smtp.url,
  SMTP_FROM: 'scans@example.com',
  SIGNATURES_MIRROR: 'none',
  SIGNATURES_URLS: `${mirror}/own.ndb`,
});
const { server, stripe, browser } = setting;
t.teardown(async () => {
  await setting.stop();
  await smtp.stop();
});

const NEW_PASSWORD = 'another password for tests';

interface Walker {
  readonly hands: Hands;
  readonly email: string;
  readonly fits: (what: string) => Promise<void>;
}

t.test('tenants, from an account that is made to its deletion', async (t) => {
  for (const [walk, looks] of WALKS.entries()) {
    const hands = await handsIn(browser, looks);
    const fits = async (what: string): Promise<void> => void t.ok(await hands.fits(), `${what} fits`);
    const tenant: Walker = { hands, email: `hands-${walk}@example.com`, fits };
    await readDocs(tenant);
    // Another one: who has bought a plan cancels it before the account can be deleted.
    await register({ ...tenant, email: `gone-${walk}@example.com` });
    await deleteAccount(tenant);
    await register(tenant);
    for (const flow of [makeKey, scan, findInHistory, makeWebhook, buyPlan]) {
      await hands.turn();
      await flow(tenant);
    }
    const codes = await turnOnSecondFactor(t, tenant);
    await hands.turn();
    await signInAgain(tenant, codes[0] ?? '');
    await hands.turn();
    await setAnotherPassword(tenant, codes[1] ?? '');
    noComplaints(t, hands.person, [401]);
    await hands.person.context.close();
  }
});

t.test('operators: newer signatures, an account that is changed and deleted, and the log', async (t) => {
  for (const looks of WALKS) {
    const hands = await handsIn(browser, looks);
    const fits = async (what: string): Promise<void> => void t.ok(await hands.fits(), `${what} fits`);
    const operator: Walker = { hands, email: await setting.newAccount(), fits };
    await updateSignatures(t, operator);
    await hands.turn();
    await endAccount(t, operator);
    noComplaints(t, hands.person);
    await hands.person.context.close();
  }
});

async function readDocs({ hands, fits }: Walker): Promise<void> {
  const { page, press } = hands;
  await page.goto(`${server.url}/docs`);
  await hands.type(page.getByLabel('Search the documentation'), 'EICAR');
  await press(page.getByRole('link', { name: 'Quick start · 3. Read the verdict' }));
  await page.waitForURL(/quick-start#3-read-the-verdict/);
  await press(page.getByRole('radio', { name: 'curl' }), 'ArrowRight');
  await page.getByText('import requests').waitFor();
  await press(page.locator('.guide-panel:visible').getByRole('button', { name: 'Copy' }));
  await page.locator('.guide-panel:visible').getByText('Copied').waitFor();
  await fits('a program of the quick start');
}

async function register({ hands, email, fits }: Walker): Promise<void> {
  const { page, type, press } = hands;
  await page.goto(server.url);
  await press(page.getByRole('link', { name: 'Create an account' }));
  await type(page.getByLabel('Name'), 'Ada');
  await type(page.getByLabel('E-mail'), email);
  await hands.send(page.getByLabel('Password', { exact: true }), PASSWORD);
  await page.getByText('First steps').waitFor();
  await fits('the overview');
}

async function makeKey({ hands, fits }: Walker): Promise<void> {
  const { page, press } = hands;
  await hands.go('API keys');
  await press(page.getByRole('button', { name: 'Create a key' }));
  const dialog = page.getByRole('dialog');
  await hands.send(dialog.getByLabel('Name'), 'build server');
  await dialog.getByLabel('Key', { exact: true }).waitFor();
  await press(dialog.getByRole('tab', { name: 'curl' }), 'ArrowRight');
  await fits('a new key');
  await press(dialog.getByRole('button', { name: 'I have copied it' }));
  await dialog.waitFor({ state: 'detached' });
}

async function scan({ hands, fits }: Walker): Promise<void> {
  const { page, press } = hands;
  await hands.go('Scan');
  await press(page.getByRole('button', { name: 'Try a harmless test file' }));
  const chooser = page.waitForEvent('filechooser');
  await press(page.locator('button', { hasText: 'Choose files' }));
  await (await chooser).setFiles([file('chosen.txt')]);
  await hands.send(page.getByLabel('Or what is behind a URL'), `${server.url}/livez`);
  await page.getByText('3 of 3 finished').waitFor();
  await press(page.getByRole('button', { name: '1 infected' }));
  await fits('the scans');
}

async function findInHistory({ hands, fits }: Walker): Promise<void> {
  const { page, press } = hands;
  await hands.go('History');
  await page.getByText('3 scans').first().waitFor();
  await hands.type(page.getByLabel('Search', { exact: true }), 'eicar');
  await page.getByText('1 scan').first().waitFor();
  await press(page.locator('.history-open').first());
  await page.getByText('SHA-256').waitFor();
  await page.getByRole('heading', { name: /eicar/, level: 1 }).waitFor();
  await fits('a scan');
}

async function makeWebhook({ hands, fits }: Walker): Promise<void> {
  const { page, press } = hands;
  await hands.go('Webhooks');
  await press(page.getByRole('button', { name: 'Create a webhook' }));
  const dialog = page.getByRole('dialog');
  await hands.send(dialog.getByLabel('Address'), `${server.url}/hears`);
  await press(dialog.getByRole('button', { name: 'I have copied it' }));
  await press(page.getByRole('link', { name: /hears/ }));
  await press(page.getByRole('button', { name: 'Delete' }));
  await fits('the question');
  await press(dialog.getByRole('button', { name: 'Delete' }));
  await page.getByText('No webhooks yet').waitFor();
}

async function buyPlan({ hands, fits }: Walker): Promise<void> {
  const { page, press, person } = hands;
  let sentTo = '';
  await person.context.route(/stripe\.(com|test)/, async (route) => {
    sentTo = route.request().url();
    await route.fulfill({ contentType: 'text/html', body: '<h1>Stripe</h1>' });
  });
  await hands.choose('Billing');
  await press(page.getByRole('button', { name: 'Buy PRO' }));
  await page.getByRole('heading', { name: 'Stripe' }).waitFor();
  const id = /cs_test_\w+/.exec(sentTo)?.[0] ?? '';
  stripe.account.pay(id);
  // Where Stripe sends the buyer.
  await page.goto(`${server.url}/billing?checkoutSessionId=${id}`);
  await page.getByText('You are on PRO now: 1,000 scans per hour.').waitFor();
  await fits('a plan that was bought');
}

async function turnOnSecondFactor(t: Subtest, { hands, fits }: Walker): Promise<readonly string[]> {
  const { page, press, send } = hands;
  await hands.choose('Account');
  await press(page.getByRole('button', { name: 'Turn it on' }));
  const dialog = page.getByRole('dialog');
  await send(dialog.getByLabel('Current password'), PASSWORD);
  await dialog.getByAltText('The secret as a picture').waitFor();
  const secret = (await dialog.locator('p.code').textContent()) ?? '';
  await fits('the secret');
  await send(dialog.getByLabel('Code'), new TOTP({ secret }).generate());
  const codes = ((await dialog.locator('.account-codes').textContent()) ?? '').split('\n');
  t.equal(codes.length, 10);
  await press(dialog.getByRole('button', { name: 'I have kept them' }));
  await page.getByText('It is on:').waitFor();
  return codes;
}

async function signInAgain({ hands, email, fits }: Walker, code: string): Promise<void> {
  const { page, press, type, send } = hands;
  await hands.choose('Sign out');
  await page.getByRole('heading', { name: 'Know what a file is' }).waitFor();
  await press(page.getByRole('main').getByRole('link', { name: 'Sign in' }));
  await type(page.getByLabel('E-mail'), email);
  await send(page.getByLabel('Password', { exact: true }), PASSWORD);
  await send(page.getByLabel('Code'), code);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await fits('the overview with charts');
}

async function setAnotherPassword(tenant: Walker, code: string): Promise<void> {
  const { hands, email, fits } = tenant;
  const { page, press, send, type } = hands;
  await hands.choose('Sign out');
  await press(page.getByRole('main').getByRole('link', { name: 'Sign in' }));
  await press(page.getByRole('link', { name: 'Password forgotten?' }));
  await send(page.getByLabel('E-mail'), email);
  await page.getByText('the link is on its way').waitFor();
  await fits('the link that is asked for');
  const link = (): string | undefined =>
    smtp
      .mail()
      .split('---------- MESSAGE FOLLOWS ----------')
      .find((mail) => mail.includes(`To: ${email}`))
      ?.match(/\/reset#[\w-]{43}/)?.[0];
  await until(() => link() !== undefined);
  await page.goto(`${server.url}${link() ?? ''}`);
  await send(page.getByLabel('New password'), NEW_PASSWORD);
  await page.getByText('The password is set').waitFor();
  await press(page.getByRole('status').getByRole('link', { name: 'Sign in' }));
  await type(page.getByLabel('E-mail'), email);
  await send(page.getByLabel('Password', { exact: true }), NEW_PASSWORD);
  await send(page.getByLabel('Code'), code);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
}

async function deleteAccount({ hands, fits }: Walker): Promise<void> {
  const { page, press } = hands;
  await hands.choose('Account');
  await press(page.getByRole('button', { name: 'Delete the account' }));
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Current password').waitFor();
  await fits('the deletion');
  await hands.send(dialog.getByLabel('Current password'), PASSWORD);
  await page.getByText('The account is deleted').waitFor();
}

async function updateSignatures(t: Subtest, { hands, fits }: Walker): Promise<void> {
  const { page, press, send, type } = hands;
  await page.goto(`${server.url}/sign-in`);
  await type(page.getByLabel('E-mail'), EMAIL);
  await send(page.getByLabel('Password', { exact: true }), PASSWORD);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await hands.choose('Operation');
  await press(page.getByRole('button', { name: 'Update signatures' }));
  await page.getByText('Fetching and trying newer signatures').waitFor();
  await page.getByText('The last update is done').waitFor();
  await page.getByRole('region', { name: 'Signatures' }).getByText('17', { exact: true }).waitFor();
  await press(page.getByText('What the update says'));
  t.match(await page.locator('.admin-output').textContent(), /own\.ndb is new|has the newest signatures already/);
  await fits('the health');
}

async function endAccount(t: Subtest, { hands, email, fits }: Walker): Promise<void> {
  const { page, press, send } = hands;
  const pages = page.getByRole('navigation', { name: 'Pages of operators' });
  await press(pages.getByRole('link', { name: 'Accounts' }));
  await hands.type(page.getByRole('searchbox'), email);
  await page.getByText('1–1 of 1').waitFor();
  await press(page.getByRole('button', { name: `Open ${email}` }));
  const dialog = page.getByRole('dialog');
  await send(dialog.getByLabel('Own scans/h'), '3');
  await page.getByText('Saved: it holds from the next request on').waitFor();
  await press(dialog.getByRole('button', { name: 'Suspend' }));
  await dialog.getByRole('button', { name: 'Restore' }).waitFor();
  await press(dialog.getByRole('button', { name: 'Delete' }));
  await fits('an account');
  await hands.type(dialog.getByLabel('E-mail address'), email);
  await press(dialog.getByRole('button', { name: 'Delete for good' }));
  await page.getByText('No account found').waitFor();
  await press(pages.getByRole('link', { name: 'Activity' }));
  await page.getByRole('heading', { name: 'Outcomes, 30 days' }).waitFor();
  await press(pages.getByRole('link', { name: 'Audit log' }));
  t.match(await page.locator('.table tbody tr', { hasText: 'account.delete' }).first().textContent(), email);
  const downloading = page.waitForEvent('download');
  await press(page.getByRole('button', { name: 'Export as CSV' }));
  t.match((await downloading).suggestedFilename(), /\.csv$/);
  await fits('the audit log');
}
