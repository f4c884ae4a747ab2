// Chromium, fresh and headless. It may connect to the page alone, and its complaints are kept.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import type t from 'tap';

export type Subtest = Parameters<Parameters<typeof t.test>[0]>[0];

/** The same browser without windows: a page takes a quarter of the processor time, which in a window goes into tool bars that nobody sees. */
const WITHOUT_WINDOWS = '/usr/bin/chromium-headless-shell';
const executablePath = existsSync(WITHOUT_WINDOWS) ? WITHOUT_WINDOWS : '/usr/bin/chromium';
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // A page lives for seconds: threads that help its scripts cost more than they give.
  '--js-flags=--single-threaded',
];
/** Generous: several servers and browsers may share two cores. */
const PATIENCE_MS = 60_000;

export const PASSWORD = 'a password for tests';
/** Names that have broken pages before. The service keeps 255 characters and drops what looks like a path. */
export const HOSTILE_NAMES: readonly string[] = [
  '<img src=x onerror=document.title=1>.txt',
  `${'long'.repeat(62)}.bin`,
  'تقرير\u202egnp.exe',
  `${'😀'.repeat(60)}.zip`,
  '=1+1.csv',
];

/** The same as they are shown: what turns the text around it is written out. */
export const SHOWN_NAMES: readonly string[] = HOSTILE_NAMES.map((name) => name.replace('\u202e', '[U+202E]'));

/** What accounts and keys can be called: 100 characters at most. */
export const HOSTILE_SHORT_NAMES: readonly string[] = HOSTILE_NAMES.map((name) => [...name].slice(0, 100).join(''));

export interface Browser {
  /** A person with a browser of their own: cookies and storage are shared by their pages alone. `remembered`: what is in them already. */
  person(remembered?: Remembered, look?: Pick<BrowserContextOptions, 'locale'>): Promise<Person>;
  /** Ends all pages of all persons so far: a page that is open goes on asking the server. */
  closePersons(): Promise<void>;
  close(): Promise<void>;
}

type Remembered = Exclude<BrowserContextOptions['storageState'], string | undefined>;

export interface Person {
  readonly context: BrowserContext;
  readonly page: Page;
  newPage(): Promise<Page>;
  /**
   * What the pages have complained about: errors, violations of the policy, answers of failure. `expected`: statuses that the test
   * provokes.
   */
  complaints(expected?: readonly number[]): readonly string[];
}

/** `flags`: further ones of its command line. */
export async function startBrowser(flags: readonly string[] = []): Promise<Browser> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-chromium-'));
  const browser = await chromium.launch({
    executablePath,
    args: [...FLAGS, ...flags],
    env: { ...process.env, HOME: folder },
  });
  return {
    async person(remembered, look = {}) {
      const context = await browser.newContext({
        viewport: { width: 1280, height: 800 },
        locale: 'en-GB',
        // What moves is painted by the processor here, dozens of times a second.
        reducedMotion: 'reduce',
        ...look,
        ...(remembered === undefined ? {} : { storageState: remembered }),
      });
      context.setDefaultTimeout(PATIENCE_MS);
      const seen: string[] = [];
      const newPage = async (): Promise<Page> => {
        const page = await context.newPage();
        page.on('console', (message) => {
          if (['error', 'warning'].includes(message.type())) seen.push(`${page.url()}: ${message.text()}`);
        });
        page.on('pageerror', (error) => seen.push(`${page.url()}: ${error.stack ?? error.message}`));
        return page;
      };
      return {
        context,
        page: await newPage(),
        newPage,
        complaints: (expected = []) =>
          seen.filter((text) => !expected.some((status) => text.includes(`responded with a status of ${status}`))),
      };
    },
    async closePersons() {
      await Promise.all(browser.contexts().map((context) => context.close()));
    },
    async close() {
      await browser.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export async function signIn(page: Page, email: string, password = PASSWORD): Promise<void> {
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password', { exact: true }).fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

export async function signOut(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Your account' }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
}

/** As links of the page do: nothing is loaded again. */
export async function go(page: Page, path: string): Promise<void> {
  await page.evaluate(`history.pushState(null, '', ${JSON.stringify(path)})`);
}

/** Colours that change take a moment: what has an end is waited for. */
async function settled(page: Page): Promise<void> {
  await page.evaluate(`Promise.allSettled(document.getAnimations()
    .filter((animation) => animation.effect.getComputedTiming().endTime !== Infinity)
    .map((animation) => animation.finished)).then(() => null)`);
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** What another scheme of colours changes. */
const RULES_OF_COLOURS = ['color-contrast', 'link-in-text-block'];

/** Findings of axe that are serious or critical, with where they are. `rules`: only those; default: all. */
export async function seriousFindings(page: Page, rules?: readonly string[]): Promise<readonly string[]> {
  // By the debugger's way in, which no policy of the page forbids. Once for each page: it is half a megabyte.
  if ((await page.evaluate('typeof axe')) === 'undefined') await page.evaluate(`${axeSource};0`);
  await settled(page);
  const options = JSON.stringify({ resultTypes: ['violations'], runOnly: rules });
  const found: unknown = await page.evaluate(`axe.run(document, ${options}).then(({ violations }) =>
    violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => id + ': ' + nodes.map(({ html, failureSummary }) => html + ' ' + failureSummary).join(' | ')))`);
  return Array.isArray(found) ? found.map(String) : [String(found)];
}

/** Frames after which a page has come to rest: a chart measures the window first, and is drawn anew later. */
const FRAMES = 60;

/** Pixels that the page is wider than the window when it has come to rest. */
export async function overflow(page: Page): Promise<number> {
  const measured: unknown = await page.evaluate(`(async () => {
    const pixels = () => document.documentElement.scrollWidth - window.innerWidth;
    for (let frame = 0; frame < ${FRAMES} && pixels() > 0; frame += 1) await new Promise(requestAnimationFrame);
    return pixels();
  })()`);
  return Number(measured);
}

const WIDTHS = [320, 768, 1440];
/** Pixels of a letter: 200 percent of what browsers have by themselves. */
const LARGE_PIXELS = 32;

/** From phone to wide screen and with text of twice the size nothing is wider than the window; in both schemes nothing is serious for axe. */
export async function looksWell(t: Subtest, page: Page, name: string): Promise<void> {
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 800 });
    t.ok((await overflow(page)) <= 0, `${name} fits into ${width} pixels`);
  }
  const browser = await page.context().newCDPSession(page);
  await browser.send('Page.setFontSizes', { fontSizes: { standard: LARGE_PIXELS } });
  t.ok((await overflow(page)) <= 0, `${name} fits with large text`);
  await browser.send('Page.setFontSizes', { fontSizes: { standard: LARGE_PIXELS / 2 } });
  await browser.detach();
  for (const [colorScheme, rules] of [
    ['light', undefined],
    ['dark', RULES_OF_COLOURS],
  ] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.locator(`html[data-mantine-color-scheme=${colorScheme}]`).waitFor();
    t.strictSame(await seriousFindings(page, rules), [], `${name}, ${colorScheme}`);
  }
}

/** Fails the test where the pages complained of something else than answers of the expected statuses. */
export function noComplaints(t: Subtest, person: Person, expected: readonly number[] = []): void {
  t.strictSame(person.complaints(expected), []);
}
