// What the suites of the dashboard share: one server that sells plans, one browser, and accounts of their own.

import type t from 'tap';
import { startServer, type TestServer } from '../fixtures/server.js';
import { post } from '../fixtures/sign-in.js';
import { type FakeStripe, SECRET_KEY, startStripe, WEBHOOK_SECRET } from '../fixtures/stripe.js';
import { type Browser, PASSWORD, type Person, signIn, startBrowser } from './browser.js';

export type Subtest = Parameters<Parameters<typeof t.test>[0]>[0];

export const FREE_LIMIT = 6;

export interface Setting {
  readonly server: TestServer;
  readonly stripe: FakeStripe;
  readonly browser: Browser;
  /** A new account with the smallest plan, known to nobody else. */
  newAccount(): Promise<string>;
  /** Somebody with an account of their own, signed in, at that page. */
  signedIn(path: string): Promise<Person & { readonly email: string }>;
  stop(): Promise<void>;
}

export async function startSetting(): Promise<Setting> {
  const stripe = await startStripe();
  stripe.account.prices.set('price_pro', { amount: 1_900, currency: 'eur', interval: 'month' });
  const server = await startServer({
    env: {
      REGISTRATION: 'open',
      PLANS: `FREE:${FREE_LIMIT},PRO:1000`,
      BOOTSTRAP_PLAN: 'PRO',
      BASE_URL: 'http://127.0.0.1',
      STRIPE_SECRET_KEY: SECRET_KEY,
      STRIPE_WEBHOOK_SECRET: WEBHOOK_SECRET,
      STRIPE_PRICES: 'PRO:price_pro',
      STRIPE_API_BASE: stripe.url,
    },
  });
  const browser = await startBrowser();
  let accounts = 0;

  async function newAccount(): Promise<string> {
    accounts += 1;
    const email = `user-${accounts}@example.com`;
    const { status, body } = await post(`${server.url}/web/auth/register`, { email, password: PASSWORD, name: 'Ada' });
    if (status !== 201) throw new Error(`No account: ${JSON.stringify(body)}`);
    return email;
  }

  return {
    server,
    stripe,
    browser,
    newAccount,
    async signedIn(path) {
      const email = await newAccount();
      const person = await browser.person();
      await person.page.goto(`${server.url}/sign-in?${new URLSearchParams({ next: path })}`);
      await signIn(person.page, email);
      await person.page.waitForURL(`${server.url}${path}`);
      return { ...person, email };
    },
    async stop() {
      await browser.close();
      await server.stop();
      await stripe.stop();
    },
  };
}
