// `npm run bench:page-speed`: how soon a page can be used and how much it jumps, from Chromium's own trace of first visits.
import { Command } from 'commander';
import type { Page } from 'playwright-core';
import { z } from 'zod';
import { type Browser, signIn, startBrowser } from '../test/dashboard/browser.js';
import { startServer } from '../test/fixtures/server.js';
import { EMAIL } from '../test/fixtures/sign-in.js';
import { readTrace, type Speed } from './page-trace.js';

/** What is promised of the first page. */
const INTERACTIVE_MS = 1_500;
const LAYOUT_SHIFT = 0.05;
/** A page is interactive when nothing has held it up for so long (https://web.dev/articles/tti). */
const QUIET_MS = 5_000;

const print = (text: string): void => void process.stdout.write(`${text}\n`);

const command = new Command('npm run bench:page-speed --')
  .description('Traces first visits in Chromium: nothing is cached, and the server runs already.')
  .option('--rounds <count>', 'visits of each page', '5')
  .parse(process.argv);
const { rounds } = z.object({ rounds: z.coerce.number().int().positive() }).parse(command.opts());

interface Visit {
  readonly name: string;
  readonly path: string;
  /** Before the visit, in the same browser profile, whose cache is emptied then. */
  readonly prepare: (page: Page, url: string) => Promise<void>;
}

const nothing = async (): Promise<void> => undefined;
const visits: readonly Visit[] = [
  { name: 'first page', path: '/', prepare: nothing },
  { name: 'overview, signed in', path: '/', prepare: enter },
  { name: 'reference', path: '/docs/reference', prepare: nothing },
];

async function enter(page: Page, url: string): Promise<void> {
  await page.goto(`${url}/sign-in`);
  await signIn(page, EMAIL);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
}

async function trace(browser: Browser, url: string, { path, prepare }: Visit): Promise<Speed> {
  const { context, page } = await browser.person();
  const chromium = context.browser();
  if (chromium === null) throw new Error('The context has no browser');
  await prepare(page, url);
  // Another site would have another process, which comes into the trace some time after its beginning.
  await page.goto(`${url}/livez`);
  await (await context.newCDPSession(page)).send('Network.clearBrowserCache');
  await chromium.startTracing(page, { categories: ['toplevel', 'loading', 'devtools.timeline', 'blink.user_timing'] });
  await page.goto(`${url}${path}`, { waitUntil: 'networkidle' });
  // What is looked for is that nothing happens for this time.
  await page.waitForTimeout(QUIET_MS);
  const recorded = await chromium.stopTracing();
  await context.close();
  return readTrace(recorded.toString('utf8'));
}

function median(values: readonly number[]): number {
  return [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? Number.NaN;
}

const server = await startServer();
const browser = await startBrowser();
try {
  print('medians                first paint ms   interactive ms   blocked ms   layout shift   requests      KB');
  for (const visit of visits) {
    const speeds: Speed[] = [];
    for (let round = 0; round < rounds; round += 1) speeds.push(await trace(browser, server.url, visit));
    const of = (name: keyof Speed): number => median(speeds.map((speed) => speed[name]));
    const [interactive, shift] = [of('interactiveMs'), of('layoutShift')];
    const cells: [string, number][] = [
      [of('firstPaintMs').toFixed(0), 15],
      [interactive.toFixed(0), 17],
      [of('blockedMs').toFixed(0), 13],
      [shift.toFixed(3), 15],
      [String(of('requests')), 11],
      [(of('bytes') / 1024).toFixed(0), 8],
    ];
    print(visit.name.padEnd(22) + cells.map(([text, width]) => text.padStart(width)).join(''));
    const isKept = shift <= LAYOUT_SHIFT && (visit.name !== 'first page' || interactive < INTERACTIVE_MS);
    if (!isKept) process.exitCode = 1;
  }
  print(
    `promised: interactive under ${INTERACTIVE_MS} ms for the first page, layout shift at most ${LAYOUT_SHIFT} for each`,
  );
} finally {
  await browser.close();
  await server.stop();
}
