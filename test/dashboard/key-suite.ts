// The page of API keys: made, shown once, used, revoked.
import { z } from 'zod';
import { signIn as apiSignIn, ask, bearer } from '../fixtures/sign-in.js';
import { upload } from '../fixtures/upload.js';
import { HOSTILE_NAMES, noComplaints, PASSWORD, type Subtest, seriousFindings } from './browser.js';
import type { Setting } from './setting.js';

const Keys = z.array(z.object({ uuid: z.string() }).loose());

export async function keySuite(tap: Subtest, { server, browser, signedIn }: Setting): Promise<void> {
  tap.afterEach(() => browser.closePersons());
  tap.test('a key is made, works, is shown masked from then on, and ends when it is revoked', async (t) => {
    const name = HOSTILE_NAMES[0] ?? '';
    const person = await signedIn('/keys');
    const { page, context } = person;
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: 'Create a key' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Create a key' }).click();
    await dialog.getByText('Enter a name').waitFor();
    await dialog.getByLabel('Name').fill(name);
    // What is wrong is said at its field, which has the focus, and nothing is taken for no limit.
    const field = (label: string) => dialog.locator('.keys-limits > *').filter({ hasText: label });
    await dialog.getByLabel('Scans per hour').fill('1'.repeat(30));
    await dialog.getByLabel('Expires').fill('2020-01-01T00:00');
    await page.keyboard.press('Enter');
    await field('Scans per hour').getByText('Enter a number above 0, or nothing').waitFor();
    t.strictSame(person.complaints(), [], 'what is wrong is not sent');
    await page.keyboard.press('ControlOrMeta+a');
    await page.keyboard.type('3');
    await page.keyboard.press('Enter');
    await field('Expires').getByText('Must be in the future').waitFor();
    await dialog.getByLabel('Expires').fill('');
    await page.keyboard.press('Enter');
    const value = await dialog.getByLabel('Key', { exact: true }).inputValue();
    t.equal(await page.evaluate('document.activeElement.value'), value, 'the focus is on what was made');
    t.match(value, /^[0-9a-f]{32}$/);
    for (const language of ['Python', 'TypeScript', 'Go', 'curl']) {
      await dialog.getByRole('tab', { name: language }).click();
      t.match(await dialog.getByRole('tabpanel').textContent(), new RegExp(value), language);
    }
    await dialog.getByRole('button', { name: 'Copy' }).first().click();
    await dialog.getByRole('button', { name: 'Copied', exact: true }).waitFor();
    t.equal(await page.evaluate('navigator.clipboard.readText()'), value);
    await dialog.getByRole('button', { name: 'I have copied it' }).click();

    const row = page.getByRole('row').filter({ hasText: name });
    await row.waitFor();
    await dialog.waitFor({ state: 'detached' });
    t.notMatch(await page.content(), new RegExp(value), 'shown once');
    t.equal(await row.locator('td').nth(5).textContent(), 'Never');
    t.equal((await upload(server.url, 'content', { key: value })).status, 200);
    await page.reload();
    await row.waitFor();
    t.not(await row.locator('td').nth(5).textContent(), 'Never');

    await row.getByRole('button', { name: `Revoke ${name}` }).click();
    await dialog.getByText('This cannot be undone.').waitFor();
    await dialog.locator('button:focus', { hasText: 'Cancel' }).waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    t.equal((await upload(server.url, 'content', { key: value })).status, 200, 'a question is no answer');
    await row.getByRole('button', { name: `Revoke ${name}` }).click();
    await dialog.getByRole('button', { name: 'Revoke', exact: true }).click();
    await page.getByText('No keys yet').waitFor();
    t.equal((await upload(server.url, 'content', { key: value })).status, 401);
    t.equal(await page.locator('main img').count(), 0);
    noComplaints(t, person, [400]);
  });

  tap.test(
    'what a key may is said when it is made, and changed by the keyboard; its scans are counted by day',
    async (t) => {
      const person = await signedIn('/keys');
      const { page, email } = person;
      await page.getByRole('button', { name: 'Create a key' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Name').fill('build server');
      await dialog.getByLabel('Scan', { exact: true }).click();
      await dialog.getByLabel('Read').click();
      await dialog.getByRole('button', { name: 'Create a key' }).click();
      await dialog.getByText('Choose at least one').waitFor();
      t.strictSame(person.complaints(), [], 'no key that may nothing is asked for');
      await dialog.getByLabel('Scan', { exact: true }).click();
      await dialog.getByLabel('Scans per hour').fill('7');
      await dialog.getByRole('button', { name: 'Create a key' }).click();
      await dialog.getByText('Must be at most 6, which the account has').waitFor();
      await dialog.getByLabel('Scans per hour').fill('2');
      await dialog.getByLabel('Expires').fill('2020-01-31T10:00');
      await dialog.getByRole('button', { name: 'Create a key' }).click();
      await dialog.getByText('Must be in the future').waitFor();
      await dialog.getByLabel('Expires').fill('2040-01-31T10:00');
      await dialog.getByRole('button', { name: 'Create a key' }).click();
      const value = await dialog.getByLabel('Key', { exact: true }).inputValue();
      await dialog.getByRole('button', { name: 'I have copied it' }).click();
      const row = page.getByRole('row').filter({ hasText: 'build server' });
      await row.getByText('31 Jan 2040').waitFor();
      t.match(await row.locator('td').nth(2).textContent(), /^Scan$/);
      t.match(await row.locator('td').nth(3).textContent(), /^2$/);
      t.equal((await fetch(`${server.url}/api/v1/account`, { headers: { 'X-API-KEY': value } })).status, 403);
      for (const status of [200, 200, 429])
        t.equal((await upload(server.url, 'content', { key: value })).status, status);

      await row.getByRole('button', { name: 'Change build server' }).focus();
      await page.keyboard.press('Enter');
      await dialog.getByRole('cell', { name: '2', exact: true }).waitFor({ state: 'attached' });
      t.strictSame(await seriousFindings(page), [], 'the dialog');
      await dialog.getByLabel('Name').press('Control+A');
      await page.keyboard.type('office');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Space');
      await dialog.getByLabel('Scans per hour').fill('');
      await dialog.getByLabel('Expires').fill('');
      await page.keyboard.press('Enter');
      await dialog.waitFor({ state: 'detached' });
      await page.getByText('Scan, Read').waitFor();
      t.match(await page.getByRole('row').nth(1).textContent(), /office.*As account.*Never/);
      t.equal((await upload(server.url, 'content', { key: value })).status, 200);
      t.equal((await fetch(`${server.url}/api/v1/account`, { headers: { 'X-API-KEY': value } })).status, 200);
      t.equal(await page.evaluate('document.activeElement.textContent'), 'office', 'the focus is back');
      // What somebody else changes while the dialog is open is not undone by what is saved there.
      const { accessToken } = await apiSignIn(server.url, email, PASSWORD);
      await page.keyboard.press('Enter');
      await dialog.getByLabel('Scans per hour').fill('5');
      const headers = bearer(accessToken);
      const [{ uuid } = { uuid: '' }] = Keys.parse((await ask(`${server.url}/web/keys/me`, { headers })).body);
      const key = `${server.url}/web/keys/${uuid}`;
      const body = JSON.stringify({ name: 'renamed' });
      await ask(key, { method: 'PUT', headers: { ...headers, 'Content-Type': 'application/json' }, body });
      await page.keyboard.press('Enter');
      await page.getByRole('row').filter({ hasText: 'renamed' }).getByText('5', { exact: true }).waitFor();
      await dialog.waitFor({ state: 'detached' });
      // Nothing was changed: nothing is sent.
      await page.getByRole('button', { name: 'Change renamed' }).click();
      await dialog.getByRole('button', { name: 'Save' }).click();
      await dialog.waitFor({ state: 'detached' });
      // What somebody else has revoked meanwhile is revoked.
      await page.getByRole('button', { name: 'Revoke renamed' }).click();
      await ask(key, { method: 'DELETE', headers });
      await dialog.getByRole('button', { name: 'Revoke', exact: true }).click();
      await page.getByText('The key is revoked').waitFor();
      await page.getByText('No keys yet').waitFor();
      await page.locator('main:focus').waitFor();
      noComplaints(t, person, [400, 404]);
    },
  );
}
