// What the suites of the dashboard share: one server that sells plans, one browser, and accounts of their own.
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { seedMigrated } from '../fixtures/embedded-template.js';
import { type ServerSettings, startServer, type TestServer } from '../fixtures/server.js';
import { type Answer, EMAIL, post } from '../fixtures/sign-in.js';
import { type FakeStripe, SECRET_KEY, startStripe, WEBHOOK_SECRET } from '../fixtures/stripe.js';
import { type Browser, PASSWORD, type Person, startBrowser } from './browser.js';

export const FREE_LIMIT = 6;
/** A content that has crashed the engine: the server refuses it from the start. */
export const REFUSED = createHash('sha256').update('crashed it twice').digest('hex');

export interface Setting {
  readonly server: TestServer;
  readonly stripe: FakeStripe;
  readonly browser: Browser;
  /** A new account with the smallest plan, known to nobody else. */
  newAccount(): Promise<string>;
  /** The server is stopped while the work is done, and then started again at the same address, with what it had kept. */
  whileStopped(work: () => Promise<void>): Promise<void>;
  /** Somebody with an account of their own, signed in, at that page; `/livez` is the lightest one. */
  signedIn(path: string): Promise<Person & { readonly email: string }>;
  /** The operator of the server, signed in, at that page. */
  operator(path: string): Promise<Person>;
  stop(): Promise<void>;
}

/** `env`: of the server, beside what all suites need. */
export async function startSetting(env: Readonly<Record<string, string>> = {}): Promise<Setting> {
  const stripe = await startStripe();
  stripe.account.prices.set('price_pro', { amount: 1_900, currency: 'eur', interval: 'month' });
  const directory = mkdtempSync(join(tmpdir(), 'sluice-dashboard-'));
  await seedMigrated(join(directory, 'data'));
  const crashes = { [REFUSED]: { crashes: 2, lastMs: Date.now() } };
  writeFileSync(join(directory, 'data', 'crash-suspects.json'), JSON.stringify(crashes));
  const settings: ServerSettings = {
    isSupervised: true,
    directory,
    env: {
      REGISTRATION: 'open',
      PLANS: `FREE:${FREE_LIMIT},PRO:1000`,
      BOOTSTRAP_PLAN: 'PRO',
      BASE_URL: 'http://127.0.0.1',
      STRIPE_SECRET_KEY: SECRET_KEY,
      STRIPE_WEBHOOK_SECRET: WEBHOOK_SECRET,
      STRIPE_PRICES: 'PRO:price_pro',
      STRIPE_API_BASE: stripe.url,
      URL_ALLOW_NETWORKS: '127.0.0.1/32',
      ...env,
    },
  };
  const server = await startServer(settings);
  let running = server;
  const browser = await startBrowser();
  let accounts = 0;

  async function register() {
    accounts += 1;
    const email = `user-${accounts}@example.com`;
    const answer = await post(`${server.url}/web/auth/register`, { email, password: PASSWORD, name: 'Ada' });
    if (answer.status !== 201) throw new Error(`No account: ${JSON.stringify(answer.body)}`);
    return { email, answer };
  }

  async function enter(answer: Answer, path: string): Promise<Person> {
    const person = await browser.person(rememberedOf(server.url, answer));
    await person.page.goto(`${server.url}${path}`);
    return person;
  }

  return {
    server,
    stripe,
    browser,
    newAccount: async () => (await register()).email,
    async whileStopped(work) {
      await running.stop();
      await work();
      running = await startServer({ ...settings, env: { ...settings.env, PORT: String(server.port) } });
    },
    async signedIn(path) {
      const { email, answer } = await register();
      // The account comes with a session: a second one over the form would cost a password's hash and two pages each time.
      return { ...(await enter(answer, path)), email };
    },
    async operator(path) {
      const answer = await post(`${server.url}/web/auth/login`, { email: EMAIL, password: PASSWORD });
      return await enter(answer, path);
    },
    async stop() {
      await browser.close();
      await running.stop();
      rmSync(directory, { recursive: true, force: true });
      await stripe.stop();
    },
  };
}

const SignedIn = z.object({ expiresIn: z.number(), user: z.object({ id: z.string() }).loose() }).loose();

/** What a browser keeps of a sign-in: the cookies, whose they are, and until when the first of them is good. */
function rememberedOf(url: string, { body, headers }: Answer) {
  const { expiresIn, user } = SignedIn.parse(body);
  const as = { name: 'sluice.signedInAs', value: user.id };
  const until = { name: 'sluice.signedInUntil', value: String(Date.now() + expiresIn * 1_000) };
  return {
    cookies: headers.getSetCookie().map((line) => cookieOf(line, new URL(url).hostname)),
    origins: [{ origin: url, localStorage: [as, until] }],
  };
}

function cookieOf(line: string, domain: string) {
  const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
  return {
    name,
    value,
    domain,
    path: /; Path=([^;]+)/i.exec(line)?.[1] ?? '/',
    expires: Math.floor(Date.now() / 1_000) + Number(/; Max-Age=(\d+)/i.exec(line)?.[1]),
    httpOnly: /; HttpOnly/i.test(line),
    secure: /; Secure/i.test(line),
    sameSite: /; SameSite=Strict/i.test(line) ? ('Strict' as const) : ('Lax' as const),
  };
}
