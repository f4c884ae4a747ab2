// The journal on a real disk: rows in order and once, within bounds, on a full disk and beside other processes.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { openJournal } from '../../src/history/journal.js';
import type { ScanRow } from '../../src/history/scan-row.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { record, rowAt } from '../fixtures/history.js';
import { noNamespaces } from '../fixtures/namespaces.js';
import { drain, MIB, NOW, open, openTelling, segmentsBelow, someRows } from './journal-harness.js';

t.test('rows come out in the order in which they went in, and stay until they are committed', async (t) => {
  const { journal } = await open(t, temporaryFolder(t));
  const rows = someRows(25);
  await Promise.all(rows.map((row) => record(journal, row)));
  t.match(journal.state(), { rows: 25, oldestAgeMs: Number });
  const first = await journal.read(10);
  t.strictSame(first?.rows, rows.slice(0, 10));
  t.strictSame((await journal.read(10))?.rows, rows.slice(0, 10), 'not committed: read again');
  first?.commit();
  t.equal(journal.state().rows, 15);
  t.strictSame(await drain(journal), rows.slice(10));
  t.strictSame(journal.state(), { rows: 0, bytes: 0, oldestAgeMs: 0, damagedFiles: 0 });
});

t.test('of two batches with the same rows only the first that is committed counts', async (t) => {
  const { journal } = await open(t, temporaryFolder(t));
  const rows = someRows(15);
  for (const row of rows) await record(journal, row);
  const late = await journal.read(5);
  const wide = await journal.read(10);
  wide?.commit();
  late?.commit();
  wide?.commit();
  t.equal(journal.state().rows, 5);
  t.strictSame(await drain(journal), rows.slice(10));
});

t.test('a row is in the file when its append resolves', async (t) => {
  const directory = temporaryFolder(t);
  const { journal } = await open(t, directory);
  for (const row of someRows(3)) {
    await record(journal, row);
    const [segment = ''] = segmentsBelow(directory);
    t.ok(readFileSync(join(directory, segment)).includes(row.id));
  }
});

t.test('a folder that somebody removes is made anew, by the next look and by the next file', async (t) => {
  const directory = temporaryFolder(t);
  const { journal, unwritten } = await open(t, directory);
  const rows = someRows(1200);
  const isInFile = (row: ScanRow | undefined): boolean =>
    segmentsBelow(directory).some((name) => readFileSync(join(directory, name)).includes(row?.id ?? '?'));
  const [first, ...others] = rows;
  const last = others.splice(-1);
  await record(journal, first ?? rowAt(NOW));
  rmSync(directory, { recursive: true });
  await journal.adopt();
  await Promise.all(others.map((row) => record(journal, row)));
  t.ok(isInFile(others[0]), 'by the next look');
  t.strictSame(await drain(journal, 500), [first, ...others]);
  rmSync(directory, { recursive: true });
  await Promise.all(last.map((row) => record(journal, row)));
  t.ok(isInFile(last[0]), 'by the next file');
  t.strictSame(await drain(journal), last);
  t.strictSame(unwritten, []);
});

t.test('a folder that is away for a while stays with its process', async (t) => {
  const above = temporaryFolder(t);
  const directory = join(above, 'journal');
  const { journal } = await open(t, directory);
  const [first, last] = someRows(2);
  await record(journal, first ?? rowAt(NOW));
  renameSync(directory, join(above, 'away'));
  // Nothing can be made there: what is below is not there, or can't be asked for.
  for (const block of [() => symlinkSync(join(above, 'nowhere'), directory), () => writeFileSync(directory, '')]) {
    block();
    await t.rejects(journal.adopt());
    rmSync(directory);
  }
  renameSync(join(above, 'away'), directory);
  const other = await open(t, directory);
  t.strictSame(await drain(other.journal), [], 'another process leaves it alone');
  await record(journal, last ?? rowAt(NOW));
  t.strictSame(await drain(journal), [first, last]);
});

t.test('a journal that is closed with rows in it hands them to the next start', async (t) => {
  const directory = temporaryFolder(t);
  const { journal } = await open(t, directory);
  const rows = someRows(7);
  for (const row of rows) await record(journal, row);
  (await journal.read(2))?.commit();
  await journal.close();
  t.rejects(record(journal, rowAt(NOW)), 'closed');
  const { journal: next } = await open(t, directory);
  t.equal(next.state().rows, 7, 'where it was read up to is not on disk: the database knows what it has');
  t.ok(next.state().oldestAgeMs >= 0);
  t.strictSame(await drain(next), rows);
});

t.test('a journal without rows leaves nothing behind', async (t) => {
  const directory = temporaryFolder(t);
  const { journal } = await open(t, directory);
  for (const row of someRows(3)) await record(journal, row);
  await drain(journal);
  await journal.close();
  t.strictSame(readdirSync(directory), []);
});

t.test('two processes over one folder keep out of each other, and take over when one dies', async (t) => {
  const directory = temporaryFolder(t);
  const { journal: first } = await open(t, directory);
  const { journal: second } = await open(t, directory);
  const rows = someRows(4);
  for (const row of rows) await record(first, row);
  await second.adopt();
  t.equal(await second.read(10), null, 'the first one lives');
  await first.close();
  const own = rowAt(NOW + 100);
  await record(second, own);
  let told = 0;
  second.onRows(1, () => {
    told += 1;
  });
  await second.adopt();
  t.equal(told, 1);
  t.same(new Set((await drain(second)).map(({ id }) => id)), new Set([own, ...rows].map(({ id }) => id)));
});

