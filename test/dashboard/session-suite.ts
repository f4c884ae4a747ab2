// Signing in, out and back: the ways in, a session that ends elsewhere, tokens that run out, two tabs.
import { signIn as apiSignIn, ask, bearer, EMAIL, post } from '../fixtures/sign-in.js';
import { go, noComplaints, PASSWORD, type Subtest, signIn, signOut } from './browser.js';
import { choose, file } from './scan-suite.js';
import { FREE_LIMIT, type Setting } from './setting.js';

export async function sessionSuite(tap: Subtest, { server, browser, newAccount, signedIn }: Setting): Promise<void> {
  tap.afterEach(() => browser.closePersons());
  tap.test('an account is made on the page, and signed out of again', async (t) => {
    const person = await browser.person();
    const { page } = person;
    await page.goto(server.url);
    await page.getByRole('link', { name: 'Create an account' }).click();
    await page.getByLabel('Name').fill('<b>Ada</b>');
    await page.getByLabel('E-mail').fill('new@example.com');
    await page.getByLabel('Password', { exact: true }).fill('too short');
    await page.getByRole('button', { name: 'Create the account' }).click();
    await page.getByText('At least 12 characters').waitFor();
    await page.keyboard.press('ControlOrMeta+a');
    await page.keyboard.type(PASSWORD);
    await page.getByLabel('E-mail').fill('nobody');
    await page.keyboard.press('Enter');
    const email = page.locator('.mantine-InputWrapper-root').filter({ hasText: 'E-mail' });
    await email.getByText('Must be an e-mail address').waitFor();
    await page.getByLabel('E-mail').fill('new@example.com');
    await page.getByRole('button', { name: 'Create the account' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.getByText('First steps').waitFor();
    await signOut(page);
    await page.getByRole('heading', { name: 'Know what a file is' }).waitFor();
    t.strictSame(await person.context.cookies(), [], 'nothing is left of it');
    noComplaints(t, person, [400]);
  });

  tap.test('a wrong password is said, and the right one leads to the page that was asked for', async (t) => {
    const email = await newAccount();
    const person = await browser.person();
    const { page } = person;
    await page.goto(`${server.url}/history?verdict=infected`);
    await page.getByRole('link', { name: 'Create one' }).click();
    await page.getByRole('main').getByRole('link', { name: 'Sign in' }).click();
    await page.getByRole('button', { name: 'Sign in' }).click();
    for (const missing of ['Enter your e-mail address', 'Enter your password']) await page.getByText(missing).waitFor();
    t.strictSame(person.complaints(), [], 'what is missing was not sent');
    await signIn(page, email, 'not the password at all');
    await page.getByText('E-mail or password wrong').waitFor();
    await signIn(page, email);
    await page.waitForURL(`${server.url}/history?verdict=infected`);
    await page.getByText('No scan matches these filters').first().waitFor();
    noComplaints(t, person, [401]);
    // This browser keeps nothing of the site. The sign-in page says so. Pages that need no sign-in are shown.
    const { page: keepsNothing, context } = await browser.person();
    await keepsNothing.addInitScript("Object.defineProperty(window, 'localStorage', { get() { throw new Error(); } })");
    await keepsNothing.route('**/web/auth/login', async (route) => {
      const response = await route.fetch();
      await context.clearCookies();
      await route.fulfill({ response, headers: { 'content-type': 'application/json' } });
    });
    await keepsNothing.goto(`${server.url}/sign-in`);
    await signIn(keepsNothing, email);
    await keepsNothing.getByText('Your browser has not kept the sign-in').waitFor();
    await keepsNothing.goto(server.url);
    await keepsNothing.getByRole('heading', { name: 'Know what a file is' }).waitFor();
  });

  tap.test('the way back is never to another site', async (t) => {
    const email = await newAccount();
    const { page } = await browser.person();
    await page.goto(`${server.url}/sign-in?next=//evil.example/`);
    await signIn(page, email);
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    t.equal(page.url(), `${server.url}/`);
    // Who is signed in goes the same way at once.
    for (const next of [
      '//evil.example/',
      'https://evil.example/',
      '/\\evil.example',
      '/%09/evil.example',
      'javascript:alert(1)',
    ]) {
      await go(page, `/sign-in?${new URLSearchParams({ next })}`);
      await page.waitForURL((url) => url.pathname !== '/sign-in');
      await page.getByRole('button', { name: 'Your account' }).waitFor();
      t.equal(new URL(page.url()).origin, server.url, next);
    }
  });

  tap.test('a session that was ended elsewhere leads to the sign-in with the reason, and back', async (t) => {
    const person = await signedIn('/keys');
    const { email, page } = person;
    await page.getByText('No keys yet').waitFor();
    const { accessToken } = await apiSignIn(server.url, email, PASSWORD);
    const endOthers = async (): Promise<void> => {
      const others = `${server.url}/web/users/me/sessions?keepCurrent=true`;
      t.equal((await ask(others, { method: 'DELETE', headers: bearer(accessToken) })).status, 204);
    };
    await endOthers();
    await page.getByRole('link', { name: 'History' }).click();
    await page.getByText('Your session has ended').waitFor();
    await signIn(page, email);
    await page.waitForURL(`${server.url}/history`);
    await page.getByText('No scans yet').first().waitFor();
    // In the middle of a form: what was typed is there again, and for nobody else.
    await page.getByRole('link', { name: 'API keys' }).click();
    const dialog = page.getByRole('dialog');
    for (const name of ['typed before', 'typed by another']) {
      await page.getByRole('button', { name: 'Create a key' }).click();
      await dialog.getByLabel('Name').fill(name);
      await endOthers();
      await page.keyboard.press('Enter');
      await page.getByText('Your session has ended').waitFor();
      await signIn(page, name === 'typed before' ? email : EMAIL);
      if (name !== 'typed before') continue;
      t.equal(await dialog.getByLabel('Name').inputValue(), name);
      await dialog.getByRole('button', { name: 'Create a key' }).click();
      await dialog.getByRole('button', { name: 'I have copied it' }).click();
      await page.getByRole('row').filter({ hasText: name }).waitFor();
      await page.reload();
    }
    await page.getByRole('row').filter({ hasText: 'First key' }).waitFor();
    t.equal(await dialog.count(), 0);
    noComplaints(t, person, [401]);
  });

  tap.test('what was changed and is not saved is there again when the session has ended under it', async (t) => {
    const person = await signedIn('/account');
    const { email, page } = person;
    const { accessToken } = await apiSignIn(server.url, email, PASSWORD);
    await post(`${server.url}/web/keys`, { name: 'a key' }, bearer(accessToken));
    await post(
      `${server.url}/web/webhooks`,
      { url: `${server.url}/hears`, events: ['scan.failed'] },
      bearer(accessToken),
    );
    const dialog = page.getByRole('dialog');
    const name = page.getByLabel('Name', { exact: true });
    const limit = dialog.getByLabel('Scans per hour');
    const address = page.getByLabel('Address');
    /** Somebody types, sends it, and has to sign in. */
    async function cutOff(typed: () => Promise<void>): Promise<void> {
      await typed();
      const others = `${server.url}/web/users/me/sessions?keepCurrent=true`;
      await ask(others, { method: 'DELETE', headers: bearer(accessToken) });
      await page.keyboard.press('Enter');
      await page.getByText('Your session has ended').waitFor();
      await signIn(page, email);
    }
    await cutOff(async () => {
      await page.getByLabel('New e-mail address').fill('typed@example.com');
      await name.fill('typed');
    });
    await page.getByRole('button', { name: 'Save the name' }).click();
    await page.getByText('The name is saved').waitFor();
    t.strictSame(
      [await name.inputValue(), await page.getByLabel('New e-mail address').inputValue()],
      ['typed', 'typed@example.com'],
    );
    await page.getByRole('link', { name: 'API keys' }).click();
    await cutOff(async () => {
      await page.getByRole('button', { name: 'Change a key' }).click();
      await limit.fill('5');
    });
    t.equal(await limit.inputValue(), '5');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('row').filter({ hasText: 'a key' }).getByText('5', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'Webhooks' }).click();
    await cutOff(async () => {
      await page.getByRole('link', { name: /hears/ }).click();
      await page.getByRole('checkbox', { name: 'Infected' }).click();
      await address.fill(`${server.url}/typed`);
    });
    t.equal(await address.inputValue(), `${server.url}/typed`);
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: /typed/, level: 1 }).waitFor();
    t.ok(await page.getByRole('checkbox', { name: 'Infected' }).isChecked());
    // What is saved, or left by the person, is no draft any more.
    await page.getByRole('link', { name: 'Scan', exact: true }).click();
    await page.goBack();
    await address.waitFor();
    t.equal(await address.inputValue(), `${server.url}/typed`);
    noComplaints(t, person, [401]);
  });

  tap.test('an access token that has run out is renewed without a visible break', async (t) => {
    const person = await signedIn('/keys');
    const { page, context } = person;
    await page.getByText('No keys yet').waitFor();
    await context.clearCookies({ name: 'sluice_access' });
    await page.getByRole('link', { name: 'History' }).click();
    await page.getByText('No scans yet').first().waitFor();
    t.equal(new URL(page.url()).pathname, '/history');
    noComplaints(t, person, [401]);
  });

  tap.test('two tabs take turns at the refresh token', async (t) => {
    const person = await signedIn('/keys');
    const { page, context, newPage } = person;
    const other = await newPage();
    await other.goto(`${server.url}/keys`);
    await other.getByText('No keys yet').waitFor();
    let refreshes = 0;
    // Finished ones: a tab that hears of the end just before its reload gives its request up.
    context.on('requestfinished', (request) => {
      if (request.url().endsWith('/web/auth/refresh')) refreshes += 1;
    });
    await page.evaluate("localStorage.setItem('sluice.signedInUntil', '1')");
    await Promise.all([page, other].map((each) => each.reload()));
    await Promise.all([page, other].map((each) => each.getByText('No keys yet').waitFor()));
    t.equal(refreshes, 1);
    noComplaints(t, person);
  });

  tap.test('files that wait for a session ask for nothing meanwhile, and are scanned for nobody else', async (t) => {
    const person = await signedIn('/scan');
    const { email, page, context } = person;
    let refreshes = 0;
    context.on('request', (request) => {
      if (request.url().endsWith('/web/auth/refresh')) refreshes += 1;
    });
    /** The session ends while they are on their way. */
    async function chooseAtTheEnd(names: readonly string[]): Promise<void> {
      let end = (): void => undefined;
      const ended = new Promise<void>((resolve) => {
        end = resolve;
      });
      await page.route('**/web/scans', async (route) => {
        await ended;
        await route.continue();
      });
      await choose(
        page,
        names.map((name) => file(name)),
      );
      const { accessToken } = await apiSignIn(server.url, email, PASSWORD);
      await ask(`${server.url}/web/users/me/sessions`, { method: 'DELETE', headers: bearer(accessToken) });
      end();
      await page.getByText('Your session has ended').waitFor();
      await page.unroute('**/web/scans');
    }
    await chooseAtTheEnd(['one.txt', 'two.txt']);
    await signIn(page, email);
    await page.getByText('2 of 2 finished').waitFor();
    t.equal(refreshes, 1, 'the one that was refused');
    await chooseAtTheEnd(['three.txt']);
    await signIn(page, EMAIL);
    await page.getByText(/^\d of 1,000 scans used/).waitFor();
    t.equal(await page.locator('.scan-item').count(), 0, 'another account has files of its own');
    await choose(page, [file('four.txt')]);
    await page.getByText('1 of 1 finished').waitFor();
    await signOut(page);
    await page.getByRole('main').getByRole('link', { name: 'Sign in' }).click();
    await signIn(page, email);
    await page.getByRole('link', { name: 'Scan', exact: true }).click();
    await page.getByText(`2 of ${FREE_LIMIT} scans used`).waitFor();
    t.equal(await page.locator('.scan-item').count(), 0, 'nothing is left after signing out');
    noComplaints(t, person, [401]);
  });

  tap.test('signing out in one tab signs the other one out, and signing in lets it go on', async (t) => {
    const person = await signedIn('/keys');
    const { email, page, newPage } = person;
    const other = await newPage();
    await other.goto(`${server.url}/account`);
    await other.getByRole('heading', { name: 'Sessions' }).waitFor();
    await signOut(page);
    await other.getByText('You have signed out in another tab').waitFor();
    await page.getByRole('main').getByRole('link', { name: 'Sign in' }).click();
    await signIn(page, email);
    await other.getByRole('heading', { name: 'Sessions' }).waitFor();
    t.equal(new URL(other.url()).pathname, '/account');
    // A page that the browser keeps for Back hears of no other page, as none hears of what it does itself.
    await other.evaluate(
      `localStorage.clear(); dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))`,
    );
    await other.getByText('You have signed out in another tab').waitFor();
    noComplaints(t, person);
  });
}
