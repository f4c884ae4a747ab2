// 120 hostile texts as names of files, viruses, keys and accounts, as metadata and addresses: each is text on every page that shows it, and nothing of it is obeyed.
import { createHash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { v7 as uuidv7 } from 'uuid';
import { z } from 'zod';
import { embeddedSocketDirectory } from '../../src/store/embedded/embedded.js';
import { openPostgres } from '../../src/store/postgres.js';
import { API_KEY } from '../fixtures/server.js';
import { ask, bearer, signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { postForm } from '../fixtures/upload.js';
import { noComplaints, overflow, type Person, type Subtest } from './browser.js';
import { asUtf8, HOSTILE, shownAs } from './hostile-names.js';
import { choose } from './scan-suite.js';
import type { Setting } from './setting.js';

const WIDTHS = [390, 1440];
const CONTENT = HOSTILE.map((_, index) => Buffer.from(`hostile ${index}`));
const TEXTS = HOSTILE.map(asUtf8);
const SHORT_NAMES = TEXTS.map((name) => [...name].slice(0, 100).join(''));
const ADDRESSES = TEXTS.map((name) => `http://127.0.0.1:9/${name}`);

/** A signature for each content, with a name that is as hostile as its line can hold: fields end at a colon, lines at their end. */
export function hostileSignatures(): string {
  return CONTENT.flatMap((content, index) => {
    const name = HOSTILE[index] ?? '';
    if (/[:\p{Cc}\p{Cs}]/u.test(name)) return [];
    return [`${createHash('sha256').update(content).digest('hex')}:${content.length}:${name}:73\n`];
  }).join('');
}

const Rows = z.object({
  content: z.array(z.object({ id: z.string(), filename: z.string(), virusName: z.string().nullable() }).loose()),
  totalElements: z.number(),
});

export async function hostileSuite(tap: Subtest, setting: Setting): Promise<void> {
  const { server, operator } = setting;
  tap.equal(new Set(HOSTILE).size, 120);
  const { accessToken, userId } = await signIn(server.url);
  const ids = await scanAll(tap, server.url, accessToken);
  await fillStore(server.directory, userId, ids);
  const scans = await rowsOf(server.url, accessToken);
  const person = await operator('/livez');
  const { page } = person;
  const dialogs = await watch(person);

  /** The texts of the elements are these, and the page is as wide as its window. */
  async function shows(t: Subtest, selector: string, wanted: readonly string[]): Promise<void> {
    const elements = page.locator(selector);
    await until(async () => (await elements.count()) >= wanted.length);
    t.strictSame([...(await elements.allTextContents())].sort(), wanted.map(shownAs).sort(), selector);
    await unharmed(t);
  }

  async function unharmed(t: Subtest): Promise<void> {
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 800 });
      t.ok((await overflow(page)) <= 0, `${page.url()} fits into ${width} pixels`);
      t.strictSame(await runningOut(page), [], `${page.url()}: no text runs out of its box at ${width} pixels`);
    }
    t.equal(await page.evaluate('window.hostile'), undefined);
    t.equal(await page.locator(FOREIGN).count(), 0, 'no element that we have not made');
    t.strictSame(dialogs, []);
  }

  tap.test('on the pages of the history, and of each scan', async (t) => {
    for (const [number, names] of inPages(scans, 50).entries()) {
      await page.goto(`${server.url}/history?page=${number + 1}&sort=creationDate,asc`);
      await page.getByText(`Page ${number + 1} of`).waitFor();
      await shows(
        t,
        '.history-open .name',
        names.map(({ filename }) => filename),
      );
      await shows(
        t,
        '.history-verdict .name',
        names.map(({ virusName }) => virusName ?? ''),
      );
    }
    for (const [index, { id, filename, virusName }] of scans.entries()) {
      await page.evaluate(`history.pushState({}, '', '/scans/${id}')`);
      await page.getByText(id).waitFor();
      const facts = await page.locator('.detail-fact dd').allTextContents();
      t.equal(await page.locator('h1').textContent(), shownAs(filename));
      for (const text of [virusName ?? '', TEXTS[index] ?? '', ADDRESSES[index] ?? '']) {
        t.ok(
          facts.some((fact) => fact.trim() === shownAs(text).trim()),
          `text ${index} is a fact`,
        );
      }
      if (index % 8 === 0) await unharmed(t);
    }
    noComplaints(t, person);
  });

  tap.test('on the overview, and among files that are to be scanned', async (t) => {
    await page.goto(server.url);
    await shows(
      t,
      '.latest-name',
      scans.slice(-10).map(({ filename }) => filename),
    );
    await page.getByRole('link', { name: 'Scan', exact: true }).click();
    // Empty ones are not sent.
    await choose(
      page,
      HOSTILE.map((name) => ({ name, mimeType: 'text/plain', buffer: Buffer.alloc(0) })),
    );
    await page.getByText('120 of 120 finished').waitFor();
    await unharmed(t);
    const shown = await page.locator('.scan-item-name').allTextContents();
    t.strictSame(shown, TEXTS.map(shownAs));
    noComplaints(t, person);
  });

  tap.test('as names of keys, and as addresses of webhooks', async (t) => {
    await page.goto(`${server.url}/keys`);
    await shows(t, '.table-open', ['First key', ...SHORT_NAMES]);
    for (const name of SHORT_NAMES.filter((_, index) => index % 30 === 0)) {
      await page.getByRole('button', { name: `Revoke ${shownAs(name)}`, exact: true }).click();
      await page.getByText(`“${shownAs(name)}”`).waitFor();
      await unharmed(t);
      await page.getByRole('button', { name: 'Cancel' }).click();
    }
    await page.goto(`${server.url}/webhooks`);
    await shows(t, '.table-open', ADDRESSES);
    for (const index of [2, 40, 85]) {
      await page.locator('.table-open').nth(index).click();
      await page.getByText('Nothing here').waitFor();
      await unharmed(t);
      await page.goBack();
      await page.locator('.table-open').first().waitFor();
    }
    noComplaints(t, person);
  });

  tap.test("on the operator's pages", async (t) => {
    await page.goto(`${server.url}/admin/audit`);
    const revoked = page.locator('tr', { hasText: 'key.create' });
    await revoked.first().waitFor();
    for (let count = await revoked.count(); count < HOSTILE.length; ) {
      await page.getByRole('button', { name: 'Older lines' }).click();
      count = await until(async () => {
        const now = await revoked.count();
        return now > count ? now : null;
      });
    }
    const cells = await revoked.locator('td.name').allTextContents();
    const wanted = SHORT_NAMES.map(shownAs);
    t.strictSame(cells.sort(), [...wanted, ...wanted, ...wanted.map((name) => `name ${name}`)].sort());
    await unharmed(t);
    await refuse(t, server.url);
    await page.goto(`${server.url}/admin/activity`);
    await page.getByText('URL rejected').waitFor();
    await unharmed(t);
    await page.goto(`${server.url}/admin/accounts`);
    for (const [number, names] of inPages(SHORT_NAMES, 20).entries()) {
      await page.getByRole('searchbox').fill(`hostile-${number}-`);
      await page.getByText(`1–${names.length} of ${names.length}`).waitFor();
      await page
        .locator('.table-open', { hasText: `hostile-${number}-` })
        .first()
        .waitFor();
      await shows(t, '.admin-second', names);
    }
    noComplaints(t, person);
  });
}