t.test('files grow to a bound, and go when they are in the database', async (t) => {
  const directory = temporaryFolder(t);
  const { journal } = await open(t, directory);
  const rows = Array.from({ length: 11_000 }, (_, index) => rowAt(NOW + index, { filename: 'n'.repeat(255) }));
  for (let at = 0; at < rows.length; at += 50) {
    await Promise.all(rows.slice(at, at + 50).map((row) => record(journal, row)));
  }
  const segments = segmentsBelow(directory);
  t.equal(segments.length, 2);
  for (const segment of segments) t.ok(statSync(join(directory, segment)).size <= 4 * MIB + 64 * 1024);
  t.strictSame((await drain(journal, 256)).length, rows.length);
  await record(journal, rowAt(NOW));
  await drain(journal);
  t.equal(segmentsBelow(directory).length, 1, 'the one that is appended to');
});

t.test('beyond its bound rows are refused, and taken again when the database has caught up', async (t) => {
  const { journal } = await open(t, temporaryFolder(t), 300 * 1024);
  let kept = 0;
  while (journal.refusal() === null) {
    await record(journal, rowAt(NOW, { filename: 'n'.repeat(255) }));
    kept += 1;
  }
  t.match(journal.refusal(), { detail: 'The history journal is full' });
  await t.rejects(record(journal, rowAt(NOW)), { message: 'The history journal is full' });
  t.equal(journal.state().rows, kept);
  t.equal((await drain(journal)).length, kept);
  t.equal(journal.refusal(), null);
  await record(journal, rowAt(NOW));
});

t.test('hostile texts come out as they went in, without what the database could not hold', async (t) => {
  const { journal } = await open(t, temporaryFolder(t));
  const filename = '"\\\u2028\ud83d\ude00\ud800\u0007\u0000é'.repeat(20);
  await record(journal, rowAt(NOW, { filename, virusName: 'x'.repeat(9999), error: '\0', durationMs: 1e300 }));
  const [row] = await drain(journal);
  t.equal(row?.filename, filename.replaceAll('\0', ''));
  t.equal(row?.virusName, 'x'.repeat(255));
  t.equal(row?.error, '');
  t.equal(row?.durationMs, 2_147_483_647);
});

t.test(
  'a full disk refuses rows, loses none, and takes them again when there is room',
  { skip: noNamespaces },
  async (t) => {
    const directory = temporaryFolder(t);
    const script = fileURLToPath(new URL('full-disk.js', import.meta.url));
    const mounted = 'mount -t tmpfs -o size=200k none "$1" && shift && exec "$@"';
    const child = spawn('unshare', ['-rm', 'sh', '-c', mounted, 'sh', directory, process.execPath, script, directory], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const output: string[] = [];
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => output.push(String(data)));
    await once(child, 'close');
    t.match(JSON.parse(output.join('')), {
      refusedBy: /ENOSPC/,
      problem: 'The history journal can not be written',
      stays: true,
      kept: Number,
      same: true,
      empty: 0,
    });
  },
);

t.test('a folder that can not be made stops the start', async (t) => {
  const file = join(temporaryFolder(t), 'data');
  writeFileSync(file, '');
  await t.rejects(
    openJournal({
      directory: join(file, 'journal'),
      limitBytes: MIB,
      onDamage: () => undefined,
      onTransientFailure: () => undefined,
      onUnwritten: () => undefined,
    }),
    {
      code: 'ENOTDIR',
    },
  );
});

t.test(
  'rows come out in order and once, whether they are in memory, on the disk alone, or some of them there',
  async (t) => {
    for (const recentRows of [0, 1, 4, 1000]) {
      const { journal } = await openTelling(temporaryFolder(t), 64 * MIB, recentRows);
      const rows = someRows(30);
      const out: ScanRow[] = [];
      for (let at = 0; at < rows.length; at += 6) {
        await Promise.all(rows.slice(at, at + 6).map((row) => record(journal, row)));
        const batch = await journal.read(4);
        out.push(...(batch?.rows ?? []));
        batch?.commit();
      }
      out.push(...(await drain(journal, 5)));
      t.strictSame(out, rows, `${recentRows} in memory`);
      await journal.close();
    }
  },
);

t.test('the first row waits for the end of its turn and nothing else', async (t) => {
  const { journal } = await open(t, temporaryFolder(t));
  let isRecorded = false;
  journal.append({ row: () => rowAt(NOW), onRecorded: () => (isRecorded = true), onUnrecorded: t.error });
  await new Promise((resolve) => setImmediate(resolve));
  t.ok(isRecorded);
});

t.test('rows of one turn are in the file together when the first of them resolves', async (t) => {
  const directory = temporaryFolder(t);
  const { journal } = await open(t, directory);
  await record(journal, rowAt(NOW));
  const rows = someRows(5);
  await Promise.race(rows.map((row) => record(journal, row)));
  const [segment = ''] = segmentsBelow(directory);
  const file = readFileSync(join(directory, segment));
  for (const { id } of rows) t.ok(file.includes(id));
});

t.test('a row that is too long for a record is refused, and costs no other', async (t) => {
  const { journal, unwritten } = await open(t, temporaryFolder(t));
  const rows = someRows(2);
  const first = record(journal, rows[0] ?? rowAt(NOW));
  await t.rejects(record(journal, rowAt(NOW, { sha256: 'a'.repeat(18_000) })), { code: 'unavailable' });
  t.match(unwritten, [RangeError]);
  await first;
  await record(journal, rows[1] ?? rowAt(NOW));
  t.strictSame(await drain(journal), rows);
});
