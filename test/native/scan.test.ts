// One scan: what it refuses to look at, what it answers with odd names and memory of every kind, and that it leaks nothing.
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import t from 'tap';
import { defaultEngineLimits, scanBuffer } from '../../src/engine/clamav/addon.js';
import { zip } from '../fixtures/archives.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { compilePreload } from '../fixtures/preload.js';
import { bodySignature, databaseFolder, load, loadEngine } from './engine.js';

const MARK = 'a mark of this test';
const CLEAN = { code: 0, codeText: 'No viruses detected', virusName: null, alerts: [] };
const FOUND = { code: 1, virusName: 'Test.A.UNOFFICIAL', alerts: ['Test.A.UNOFFICIAL'] };

/** The same function, to be called with what its type forbids. */
function untyped(target: (...args: never[]) => unknown) {
  return (...args: unknown[]): unknown => Reflect.apply(target, undefined, args);
}

t.test('content and nothing else is scanned', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Test.A', MARK) })]);
  const scan = untyped(scanBuffer);
  for (const wrong of [
    undefined,
    null,
    1,
    'text',
    {},
    [],
    new ArrayBuffer(4),
    new Uint16Array(4),
    new DataView(new ArrayBuffer(4)),
  ]) {
    t.throws(() => scan(wrong), TypeError);
  }
  t.throws(() => scan(), TypeError);
});

t.test('empty and detached content has no verdict', async (t) => {
  t.throws(() => scanBuffer(new Uint8Array(0)), { name: 'TypeError', message: /empty/ });
  const content = new Uint8Array(Buffer.from(MARK));
  structuredClone(content, { transfer: [content.buffer] });
  t.throws(() => scanBuffer(content), { name: 'TypeError', message: /detached/ });
});

t.test('wrong options are refused before anything is loaded', async (t) => {
  const loads = untyped(loadEngine);
  const good = { directories: ['/tmp'], temporaryDirectory: '/tmp', limits: defaultEngineLimits };
  const limits = (change: object) => ({ ...good, limits: { ...defaultEngineLimits, ...change } });
  const wrong: unknown[] = [
    undefined,
    null,
    'text',
    {},
    { ...good, directories: [] },
    { ...good, directories: 'text' },
    { ...good, directories: [1] },
    { ...good, directories: ['a\0b'] },
    { ...good, temporaryDirectory: '' },
    { ...good, limits: null },
    limits({ maxFiles: 0 }),
    limits({ maxFiles: -1 }),
    limits({ maxFiles: 1.5 }),
    limits({ maxScanTimeMs: Number.NaN }),
    limits({ maxRecursion: '17' }),
    limits({ maxScanSizeBytes: Number.POSITIVE_INFINITY }),
    limits({ maxFileSizeBytes: defaultEngineLimits.maxScanSizeBytes }),
  ];
  for (const options of wrong) await t.rejects(async () => loads(options), TypeError, JSON.stringify(options));
  await t.rejects(async () => loads(good, 'text'), TypeError);
});

t.test('memory of every kind is read in place', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Test.A', MARK) })]);
  const bytes = Buffer.from(`before ${MARK} behind`);
  const padded = Buffer.concat([Buffer.alloc(9), bytes, Buffer.alloc(9)]);
  const shared = new Uint8Array(new SharedArrayBuffer(bytes.length));
  shared.set(bytes);
  t.match(scanBuffer(bytes), FOUND);
  t.match(scanBuffer(new Uint8Array(bytes)), FOUND);
  t.match(scanBuffer(padded.subarray(9, -9)), FOUND);
  t.match(scanBuffer(shared), FOUND);
  t.match(scanBuffer(padded.subarray(0, 20)), CLEAN, 'bytes outside of the view are not looked at');
  t.match(scanBuffer(Uint8Array.of(0)), CLEAN);
});

t.test('what begins as a file of sound or of SQLite is looked at, as bytes and as text', async (t) => {
  const text = Buffer.from('a text of this test').toString('hex');
  await load(t, [databaseFolder(t, { 'a.ndb': `${bodySignature('Test.A', MARK)}Test.Text:7:*:${text}\n` })]);
  for (const head of ['ID3', '\xff\xfb\x90', 'OggS', '.RMF', 'SQLite format 3\0', '7\x7f\x06\x82\0-\xe2\x18']) {
    t.match(scanBuffer(Buffer.from(`${head}\n<?php ${MARK} ?>`, 'latin1')), FOUND, head);
    const { virusName } = scanBuffer(Buffer.from(`${head}\nA TEXT  of THIS test`, 'latin1'));
    t.equal(virusName, 'Test.Text.UNOFFICIAL', `${head}, as text`);
  }
});

