// The scan page: files of all kinds dropped at once, what each comes to, and a service that can't take them now.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { nestedZip } from '../fixtures/archives.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { serverOf } from '../fixtures/processes.js';
import { eicar } from '../fixtures/samples.js';
import { noComplaints, type Subtest } from './browser.js';
import { FREE_LIMIT, type Setting } from './setting.js';

interface Chosen {
  readonly name: string;
  readonly mimeType: string;
  readonly buffer: Buffer;
}

export function file(name: string, content: string | Buffer = name): Chosen {
  return { name, mimeType: 'application/octet-stream', buffer: Buffer.from(content) };
}

export async function choose(page: Page, files: readonly Chosen[]): Promise<void> {
  await page.locator('input[type=file]').setInputFiles([...files]);
}

/** Large ones: what isn't read from the disk goes to the browser as base64. */
async function chooseFrom(page: Page, folder: string, files: readonly Chosen[]): Promise<void> {
  for (const { name, buffer } of files) writeFileSync(join(folder, name), buffer);
  await page.locator('input[type=file]').setInputFiles(files.map(({ name }) => join(folder, name)));
}

const TOO_LARGE_BYTES = 10 * 1024 * 1024 + 1;
const TOO_DEEP = 30;
const HOUR_MS = 3_600_000;
/** Shorter than what is left of nearly every hour. */
const PAUSE_MS = 2_000;
/** More than a browser gives at once. */
const MANY_IN_FOLDER = 250;
/** Files, and how often the name of each may be drawn: it stands there three times, in a handful of states. */
const MANY = 60;
const DRAWN_MAX = 30;

