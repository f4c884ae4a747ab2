// `npm run bench:page-speed`: how soon each page can be used and how much it jumps, from Chromium's own trace of first visits.
import { Command } from 'commander';
import type { BrowserContext, Page } from 'playwright-core';
import { z } from 'zod';
import { type Browser, PASSWORD, type Person, signIn, startBrowser } from '../test/dashboard/browser.js';
import { startServer } from '../test/fixtures/server.js';
import { signIn as apiSignIn, bearer, EMAIL, post } from '../test/fixtures/sign-in.js';
import { uploadSignedIn } from '../test/fixtures/web-scans.js';
import { median } from './median.js';
import { readTrace, type Speed } from './page-trace.js';

/** What is promised of each page. */
const INTERACTIVE_MS = 500;
const LAYOUT_SHIFT = 0.05;
/** A page is interactive when nothing has held it up for so long. Lighthouse waits for 5 s, as for pages that load from far away. */
const QUIET_MS = 2_000;
const TENANT = 'tenant@example.com';
const SCANS = 40;

const print = (text: string): void => void process.stdout.write(`${text}\n`);

const command = new Command('npm run bench:page-speed --')
  .description('Traces first visits in Chromium: nothing is cached, and the server runs already.')
  .option('--rounds <count>', 'visits of each page', '5')
  .parse(process.argv);
const { rounds } = z.object({ rounds: z.coerce.number().int().positive() }).parse(command.opts());

const STRANGER_PAGES = ['/', '/sign-in', '/register', '/docs', '/docs/errors', '/docs/reference'];
const OPERATOR_PAGES = ['/admin', '/admin/accounts', '/admin/activity', '/admin/audit'];

/** In the page: when its heading was there, and the last skeleton had gone. */
const WATCH_CONTENT = `(() => {
  const look = () => {
    const isThere = document.querySelector('h1') !== null && document.querySelector('[role=status][aria-label=Loading]') === null;
    if (!isThere) window.contentMs = undefined;
    else window.contentMs ??= performance.now();
  };
  new MutationObserver(look).observe(document, { childList: true, subtree: true });
})()`;

interface Measured extends Speed {
  /** Until what the page is about is there. */
  readonly contentMs: number;
}

async function trace({ context, page }: Person, url: string, path: string): Promise<Measured> {
  const chromium = context.browser();
  if (chromium === null) throw new Error('The context has no browser');
  // Another site would have another process, which comes into the trace some time after its beginning.
  await page.goto(`${url}/livez`);
  await emptyCache(context, page);
  await chromium.startTracing(page, { categories: ['toplevel', 'loading', 'devtools.timeline', 'blink.user_timing'] });
  await page.goto(`${url}${path}`, { waitUntil: 'networkidle' });
  // What is looked for is that nothing happens for this time.
  await page.waitForTimeout(QUIET_MS);
  const recorded = await chromium.stopTracing();
  const contentMs = z.number().parse(await page.evaluate('window.contentMs'));
  const speed = readTrace(recorded.toString('utf8'));
  return { ...speed, contentMs, interactiveMs: Math.max(speed.interactiveMs, contentMs) };
}

async function emptyCache(context: BrowserContext, page: Page): Promise<void> {
  const session = await context.newCDPSession(page);
  await session.send('Network.clearBrowserCache');
  await session.detach();
}

/** With scans, keys and a webhook; returns the pages that somebody has who is signed in. */
async function fillTenant(url: string): Promise<string[]> {
  await post(`${url}/web/auth/register`, { email: TENANT, password: PASSWORD, name: 'Ada' });
  const { accessToken } = await apiSignIn(url, TENANT, PASSWORD);
  let scan = '';
  for (let index = 0; index < SCANS; index += 1) {
    const { headers } = await uploadSignedIn(url, accessToken, `content ${index}`);
    scan = headers.get('x-scan-id') ?? '';
  }
  for (const name of ['office', 'build server', 'mail']) await post(`${url}/web/keys`, { name }, bearer(accessToken));
  const made = await post(`${url}/web/webhooks`, { url: 'https://example.com/sluice' }, bearer(accessToken));
  const { id } = z.object({ id: z.string() }).loose().parse(made.body);
  return ['/', '/scan', '/history', `/scans/${scan}`, '/keys', '/webhooks', `/webhooks/${id}`, '/billing', '/account'];
}

async function enter(browser: Browser, url: string, email: string | null): Promise<Person> {
  const person = await browser.person();
  await person.page.addInitScript(WATCH_CONTENT);
  if (email === null) return person;
  await person.page.goto(`${url}/sign-in`);
  await signIn(person.page, email);
  await person.page.getByRole('heading', { name: 'Overview' }).waitFor();
  return person;
}

/** Returns whether it keeps what is promised. */
async function measure(person: Person, url: string, name: string, path: string): Promise<boolean> {
  const speeds: Measured[] = [];
  for (let round = 0; round < rounds; round += 1) speeds.push(await trace(person, url, path));
  const of = (field: keyof Measured): number => median(speeds.map((speed) => speed[field]));
  const [interactive, shift] = [of('interactiveMs'), of('layoutShift')];
  const cells: [string, number][] = [
    [of('firstPaintMs').toFixed(0), 15],
    [of('contentMs').toFixed(0), 13],
    [interactive.toFixed(0), 17],
    [of('blockedMs').toFixed(0), 13],
    [shift.toFixed(3), 15],
    [String(of('requests')), 11],
    [(of('bytes') / 1024).toFixed(0), 8],
  ];
  print(
    `${name} ${path.replace(/[0-9a-f-]{36}/, 'ID')}`.padEnd(27) +
      cells.map(([text, width]) => text.padStart(width)).join(''),
  );
  return shift <= LAYOUT_SHIFT && interactive < INTERACTIVE_MS;
}

const server = await startServer({ isSupervised: true, env: { REGISTRATION: 'open' } });
const browser = await startBrowser();
try {
  const tenantPages = await fillTenant(server.url);
  print(
    'medians                     first paint ms   content ms   interactive ms   blocked ms   layout shift   requests      KB',
  );
  for (const [name, email, paths] of [
    ['stranger', null, STRANGER_PAGES],
    ['tenant', TENANT, tenantPages],
    ['operator', EMAIL, OPERATOR_PAGES],
  ] as const) {
    const person = await enter(browser, server.url, email);
    for (const path of paths) if (!(await measure(person, server.url, name, path))) process.exitCode = 1;
    await person.context.close();
  }
  print(`promised of each page: interactive under ${INTERACTIVE_MS} ms, layout shift at most ${LAYOUT_SHIFT}`);
} finally {
  await browser.close();
  await server.stop();
}