/** What markup makes, and we don't. */
const FOREIGN =
  'main :is(script, iframe, object, embed, base, link, style:not([data-mantine-styles]), form[action], template, [onerror], [onclick], [autofocus][tabindex], img:not([src^="data:"]):not([src^="/assets/"]))';

function inPages<T>(list: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(list.length / size) }, (_, page) => list.slice(page * size, (page + 1) * size));
}

/** Kept: dialogs, and what the policy of the page had to refuse, which the console says as well. */
async function watch({ page }: Person): Promise<readonly string[]> {
  const seen: string[] = [];
  page.on('dialog', (dialog) => {
    seen.push(dialog.message());
    void dialog.accept();
  });
  await page.exposeFunction('violated', (text: string) => seen.push(text));
  await page.addInitScript(
    "addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => violated(violatedDirective + ' ' + blockedURI))",
  );
  return seen;
}

/** Texts that run out of their box, over what is beside it. */
async function runningOut(page: Page): Promise<readonly string[]> {
  const found: unknown = await page.evaluate(`[...document.querySelectorAll('main .name, main .table-open, main h1')]
    .filter((element) => element.getClientRects().length > 0 && getComputedStyle(element).overflowX === 'visible')
    .filter((element) => element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== 'inline')
    .map((element) => element.textContent.slice(0, 60))`);
  return z.array(z.string()).parse(found);
}