export async function scanSuite(tap: Subtest, setting: Setting): Promise<void> {
  const { server, browser, signedIn, operator } = setting;
  tap.afterEach(() => browser.closePersons());

  tap.test('verdicts come as they are: clean, infected, too large, empty, not fully looked at', async (t) => {
    const person = await signedIn('/scan');
    const { page } = person;
    await chooseFrom(page, temporaryFolder(t), [
      file('clean.txt'),
      file('virus.com', eicar()),
      file('large.bin', Buffer.alloc(TOO_LARGE_BYTES)),
      file('empty.txt', ''),
      file('deep.zip', nestedZip(Buffer.from('deep'), TOO_DEEP)),
    ]);
    await page.getByText('5 of 5 finished').waitFor();
    const row = (name: string) => page.getByRole('listitem').filter({ hasText: name });
    t.match(await row('clean.txt').textContent(), /Clean/);
    t.match(await row('virus.com').textContent(), /Infected: .*EICAR/i);
    t.match(
      await row('large.bin').textContent(),
      /Too large: at most 10 MB \(10,485,760 bytes\) are scanned, and it has 10,485,761 bytes/,
    );
    t.match(await row('empty.txt').textContent(), /Empty: there is nothing to scan/);
    t.match(await row('deep.zip').textContent(), /Not fully looked at, so there is no verdict/);
    // How many came to what, and those of one outcome alone.
    const shown = () => page.locator('.scan-item-name').allTextContents();
    await page.getByRole('button', { name: '3 without a verdict' }).click();
    t.strictSame(await shown(), ['large.bin', 'empty.txt', 'deep.zip']);
    await page.getByRole('button', { name: '1 clean' }).click();
    t.strictSame(await shown(), ['clean.txt']);
    await row('clean.txt').getByRole('button', { name: 'Remove' }).click();
    t.strictSame(await shown(), ['virus.com', 'large.bin', 'empty.txt', 'deep.zip'], 'nothing is left of that outcome');
    // What was refused here was never sent.
    await page.getByText(`3 of ${FREE_LIMIT} scans used`).waitFor();
    await row('virus.com').getByRole('link', { name: 'Details' }).click();
    await page.getByText('SHA-256').waitFor();
    noComplaints(t, person, [422]);
  });

  tap.test('an answer that is none of the service is said, and the next file goes on', async (t) => {
    const person = await signedIn('/scan');
    const { page } = person;
    await page.route('**/web/scans', (route) => route.fulfill({ contentType: 'text/html', body: '<h1>Welcome</h1>' }));
    await choose(page, [file('strange.txt')]);
    await page.getByText('The answer is none of this service’s').first().waitFor();
    await page.unroute('**/web/scans');
    await page.getByRole('button', { name: 'Scan again' }).click();
    await page.getByText('Clean', { exact: true }).waitFor();
    noComplaints(t, person);
  });

  tap.test('all files of a dropped folder are listed, whatever their names, and an empty one is said', async (t) => {
    const person = await signedIn('/scan');
    const { page, context } = person;
    const folder = temporaryFolder(t);
    const mouse = await context.newCDPSession(page);
    async function drop(...files: readonly string[]): Promise<void> {
      const { x = 0, y = 0 } = (await page.locator('.scan-drop').boundingBox()) ?? {};
      const items = files.length > 0 ? [] : [{ mimeType: 'text/plain', data: 'https://example.com/' }];
      const data = { items, files: [...files], dragOperationsMask: 1 };
      for (const type of ['dragEnter', 'dragOver', 'drop'] as const) {
        await mouse.send('Input.dispatchDragEvent', { type, x: x + 40, y: y + 40, data });
      }
    }
    const nothing = page.getByText('There is no file in what was dropped.');
    await drop();
    await nothing.waitFor();
    mkdirSync(join(folder, 'empty', 'too'), { recursive: true });
    await drop(join(folder, 'empty'));
    await nothing.nth(1).waitFor();
    mkdirSync(join(folder, 'full', 'a', 'b'), { recursive: true });
    const names = ['invoice.pdf.lnk', 'site.url', ' .blank', 'a\'"<b>.txt', '日本語.txt', 'ж'.repeat(127), 'Thumbs.db'];
    for (const name of names) writeFileSync(join(folder, 'full', 'a', 'b', name), '');
    for (let index = 0; index < MANY_IN_FOLDER; index += 1)
      writeFileSync(join(folder, 'full', 'a', `${index}.txt`), '');
    writeFileSync(join(folder, 'full', 'locked.txt'), 'locked');
    // The browser has no name for what files are here: it is found at the first of them.
    await page.evaluate(`const { webkitGetAsEntry } = DataTransferItem.prototype;
      DataTransferItem.prototype.webkitGetAsEntry = function () {
        const entry = webkitGetAsEntry.call(this);
        if (!entry.isFile) return entry;
        const kind = Object.getPrototypeOf(entry);
        const { file } = kind;
        kind.file = function (found, failed) {
          if (this.name === 'locked.txt') failed(new DOMException('', 'NotReadableError'));
          else file.call(this, found, failed);
        };
        return entry;
      };`);
    writeFileSync(join(folder, 'alone.txt'), '');
    await drop(join(folder, 'alone.txt'));
    await page.getByText('1 of 1 finished').waitFor();
    await drop(join(folder, 'full'));
    const all = MANY_IN_FOLDER + names.length + 2;
    await page.getByText(`${all} of ${all} finished`).waitFor();
    const shown = new Set(await page.locator('.scan-item-name').allTextContents());
    t.strictSame(
      names.filter((name) => !shown.has(name)),
      [],
    );
    const locked = page.getByRole('listitem').filter({ hasText: 'locked.txt' });
    t.match(await locked.textContent(), /The file could not be read/);
    noComplaints(t, person);
  });

  tap.test('the test file is offered, and found', async (t) => {
    const person = await signedIn('/scan');
    const { page } = person;
    await page.getByRole('button', { name: 'Try a harmless test file' }).click();
    await page.getByText(/Infected: .*EICAR/i).waitFor();
    // A file is pasted as well, but not in the place of a text.
    const paste = (selector: string) =>
      page.evaluate(`(() => {
        const clipboardData = new DataTransfer();
        clipboardData.items.add(new File(['pasted'], 'pasted.png'));
        const event = new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true });
        document.querySelector('${selector}').dispatchEvent(event);
      })()`);
    for (const selector of ['body', 'input[type=url]']) await paste(selector);
    await page.getByText('2 of 2 finished').waitFor();
    await page.getByRole('button', { name: 'Remove: pasted.png' }).click();
    await page.getByRole('button', { name: 'Try a harmless test file' }).click();
    // Who listens hears of each, also where it is the same as the one before.
    await page
      .getByRole('log')
      .getByText(/^eicar\.com: infected/)
      .nth(1)
      .waitFor({ state: 'attached' });
    t.equal(await page.getByRole('log').locator('p').count(), 3);
    noComplaints(t, person);
  });

  tap.test('files go on while other pages are shown', async (t) => {
    const person = await signedIn('/scan');
    const { page } = person;
    await choose(page, [file('one.txt'), file('two.txt')]);
    await page.getByRole('link', { name: 'API keys' }).click();
    await page.getByText('No keys yet').waitFor();
    await page.getByRole('link', { name: 'Scan', exact: true }).click();
    await page.getByText('2 of 2 finished').waitFor();
    // What had the focus goes, and the page has it.
    const list = page.getByRole('region', { name: 'Scans' });
    await list.getByRole('button', { name: 'Remove: one.txt' }).press('Enter');
    await page.locator('section:focus').filter({ hasText: '1 of 1 finished' }).waitFor();
    await page.getByRole('button', { name: 'Clear the finished ones' }).press('Enter');
    await page.locator('main:focus').waitFor();
    // One of many draws itself anew, and not all others.
    const body = {
      filename: 'x',
      extension: '',
      sizeInBytes: 1,
      scanDurationMillis: 1,
      infected: false,
      virusName: null,
    };
    await page.route('**/web/scans', (route) => route.fulfill({ json: body }));
    // A row that is drawn looks for what can't be seen in its name.
    await page.evaluate(`window.drawn = 0;
      const replace = String.prototype.replace;
      String.prototype.replace = function (...rest) {
        if (this.startsWith('many-')) window.drawn += 1;
        return replace.apply(this, rest);
      };`);
    await choose(
      page,
      Array.from({ length: MANY }, (_, index) => file(`many-${index}`)),
    );
    await page.getByText(`${MANY} of ${MANY} finished`).waitFor();
    const drawn = Number(await page.evaluate('window.drawn'));
    t.ok(drawn < MANY * DRAWN_MAX, `${drawn} names drawn`);
    noComplaints(t, person);
  });

  tap.test('a quota that ends in the middle of ten files holds the rest, and says until when', async (t) => {
    const person = await signedIn('/scan');
    const { page } = person;
    await choose(
      page,
      Array.from({ length: 10 }, (_, index) => file(`file-${index}.txt`)),
    );
    await page.getByText(`${FREE_LIMIT} of 10 finished`).waitFor();
    await page.getByText('The quota of this hour is used up').first().waitFor();
    await page.getByText(`${FREE_LIMIT} of ${FREE_LIMIT} scans used`).waitFor();
    t.equal(await page.getByText('Clean', { exact: true }).count(), FREE_LIMIT);
    // Leaving would lose them: the browser asks.
    let asked = false;
    page.on('dialog', (dialog) => {
      asked = dialog.type() === 'beforeunload';
      void dialog.accept();
    });
    await page.getByRole('heading', { name: 'Scan', exact: true }).click();
    await page.reload();
    t.ok(asked);
    await page.goto(`${server.url}/`);
    await page.getByText(/ by the hour; [1-9]\d* refused before they began/).waitFor();
    noComplaints(t, person, [429]);
  });

  tap.test('a quota is waited for as long as the service says, whatever the browser has for a clock', async (t) => {
    const person = await signedIn('/scan');
    const { page } = person;
    await choose(
      page,
      Array.from({ length: FREE_LIMIT }, (_, index) => file(`used-${index}.txt`)),
    );
    await page.getByText(`${FREE_LIMIT} of ${FREE_LIMIT} finished`).waitFor();
    const usedUp = page.getByText('The quota of this hour is used up').first();
    const isScan = (message: { url(): string }) => message.url().endsWith('/web/scans');
    let requests = 0;
    page.on('dialog', (dialog) => void dialog.accept());
    page.on('request', (request) => {
      if (isScan(request)) requests += 1;
    });
    for (const offsetMs of [2 * HOUR_MS, -2 * HOUR_MS]) {
      requests = 0;
      await page.clock.install({ time: Date.now() + offsetMs });
      await page.reload();
      await page.getByRole('heading', { name: 'Scan', exact: true }).waitFor();
      await choose(page, [file('waits.txt')]);
      await usedUp.waitFor();
      await page.clock.runFor(PAUSE_MS);
      const [again] = await Promise.all([
        page.waitForResponse(isScan),
        page.getByRole('button', { name: 'Try now' }).click(),
      ]);
      t.equal(again.status(), 429);
      t.equal(requests, 2, 'only the two that somebody has asked for');
      await usedUp.waitFor();
      const goesOn = page.waitForRequest(isScan);
      await page.clock.fastForward(HOUR_MS + PAUSE_MS);
      t.ok(await goesOn, 'in an hour there is another quota, and it goes on');
    }
    noComplaints(t, person, [429]);
  });

  tap.test('a URL is scanned, and what the service says against one is shown', async (t) => {
    const person = await signedIn('/scan');
    const { page } = person;
    await page.getByLabel('Or what is behind a URL').fill('ftp://files.example/');
    await page.getByRole('button', { name: 'Scan the URL' }).click();
    await page.getByText('Enter an address that begins with http').waitFor();
    await page.getByLabel('Or what is behind a URL').fill('http://10.0.0.1/<b>report</b>.pdf');
    await page.keyboard.press('Enter');
    await page.getByText(/^Not scanned: URL rejected/).waitFor();
    await page.getByText('http://10.0.0.1/<b>report</b>.pdf', { exact: true }).waitFor();
    await page.getByLabel('Or what is behind a URL').fill(`${server.url}/livez`);
    await page.keyboard.press('Enter');
    await page.getByText('1 clean').waitFor();
    await page.getByRole('link', { name: 'Details' }).click();
    await page.getByText(`${server.url}/livez`).waitFor();
    noComplaints(t, person, [400]);
  });

  tap.test('a server that dies in the middle of ten uploads is waited for, and all ten are scanned', async (t) => {
    // More than the smallest plan allows.
    const person = await operator('/scan');
    const { page, context } = person;
    await page.getByRole('heading', { name: 'Scan', exact: true }).waitFor();
    const network = await context.newCDPSession(page);
    const speed = (uploadThroughput: number) =>
      network.send('Network.emulateNetworkConditions', {
        offline: false,
        latency: 0,
        downloadThroughput: -1,
        uploadThroughput,
      });
    await speed(512 * 1024);
    const files = Array.from({ length: 10 }, (_, index) => file(`slow-${index}.bin`, Buffer.alloc(512 * 1024, index)));
    await chooseFrom(page, temporaryFolder(t), files);
    await page.getByText(/^[1-7] of 10 finished/).waitFor();
    await page.getByText('Uploading').first().waitFor();
    process.kill(serverOf(server.pid), 'SIGKILL');
    await speed(-1);
    await page.getByText('10 of 10 finished').waitFor();
    t.equal(await page.getByText('Clean', { exact: true }).count(), files.length);
    const others = person.complaints([503]).filter((text) => !text.includes('net::ERR_'));
    t.strictSame(others, []);
  });
}
