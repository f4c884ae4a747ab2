// The page of API keys: made, shown once, used, revoked.

import { signIn as apiSignIn, bearer, post } from '../fixtures/sign-in.js';
import { upload } from '../fixtures/upload.js';
import { HOSTILE_NAMES, HOSTILE_SHORT_NAMES, noComplaints, overflow, PASSWORD, shownName } from './browser.js';
import type { Setting, Subtest } from './setting.js';

export async function keySuite(tap: Subtest, { server, signedIn }: Setting): Promise<void> {
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
    await dialog.getByRole('button', { name: 'Create a key' }).click();
    const value = await dialog.getByLabel('Key', { exact: true }).inputValue();
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
    t.match(await row.textContent(), /Never/);
    t.equal((await upload(server.url, 'content', { key: value })).status, 200);
    await page.reload();
    await row.waitFor();
    t.notMatch(await row.textContent(), /Never/);

    await row.getByRole('button', { name: `Revoke ${name}` }).click();
    await dialog.getByText('This can not be undone.').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    t.equal((await upload(server.url, 'content', { key: value })).status, 200, 'a question is no answer');
    await row.getByRole('button', { name: `Revoke ${name}` }).click();
    await dialog.getByRole('button', { name: 'Revoke', exact: true }).click();
    await page.getByText('No keys yet').waitFor();
    t.equal((await upload(server.url, 'content', { key: value })).status, 401);
    t.equal(await page.locator('main img').count(), 0);
    noComplaints(t, person);
  });

  tap.test('names of keys of every kind are shown as they are, also where they are revoked', async (t) => {
    const person = await signedIn('/keys');
    const { page, email } = person;
    const { accessToken } = await apiSignIn(server.url, email, PASSWORD);
    for (const name of HOSTILE_SHORT_NAMES) {
      t.equal((await post(`${server.url}/web/keys`, { name }, bearer(accessToken))).status, 201, name);
    }
    await page.reload();
    await page.getByRole('row').nth(HOSTILE_SHORT_NAMES.length).waitFor();
    for (const name of HOSTILE_SHORT_NAMES) {
      const shown = shownName(name);
      const row = page.getByRole('row').filter({ hasText: shown });
      t.equal(await row.locator('.name').first().textContent(), shown);
      await row.getByRole('button').click();
      const dialog = page.getByRole('dialog');
      await dialog.getByText(shown).waitFor();
      await dialog.getByRole('button', { name: 'Cancel' }).click();
      await dialog.waitFor({ state: 'detached' });
      t.ok((await overflow(page)) <= 0, name);
    }
    t.equal(await page.locator('main img').count(), 0);
    noComplaints(t, person);
  });
}
