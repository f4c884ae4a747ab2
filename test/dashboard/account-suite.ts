// The account page: name, address, password, and where one is signed in.
import { TOTP } from 'otpauth';
import { signIn as apiSignIn, ask, bearer } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import {
  HOSTILE_SHORT_NAMES,
  noComplaints,
  overflow,
  PASSWORD,
  type Subtest,
  seriousFindings,
  signIn,
  signOut,
} from './browser.js';
import type { Setting } from './setting.js';

export async function accountSuite(tap: Subtest, { server, browser, signedIn }: Setting): Promise<void> {
  tap.afterEach(() => browser.closePersons());
  tap.test('name, address and password are changed, and a wrong password is said', async (t) => {
    const person = await signedIn('/account');
    const { page, email } = person;
    const name = 'أدا <script>alert(1)</script> 😀';
    await page.getByLabel('Name', { exact: true }).fill(name);
    await page.keyboard.press('Enter');
    await page.getByText('The name is saved').waitFor();
    t.equal(await page.evaluate('document.activeElement.value'), name, 'the field keeps the focus');

    const address = page.locator('section').filter({ hasText: 'Change the e-mail address' });
    await address.getByRole('button').last().click();
    await address.getByText('Enter your e-mail address').waitFor();
    t.strictSame(person.complaints(), [], 'what is missing was not sent');
    await address.getByLabel('New e-mail address').fill('nobody');
    await address.getByLabel('Current password').fill(PASSWORD);
    await page.keyboard.press('Enter');
    await address.getByText('Must be an e-mail address').waitFor();
    await page.keyboard.press('ControlOrMeta+a');
    await page.keyboard.type(`changed-${email}`);
    await address.getByLabel('Current password').fill('not the password at all');
    await address.getByRole('button').last().click();
    await page.getByText('This is not your current password').waitFor();
    await address.getByLabel('Current password').fill(PASSWORD);
    await address.getByRole('button').last().click();
    await page.getByText('The e-mail address is saved').waitFor();
    await page.getByText(`changed-${email}`).waitFor();

    const password = page.locator('section').filter({ hasText: 'Change the password' });
    await password.getByLabel('New password').fill('too short');
    await password.getByLabel('Current password').fill(PASSWORD);
    await page.keyboard.press('Enter');
    await password.getByText('At least 12 characters').waitFor();
    await page.keyboard.press('ControlOrMeta+a');
    await page.keyboard.type('another password for tests');
    await page.keyboard.press('Enter');
    await page.getByText('The password is changed').waitFor();
    t.equal((await apiSignIn(server.url, `changed-${email}`, 'another password for tests')).setCookies.length, 2);
    noComplaints(t, person, [400]);
  });

  tap.test('a name of any kind and a device of any name break nothing', async (t) => {
    const person = await signedIn('/account');
    const { page, email } = person;
    const field = page.getByLabel('Name', { exact: true });
    await field.waitFor();
    await page.evaluate(`window.shown = [];
      const field = document.querySelector('input[autocomplete=name]');
      const look = () => field.getAttribute('value') !== shown.at(-1) && shown.push(field.getAttribute('value'));
      new MutationObserver(look).observe(field, { attributeFilter: ['value'] })`);
    for (const name of HOSTILE_SHORT_NAMES) {
      await field.fill(name);
      const saved = page.waitForResponse((answer) => answer.request().method() === 'PUT');
      await page.getByRole('button', { name: 'Save the name' }).click();
      t.equal((await saved).status(), 200, name);
      t.equal(await field.inputValue(), name);
      t.ok((await overflow(page)) <= 0, name);
      await page
        .getByRole('button', { name: 'Save the name' })
        .and(page.locator(':disabled:not([data-loading])'))
        .waitFor();
    }
    t.strictSame(await page.evaluate('shown'), HOSTILE_SHORT_NAMES, 'none of them twice');
    await field.fill('x'.repeat(255));
    await page.getByText('At most 100 characters').waitFor();
    t.ok((await overflow(page)) <= 0);
    const agent = '<img src=x onerror=document.title=1> "quoted" '.repeat(20);
    const body = JSON.stringify({ email, password: PASSWORD });
    const headers = { 'Content-Type': 'application/json', 'User-Agent': agent };
    t.equal((await ask(`${server.url}/web/auth/login`, { method: 'POST', headers, body })).status, 200);
    await page.reload();
    await page.locator('.sessions li').nth(1).waitFor();
    t.ok((await overflow(page)) <= 0, 'a device of any name');
    t.equal(await page.locator('main img').count(), 0);
    t.equal(await page.title(), 'Account · Sluice');
    noComplaints(t, person);
  });

  tap.test('one session is ended, then all others, and this one stays', async (t) => {
    const person = await signedIn('/account');
    const { page, email } = person;
    const others = [];
    for (let count = 0; count < 3; count += 1) others.push(await apiSignIn(server.url, email, PASSWORD));
    await page.reload();
    const ends = page.getByRole('button', { name: /^End the session of/ });
    await ends.first().waitFor();
    // Making the account was a session as well.
    const before = await ends.count();
    await ends.first().click();
    await page.getByText('The session has ended').waitFor();
    await page.locator('.account-sessions:focus').waitFor();
    await until(async () => (await ends.count()) === before - 1);
    await page.getByRole('button', { name: 'End all others' }).click();
    await page.getByText('You are signed in nowhere else.').waitFor();
    for (const { accessToken } of others) {
      t.equal((await ask(`${server.url}/web/users/me`, { headers: bearer(accessToken) })).status, 401);
    }
    await page.reload();
    await page.getByText('This device').waitFor();
    noComplaints(t, person);
  });

  tap.test('a second factor is turned on, asked for at the sign-in, and replaced by a recovery code', async (t) => {
    const person = await signedIn('/account');
    const { page, email } = person;
    await page.getByRole('button', { name: 'Turn it on' }).click();
    const dialog = page.getByRole('dialog');
    await page.keyboard.press('Enter');
    await dialog.getByText('Must not be empty').waitFor();
    await page.keyboard.type(PASSWORD);
    await page.keyboard.press('Enter');
    await dialog.getByAltText('The secret as a picture').waitFor();
    t.strictSame(await seriousFindings(page), []);
    const secret = (await dialog.locator('p.code').textContent()) ?? '';
    await page.keyboard.type('12345');
    await page.keyboard.press('Enter');
    await dialog.getByText('Is wrong, or was used').waitFor();
    t.equal(await page.evaluate('document.activeElement.value'), '12345', 'what is wrong has the focus');
    await dialog.getByLabel('Code').fill(new TOTP({ secret }).generate());
    await page.keyboard.press('Enter');
    const codes = ((await dialog.locator('.account-codes').textContent()) ?? '').split('\n');
    t.equal(codes.length, 10);
    await page.setViewportSize({ width: 320, height: 800 });
    const pixelsOver = `(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('.account-codes'))`;
    t.equal(await page.evaluate(pixelsOver), 0, 'no code lies on another one');
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.keyboard.press('Escape');
    await dialog.getByRole('button', { name: 'I have kept them' }).click();
    await page.getByText('It is on:').waitFor();
    await signOut(page);
    await page.goto(`${server.url}/sign-in`);
    await signIn(page, email);
    await page.getByLabel('Code').fill(codes[0] ?? '');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    noComplaints(t, person, [400, 401]);
  });

  tap.test('the account is deleted by its owner, with the password', async (t) => {
    const person = await signedIn('/account');
    const { page, email } = person;
    await page.getByRole('button', { name: 'Delete the account' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Current password').fill('not the password at all');
    await dialog.getByRole('button', { name: 'Delete it for good' }).click();
    await dialog.getByText('This is not your current password').waitFor();
    await dialog.getByLabel('Current password').fill(PASSWORD);
    await dialog.getByRole('button', { name: 'Delete it for good' }).click();
    await page.getByText('The account is deleted').waitFor();
    await page.goto(`${server.url}/reset`);
    await page.getByText('This server sends no mail.').waitFor();
    const body = JSON.stringify({ email, password: PASSWORD });
    const headers = { 'Content-Type': 'application/json' };
    t.equal((await ask(`${server.url}/web/auth/login`, { method: 'POST', headers, body })).status, 401);
    noComplaints(t, person, [400]);
  });
}