/** By the wire, each content with its name, and with its text where metadata may have it; returns the ids of the scans. */
async function scanAll(tap: Subtest, url: string, accessToken: string): Promise<string[]> {
  const ids: string[] = [];
  for (const [index, name] of HOSTILE.entries()) {
    const form = new FormData();
    if (!/\p{Cc}/u.test(name)) form.append('metadata', name);
    form.append('file', new Blob([CONTENT[index] ?? '']), name);
    const { status, headers } = await postForm(url, form);
    if (status !== 200) tap.fail(`name ${index} is not scanned: ${status}`);
    ids.push(headers.get('x-scan-id') ?? '');
  }
  const found = await until(async () => {
    const rows = await rowsOf(url, accessToken);
    return rows.length === HOSTILE.length ? rows : null;
  });
  const named = found.filter(({ virusName }, index) => virusName === `${HOSTILE[index]}.UNOFFICIAL`).length;
  tap.ok(named >= 80, `the engine says ${named} hostile names as they are`);
  return ids;
}

/** What is refused is among the activity of the operator. */
async function refuse(t: Subtest, url: string): Promise<void> {
  const { status } = await ask(`${url}/api/v1/scans`, {
    method: 'POST',
    headers: { 'X-API-KEY': API_KEY, 'Content-Type': 'application/json' },
    body: JSON.stringify({ url: 'http://10.0.0.1/<img src=x onerror=alert(1)>\u202egnp' }),
  });
  t.equal(status, 400);
}

async function rowsOf(url: string, accessToken: string): Promise<z.infer<typeof Rows>['content']> {
  const { body } = await ask(`${url}/web/scans/stats?size=200&sort=creationDate,asc&status=200`, {
    headers: bearer(accessToken),
  });
  return Rows.parse(body).content;
}

/** What the wire doesn't let in: names of viruses that no signature can have, addresses, and more keys and webhooks than an account makes. */
async function fillStore(directory: string, userId: string, ids: readonly string[]): Promise<void> {
  const socketDirectory = embeddedSocketDirectory(join(directory, 'data'));
  const { sql, close } = await openPostgres({ kind: 'embedded', socketDirectory, mayBeEmpty: false });
  for (const [index, id] of ids.entries()) {
    const [text, name, url] = [TEXTS[index] ?? '', SHORT_NAMES[index] ?? '', ADDRESSES[index] ?? ''];
    const email = `hostile-${Math.floor(index / 20)}-${index}@example.com`;
    await sql`
      UPDATE scans SET infected = true, virus_name = coalesce(virus_name, ${text}), metadata = ${text}, url = ${url} WHERE id = ${id}`;
    await sql`
      INSERT INTO api_keys (id, user_id, name, hash, prefix, suffix)
      VALUES (${uuidv7()}, ${userId}, ${name}, ${randomBytes(32)}, 'aaaa', 'zzzz')`;
    await sql`
      INSERT INTO webhooks (id, user_id, url, events, secret, is_enabled)
      VALUES (${uuidv7()}, ${userId}, ${url}, '{scan.failed}', ${randomBytes(8)}, false)`;
    await sql`
      INSERT INTO audit_log (actor, action, target, detail)
      VALUES (${name}, 'key.create', ${name}, ${JSON.stringify({ name })}::text::jsonb)`;
    await sql`INSERT INTO users (id, email, name, plan) VALUES (${uuidv7()}, ${email}, ${name}, 'FREE')`;
  }
  await close();
}
