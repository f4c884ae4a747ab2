// Uploads that don't move, and answers that get lost: it is said, nothing waits for ever, and nothing is scanned or charged twice.
import type { Page } from 'playwright-core';
import { nestedZip } from '../fixtures/archives.js';
import { noComplaints, type Subtest } from './browser.js';
import { choose, file } from './scan-suite.js';
import { FREE_LIMIT, type Setting } from './setting.js';
import { comes } from './silent-suite.js';

/** Archives in each other, more than the engine opens. */
const TOO_DEEP = 30;
/** Longer than the page waits for an answer while the server is there. */
const LONG_MS = 600_000;

/** The keys of all scans that the page asks for. */
function keysOf(page: Page): readonly string[] {
  const keys: string[] = [];
  page.on('request', (request) => {
    const isScan = request.method() === 'POST' && /\/web\/(?:url-)?scans$/.test(request.url());
    if (isScan) keys.push(request.headers()['idempotency-key'] ?? '');
  });
  return keys;
}

/** Until it is ended, answers to scans are there and don't reach the page: they are lost, or late for ever. */
async function withholdAnswers(page: Page, becomes: 'lost' | 'late'): Promise<() => void> {
  const network = await page.context().newCDPSession(page);
  let isOver = false;
  network.on('Fetch.requestPaused', ({ requestId }) => {
    if (isOver) void network.send('Fetch.continueRequest', { requestId });
    else if (becomes === 'lost') void network.send('Fetch.failRequest', { requestId, errorReason: 'ConnectionReset' });
  });
  const patterns = ['*/web/scans', '*/web/url-scans'].map(
    (urlPattern) => ({ urlPattern, requestStage: 'Response' }) as const,
  );
  await network.send('Fetch.enable', { patterns });
  return () => {
    isOver = true;
  };
}

export async function uploadSuite(tap: Subtest, { server, browser, signedIn }: Setting): Promise<void> {
  tap.afterEach(() => browser.closePersons());
  tap.test('an answer that is lost is fetched by the same key: one scan, one unit', async (t) => {
    const person = await signedIn('/scan');
    const { page } = person;
    const keys = keysOf(page);
    const end = await withholdAnswers(page, 'lost');
    await choose(page, [file('lost.txt')]);
    await page.getByLabel('Or what is behind a URL').fill(`${server.url}/livez`);
    await page.getByRole('button', { name: 'Scan the URL' }).click();
    await page.getByText('The server does not answer.').nth(1).waitFor();
    end();
    await page.getByText('2 of 2 finished').waitFor();
    t.equal(new Set(keys).size, 2, 'one for each');
    t.match(keys[0], /^[0-9a-f]{32}$/);
    t.ok(keys.length >= 4);
    await page.getByRole('link', { name: 'History' }).click();
    await page.getByText('2 scans').first().waitFor();
    await page.reload();
    await page.getByRole('link', { name: 'Scan', exact: true }).click();
    await page.getByText(`2 of ${FREE_LIMIT} scans used`).waitFor();
    t.strictSame(
      person.complaints().filter((text) => !text.includes('net::ERR_')),
      [],
    );
  });

  tap.test('who asks again for what had an answer has it scanned again', async (t) => {
    const person = await signedIn('/scan');
    const { page } = person;
    const keys = keysOf(page);
    await choose(page, [file('refused.bin', nestedZip(Buffer.from('deep'), TOO_DEEP))]);
    for (let count = 1; count <= 2; count += 1) {
      await page.getByText(`${count} of ${FREE_LIMIT} scans used`).waitFor();
      await page.getByRole('button', { name: 'Scan again: refused.bin' }).waitFor();
      if (count === 1) await page.getByRole('button', { name: 'Scan again' }).click();
    }
    t.equal(new Set(keys).size, 2);
    noComplaints(t, person, [422]);
  });

  tap.test('that nothing is answered is said, and who tries again has the answer that was made', async (t) => {
    const person = await signedIn('/livez');
    const { page } = person;
    await page.clock.install();
    await page.goto(`${server.url}/scan`);
    await page.getByText(`0 of ${FREE_LIMIT} scans used`).waitFor();
    const end = await withholdAnswers(page, 'late');
    await choose(page, [file('still.txt'), file('waits.txt'), file('cancelled.txt')]);
    const still = page.getByRole('alert').filter({ hasText: 'No answer for 30 seconds.' });
    await comes(page, async () => (await still.count()) === 3);
    t.equal(await page.locator('.unreachable').count(), 0, 'the server is there');
    await page.getByRole('button', { name: 'Cancel: cancelled.txt' }).click();
    end();
    const row = (name: string) => page.getByRole('listitem').filter({ hasText: name });
    await page.getByRole('button', { name: 'Try again: still.txt' }).click();
    await row('still.txt').getByText('Clean', { exact: true }).waitFor();
    // Who does nothing has it in minutes.
    t.equal(await still.count(), 1);
    await page.clock.fastForward(LONG_MS);
    await comes(page, async () => (await row('waits.txt').getByText('Clean', { exact: true }).count()) === 1);
    await page.reload();
    await page.getByText(`3 of ${FREE_LIMIT} scans used`).waitFor();
    noComplaints(t, person);
  });

  tap.test('an upload that stops is said, and goes on with a server that has gone', async (t) => {
    const person = await signedIn('/livez');
    const { page } = person;
    await page.clock.install();
    await page.goto(`${server.url}/scan`);
    await page.getByText(`0 of ${FREE_LIMIT} scans used`).waitFor();
    const keys = keysOf(page);
    await page.route('**/web/scans', () => undefined);
    await choose(page, [file('stops.txt')]);
    const still = page.getByRole('alert').filter({ hasText: 'Nothing has been sent for 30 seconds' });
    await comes(page, async () => (await still.count()) === 1);
    // The same again, and this time nobody is there.
    await page.route('**/livez', () => undefined);
    await page.getByRole('button', { name: 'Try again' }).click();
    await still.waitFor({ state: 'detached' });
    await comes(page, async () => (await page.locator('.unreachable').count()) === 1);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await comes(page, async () => (await page.getByText('1 of 1 finished').count()) === 1);
    t.equal(new Set(keys).size, keys.length, 'the server may wait for the rest of what was cut off');
    await page.getByText(`1 of ${FREE_LIMIT} scans used`).waitFor();
    noComplaints(t, person);
  });
}
