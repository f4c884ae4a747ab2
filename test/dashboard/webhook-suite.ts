// The pages of webhooks: one made with its events, tested, given a new secret, switched off after three days of failures, and deleted; what failed is sent again.
import { join } from 'node:path';
import { embeddedSocketDirectory } from '../../src/store/embedded/embedded.js';
import { openPostgres } from '../../src/store/postgres.js';
import { type Receiver, startReceiver } from '../fixtures/receiver.js';
import { signIn as apiSignIn } from '../fixtures/sign-in.js';
import { uploadSignedIn } from '../fixtures/web-scans.js';
import { looksWell, noComplaints, PASSWORD, type Person, type Subtest, seriousFindings } from './browser.js';
import type { Setting } from './setting.js';

const HOSTILE_PATH = '/<img/src=x/onerror=document.title=1>\u202egpj';

/** Made by the keyboard alone; returns the secret that is shown once. */
async function make({ page }: Person, url: string): Promise<string> {
  await page.getByRole('button', { name: 'Create a webhook' }).focus();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Address').waitFor();
  await page.keyboard.type('ftp://example.com');
  await page.keyboard.press('Enter');
  await dialog.getByText('Enter an address that begins with http:// or https://').waitFor();
  await dialog.getByLabel('Address').fill(url);
  await page.keyboard.press('Enter');
  const secret = await dialog.getByLabel('Secret', { exact: true }).inputValue();
  await page.keyboard.press('Escape');
  await dialog.getByRole('button', { name: 'I have copied it' }).focus();
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'detached' });
  return secret;
}

export async function webhookSuite(tap: Subtest, { server, browser, signedIn }: Setting): Promise<void> {
  tap.afterEach(() => browser.closePersons());
  const receiver: Receiver = await startReceiver();
  tap.teardown(() => receiver.stop());

  tap.test('one is made, hears of a scan, is tested, changed, given a new secret, and deleted', async (t) => {
    const person = await signedIn('/webhooks');
    const { page } = person;
    await page.getByText('No webhooks yet').waitFor();
    const url = receiver.url(HOSTILE_PATH);
    receiver.secret = await make(person, url);
    t.match(receiver.secret, /^whsec_/);
    t.notMatch(await page.content(), /whsec_/, 'shown once');
    const link = page.getByRole('link', { name: /127\.0\.0\.1/ });
    t.match(await link.textContent(), /<img\/src=x.*\[U\+202E\]/, 'text, whatever is in it');
    await looksWell(t, page, 'the list');
    await link.click();
    await page.getByText('Nothing here').waitFor();
    t.equal(await page.locator('main img').count(), 0);
    const deliveries = page.getByRole('region', { name: 'Deliveries' });
    await page.getByRole('button', { name: 'Send a test' }).click();
    await page.getByText('your server answered 204').waitFor();
    receiver.answer = () => 500;
    await page.getByRole('button', { name: 'Send a test' }).click();
    await page.getByText('The test was not delivered: ').waitFor();
    receiver.answer = () => 204;

    const address = await page.getByLabel('Address').inputValue();
    await page.getByLabel('Address').fill('http://127.0.0.1:9/');
    await page.keyboard.press('Enter');
    await page.getByText('Port is not allowed').waitFor();
    await page.getByLabel('Address').fill(address);
    const event = (name: string) => page.getByRole('checkbox', { name });
    for (const name of ['Completed', 'Infected', 'Failed']) await event(name).click();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Choose at least one').waitFor();
    for (const name of ['Completed', 'Failed']) await event(name).click();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The webhook is saved').waitFor();
    const heard = receiver.messages.length;
    const { accessToken } = await apiSignIn(server.url, person.email, PASSWORD);
    await uploadSignedIn(server.url, accessToken, 'heard of');
    await receiver.until(heard + 1);
    await deliveries.getByText('204').waitFor();
    await looksWell(t, page, 'one with deliveries');

    const { secret } = receiver;
    await page.getByRole('button', { name: 'New secret' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'New secret' }).click();
    receiver.secret = await dialog.getByLabel('Secret', { exact: true }).inputValue();
    t.not(receiver.secret, secret);
    t.strictSame(await seriousFindings(page), [], 'the dialog');
    await dialog.getByRole('button', { name: 'I have copied it' }).click();
    await page.getByRole('button', { name: 'Send a test' }).click();
    await page.getByText('your server answered 204').waitFor();
    t.equal(receiver.messages.at(-1)?.signatures, 2, 'the former secret signs as well');
    t.equal(receiver.forged, 0);

    await page.getByLabel('Send to it').click();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Off', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Delete' }).click();
    await dialog.getByText('This cannot be undone.').waitFor();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No webhooks yet').waitFor();
    await page.goBack();
    await page.getByRole('heading', { name: 'There is no such webhook', level: 1 }).waitFor();
    noComplaints(t, person, [400, 404]);
  });

  tap.test(
    'one that fails for three days is off, and says so; it is switched on, and what failed is sent again',
    async (t) => {
      const person = await signedIn('/webhooks');
      const { page } = person;
      receiver.secret = await make(person, receiver.url('/fails'));
      receiver.answer = () => 503;
      const before = receiver.messages.length;
      const { accessToken } = await apiSignIn(server.url, person.email, PASSWORD);
      await uploadSignedIn(server.url, accessToken, 'unheard of');
      await receiver.until(before + 1);
      await page.getByText('Failing').waitFor();
      await page.getByRole('link', { name: /fails/ }).click();
      await page.getByText('No message has been delivered since').waitFor();

      const socketDirectory = embeddedSocketDirectory(join(server.directory, 'data'));
      const { sql, close } = await openPostgres({ kind: 'embedded', socketDirectory, mayBeEmpty: false });
      await sql`UPDATE webhooks SET failing_since = now() - interval '4 days', rests_until = now() WHERE failing_since IS NOT NULL`;
      await sql`UPDATE webhook_deliveries SET next_at = now() WHERE state = 'waiting'`;
      await close();
      await page.getByText('Sluice has switched this webhook off').waitFor();
      const deliveries = page.getByRole('region', { name: 'Deliveries' });
      await deliveries.getByText('Failed', { exact: true }).first().click();
      await deliveries.getByRole('button', { name: 'Send again: Completed' }).waitFor();
      await looksWell(t, page, 'one that is switched off');

      receiver.answer = () => 204;
      await page.getByRole('button', { name: 'Switch it on again' }).focus();
      await page.keyboard.press('Enter');
      await page.getByText('The webhook is on again').waitFor();
      const heard = receiver.messages.length;
      await deliveries.getByRole('button', { name: 'Send again: Completed' }).focus();
      await page.keyboard.press('Enter');
      await receiver.until(heard + 1);
      await deliveries.getByText('Nothing here').waitFor();
      await deliveries.getByText('Delivered', { exact: true }).first().click();
      await deliveries.getByText('204').waitFor();
      noComplaints(t, person);
    },
  );
}