t.test('where no function of libclamav can be replaced, as some keep theirs, such a file is incomplete', async (t) => {
  const folder = databaseFolder(t, { 'a.ndb': bodySignature('Test.A', MARK) });
  const script = `
    import { defaultEngineLimits as limits, scanBuffer } from ${JSON.stringify(import.meta.resolve('../../src/engine/clamav/addon.js'))};
    import { loadEngine } from ${JSON.stringify(import.meta.resolve('./engine.js'))};
    await loadEngine({ directories: [${JSON.stringify(folder)}], temporaryDirectory: ${JSON.stringify(temporaryFolder(t))}, limits });
    const scanned = ['ID3 ${MARK}', 'IDB ${MARK}', 'ID3 words'].map((content) => scanBuffer(Buffer.from(content)));
    console.log(JSON.stringify(scanned.map(({ virusName, alerts }) => virusName ?? alerts[0] ?? 'clean')));`;
  const env = { ...process.env, LD_PRELOAD: compilePreload('no-tables', folder) };
  const printed = execFileSync(process.execPath, ['--input-type=module', '-e', script], { env, encoding: 'utf8' });
  const ignored = 'Sluice.Mark.Incomplete.engine looks at nothing of this kind of file';
  t.same(JSON.parse(printed), [ignored, 'Test.A.UNOFFICIAL', ignored]);
});

t.test('a name is reported with any bytes that it has', async (t) => {
  const long = `Test.${'long'.repeat(75)}`;
  const database = bodySignature(long, 'the first mark') + bodySignature('Test.Größe', 'the second mark');
  await load(t, [databaseFolder(t, { 'a.ndb': database })]);
  t.equal(long.length, 305);
  t.equal(scanBuffer(Buffer.from('the first mark')).virusName, `${long}.UNOFFICIAL`);
  t.equal(scanBuffer(Buffer.from('the second mark')).virusName, 'Test.Größe.UNOFFICIAL');
});

t.test('scans leave neither memory nor temporary files behind', async (t) => {
  const temporaryDirectory = temporaryFolder(t);
  await loadEngine({
    directories: [databaseFolder(t, { 'a.ndb': bodySignature('Test.A', MARK) })],
    temporaryDirectory,
    limits: defaultEngineLimits,
  });
  const member = { name: 'a', content: Buffer.from(MARK) };
  const contents = [
    zip([{ name: 'b', content: Buffer.alloc(100_000, 'text ') }]),
    zip([member]),
    zip([
      { ...member, encrypted: true },
      { name: 'b', content: Buffer.from('b') },
    ]),
    Buffer.alloc(64 * 1024, 'x'),
  ];
  const scanAll = (rounds: number) => {
    for (let round = 0; round < rounds; round += 1) for (const content of contents) scanBuffer(content);
  };
  scanAll(300);
  const before = process.memoryUsage.rss();
  scanAll(1000);
  const grown = process.memoryUsage.rss() - before;
  t.ok(grown < 8 * 1024 * 1024, `4,000 scans grew the process by ${Math.round(grown / 1024)} KiB`);
  t.same(readdirSync(temporaryDirectory), []);
});

t.test('reloads leave no memory behind', async (t) => {
  const lines = Array.from({ length: 5_000 }, (_, i) => bodySignature(`Test.N${i}`, `mark number ${i} of this test`));
  const folder = databaseFolder(t, { 'a.ndb': lines.join('') });
  // The old engine is freed a little after the new one serves, and threads leave heaps behind that the next ones use.
  for (let round = 0; round < 40; round += 1) await load(t, [folder]);
  const before = process.memoryUsage.rss();
  for (let round = 0; round < 30; round += 1) await load(t, [folder]);
  const grown = process.memoryUsage.rss() - before;
  t.ok(grown < 16 * 1024 * 1024, `30 reloads grew the process by ${Math.round(grown / 1024)} KiB`);
});
