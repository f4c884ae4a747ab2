// What crashes, cuts, damage and other processes leave to the journal: each whole row once, the rest reported and put aside.
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import t from 'tap';
import { createDamagedFiles, type Readable, readBlocks } from '../../src/history/segment.js';
import { adoptFolders } from '../../src/history/segments.js';
import { StoreError } from '../../src/store/store-error.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { encodeRow, frame, record, rowAt } from '../fixtures/history.js';
import { noNamespaces } from '../fixtures/namespaces.js';
import { drain, leave, NOW, open, openForgetful, segmentsBelow, someRows } from './journal-harness.js';

t.test('what a killed process left, cut anywhere, is replayed whole by whole and once', async (t) => {
  const rows = someRows(20);
  const file = Buffer.concat(rows.map((row) => frame(encodeRow(row))));
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 0, max: file.length }), async (cut) => {
      const directory = temporaryFolder(t);
      leave(directory, '00000000000000aa', [file, file.subarray(0, cut)]);
      const { journal, damage } = await open(t, directory);
      const whole = rows.filter((_, index) => {
        const end = rows.slice(0, index + 1).reduce((sum, row) => sum + frame(encodeRow(row)).length, 0);
        return end <= cut;
      });
      t.equal(journal.state().rows, rows.length + whole.length);
      t.strictSame(await drain(journal), [...rows, ...whole]);
      t.strictSame(damage, [], 'a torn end is no damage');
      t.notOk(existsSync(join(directory, '00000000000000aa')), 'the folder is gone with its last row');
      await journal.close();
    }),
    { numRuns: 60 },
  );
});

t.test('damage in the middle is reported, costs one row, and the file is put aside', async (t) => {
  const directory = temporaryFolder(t);
  const rows = someRows(5);
  const file = Buffer.concat(rows.map((row) => frame(encodeRow(row))));
  const middle = frame(encodeRow(rows[0] ?? rowAt(0))).length + 20;
  file[middle] = (file[middle] ?? 0) ^ 1;
  leave(directory, '00000000000000bb', [file]);
  const { journal, damage } = await open(t, directory);
  t.strictSame(await drain(journal), [rows[0], ...rows.slice(2)]);
  t.equal(damage.length, 1);
  t.strictSame(readdirSync(join(directory, 'damaged')), ['00000000000000bb-000000001.log']);
});

t.test('a record that is whole and of another shape is reported and put aside', async (t) => {
  const directory = temporaryFolder(t);
  const row = rowAt(NOW);
  leave(directory, '00000000000000cc', [Buffer.concat([frame('{"version":9}'), frame(encodeRow(row))])]);
  const { journal, damage } = await open(t, directory);
  t.strictSame(await drain(journal), [row]);
  t.equal(damage.length, 1);
  t.strictSame(readdirSync(join(directory, 'damaged')), ['00000000000000cc-000000001.log']);
});

t.test('a row of a later version, which has more fields, is a row', async (t) => {
  const directory = temporaryFolder(t);
  const row = rowAt(NOW);
  leave(directory, '00000000000000cc', [frame(JSON.stringify({ ...JSON.parse(encodeRow(row)), region: 'eu' }))]);
  const { journal, damage } = await open(t, directory);
  t.strictSame(await drain(journal), [row]);
  t.strictSame(damage, []);
});

t.test('a segment that can not be read is put aside, and those before and behind it are replayed', async (t) => {
  const rows = someRows(30);
  const file = (from: number): Buffer => Buffer.concat(rows.slice(from, from + 10).map((row) => frame(encodeRow(row))));
  /** What may lie in the second one's place, and which rows are whole in it. */
  const places: Record<string, { make: (path: string) => void; whole: number[] }> = {
    folder: { make: (path) => mkdirSync(path), whole: [] },
    'link to nothing': { make: (path) => symlinkSync('/nowhere/at/all', path), whole: [] },
    'link to itself': { make: (path) => symlinkSync(path, path), whole: [] },
    pipe: { make: (path) => execFileSync('mkfifo', [path]), whole: [] },
    device: { make: (path) => symlinkSync('/dev/zero', path), whole: [] },
    'foreign file': { make: (path) => writeFileSync(path, 'not of ours\n'.repeat(50_000)), whole: [] },
    zeros: { make: (path) => writeFileSync(path, Buffer.alloc(300_000)), whole: [] },
    'whole rows, then zeros': {
      make: (path) => writeFileSync(path, Buffer.concat([file(10), Buffer.alloc(5_000)])),
      whole: rows.slice(10, 20).map((_, index) => 10 + index),
    },
    'a hole in the middle': {
      make(path) {
        const bytes = file(10);
        bytes.fill(0, 40, 50);
        writeFileSync(path, bytes);
      },
      whole: rows.slice(11, 20).map((_, index) => 11 + index),
    },
  };
  for (const [name, { make, whole }] of Object.entries(places)) {
    const directory = temporaryFolder(t);
    const folder = join(directory, '00000000000000aa');
    leave(directory, '00000000000000aa', [file(0), Buffer.alloc(0), file(20)]);
    rmSync(join(folder, '000000002.log'));
    make(join(folder, '000000002.log'));
    const { journal, damage } = await open(t, directory);
    const expected = [...rows.slice(0, 10), ...whole.map((index) => rows[index]), ...rows.slice(20)];
    t.strictSame(await drain(journal), expected, name);
    t.ok(damage.length > 0, `${name}: reported`);
    t.ok(damage.every((one) => one.reason !== ''));
    t.strictSame(readdirSync(join(directory, 'damaged')), ['00000000000000aa-000000002.log'], name);
    t.notOk(existsSync(folder), `${name}: its folder is gone`);
    t.match(journal.state(), { rows: 0, bytes: 0, damagedFiles: 1 }, name);
    await record(journal, rowAt(NOW));
    t.equal((await drain(journal)).length, 1);
    await journal.close();
    const { journal: next, damage: told } = await open(t, directory);
    t.equal(next.state().damagedFiles, 1, 'counted until somebody takes it away');
    t.strictSame(told, []);
    rmSync(join(directory, 'damaged'), { recursive: true });
    await next.adopt();
    t.equal(next.state().damagedFiles, 0);
    await next.close();
  }
});

t.test('what can not even be put aside stays, is counted, and keeps nobody', async (t) => {
  const directory = temporaryFolder(t);
  const row = rowAt(NOW);
  writeFileSync(join(directory, 'damaged'), 'a file has the name');
  leave(directory, '00000000000000aa', [frame(encodeRow(row))]);
  mkdirSync(join(directory, '00000000000000aa', '000000000.log'));
  writeFileSync(join(directory, '00000000000000bb'), 'no folder');
  const { journal, damage } = await open(t, directory);
  t.strictSame(await drain(journal), [row]);
  t.ok(existsSync(join(directory, '00000000000000aa', '000000000.log')));
  t.equal(journal.state().damagedFiles, 2);
  const told = damage.length;
  await journal.adopt();
  await journal.adopt();
  t.equal(damage.length, told, 'reported once');
  rmSync(join(directory, '00000000000000bb'));
  await journal.adopt();
  t.equal(journal.state().damagedFiles, 1, 'what is gone is not counted');
  rmSync(join(directory, 'damaged'));
  await journal.adopt();
  t.strictSame(readdirSync(join(directory, 'damaged')), ['00000000000000aa-000000000.log']);
  t.notOk(existsSync(join(directory, '00000000000000aa')), 'put aside as soon as that can be, and its folder with it');
  t.equal(journal.state().damagedFiles, 1);
  t.equal(damage.length, told);
});

t.test('damaged files of living and dead that can not be put aside are put aside later', async (t) => {
  const directory = temporaryFolder(t);
  const rows = someRows(3);
  const file = Buffer.concat(rows.map((row) => frame(encodeRow(row))));
  file[file.length - 1] = (file.at(-1) ?? 0) ^ 1;
  leave(directory, '00000000000000aa', [Buffer.concat([file, frame(encodeRow(rowAt(NOW)))])]);
  writeFileSync(join(directory, 'damaged'), 'a file has the name');
  const { journal, damage } = await openForgetful(t, directory);
  t.equal((await drain(journal)).length, 3);
  for (const row of rows) await record(journal, row);
  const own = segmentsBelow(directory).find((name) => !name.startsWith('00000000000000aa')) ?? '';
  truncateSync(join(directory, own), file.length - 1);
  t.equal((await drain(journal)).length, 2);
  // The next write begins another file, and this one is done with.
  await record(journal, rowAt(NOW));
  t.equal((await drain(journal)).length, 1);
  t.equal(journal.state().damagedFiles, 2);
  const told = damage.length;
  await journal.adopt();
  t.equal(journal.state().damagedFiles, 2);
  rmSync(join(directory, 'damaged'));
  await journal.adopt();
  t.equal(readdirSync(join(directory, 'damaged')).length, 2);
  t.equal(journal.state().damagedFiles, 2);
  t.equal(damage.length, told, 'each is reported once');
  t.notOk(existsSync(join(directory, '00000000000000aa')));
  rmSync(join(directory, 'damaged'), { recursive: true });
  await journal.close();
  t.strictSame(readdirSync(directory), []);
});

t.test('what says nothing of a folder is reported and not noted, and the folder is taken over later', async (t) => {
  const directory = temporaryFolder(t);
  const script = fileURLToPath(new URL('few-descriptors.js', import.meta.url));
  const output = execFileSync('sh', ['-c', 'ulimit -n 256; exec "$@"', 'sh', process.execPath, script, directory]);
  t.match(JSON.parse(String(output)), {
    transientFailures: [/EMFILE/, /EMFILE/],
    damage: [],
    damagedFiles: [0, 0],
    rows: 1,
  });
});

t.test("a folder that another process removes meanwhile is nobody's error, whatever the lock says of it", async (t) => {
  const directory = temporaryFolder(t);
  leave(directory, '00000000000000aa', []);
  mkdirSync(join(directory, '00000000000000aa', '000000001.log'));
  const adopted = await adoptFolders(directory, new Set(), {
    damaged: createDamagedFiles(directory),
    onDamage() {
      rmSync(join(directory, '00000000000000aa'), { recursive: true });
      throw new StoreError("the folder can't hold the lock, a UNIX socket: listen ENOENT");
    },
    onTransientFailure: (failure) => t.fail('a transient failure', failure),
  });
  t.strictSame(adopted, []);
});

t.test('a folder that can not be removed keeps no lock', { skip: noNamespaces }, async (t) => {
  const directory = temporaryFolder(t);
  const script = fileURLToPath(new URL('stubborn-folder.js', import.meta.url));
  const mounted = 'mkdir -p "$1" && mount -t tmpfs none "$1" && shift && exec "$@"';
  const inner = join(directory, '00000000000000aa', 'extra');
  const output = execFileSync('unshare', [
    '-rm',
    'sh',
    '-c',
    mounted,
    'sh',
    inner,
    process.execPath,
    script,
    directory,
  ]);
  t.match(JSON.parse(String(output)), {
    more: 0,
    transientFailures: [/EBUSY/, /EBUSY/, /EBUSY/, /EBUSY/],
    damage: [],
  });
});

t.test('a segment that is in the database and can not be removed is tried again, and not damaged', async (t) => {
  const directory = temporaryFolder(t);
  const rows = someRows(3);
  leave(directory, '00000000000000cc', [Buffer.concat(rows.map((row) => frame(encodeRow(row))))]);
  const { journal, damage, transientFailures } = await open(t, directory);
  const batch = await journal.read(10);
  t.strictSame(batch?.rows, rows);
  const path = join(directory, '00000000000000cc', '000000001.log');
  rmSync(path);
  // A folder can't be unlinked.
  mkdirSync(path);
  batch?.commit();
  t.strictSame(await drain(journal), []);
  t.strictSame(damage, []);
  t.match(transientFailures, [{ file: path, reason: /^it can not be put away: / }]);
  rmSync(path, { recursive: true });
  await journal.adopt();
  t.equal(transientFailures.length, 1);
  t.notOk(existsSync(join(directory, '00000000000000cc')));
});

t.test('a segment that goes away under its process is reported, and the next rows have another', async (t) => {
  const directory = temporaryFolder(t);
  const { journal, damage } = await openForgetful(t, directory);
  await record(journal, rowAt(NOW));
  const [segment = ''] = segmentsBelow(directory);
  rmSync(join(directory, segment));
  t.strictSame(await drain(journal), []);
  t.match(damage[0], { file: join(directory, segment), bytes: Number, reason: /ENOENT/ });
  t.equal(journal.state().rows, 0);
  const rows = someRows(3);
  for (const row of rows) await record(journal, row);
  t.strictSame(await drain(journal), rows);
});

t.test('a segment that was cut under its process gives what is left of it', async (t) => {
  const directory = temporaryFolder(t);
  const { journal, damage } = await openForgetful(t, directory);
  const rows = someRows(5);
  for (const row of rows) await record(journal, row);
  const [segment = ''] = segmentsBelow(directory);
  truncateSync(join(directory, segment), frame(encodeRow(rows[0] ?? rowAt(0))).length * 3 + 20);
  t.strictSame(await drain(journal), rows.slice(0, 3));
  t.equal(damage.length, 1);
  t.match(journal.state(), { rows: 0, bytes: 0 });
  const more = someRows(2);
  for (const row of more) await record(journal, row);
  t.strictSame(await drain(journal), more);
  t.equal(journal.state().damagedFiles, 1);
});

t.test('where a disk fails, the blocks around are read', async (t) => {
  const content = Buffer.alloc(20_000, 'abc');
  /** A disk whose second and last block can't be read. */
  const file: Readable = {
    read: async (buffer, offset, length, position) => {
      const isBad = [4096, 16_384].some((bad) => position < bad + 4096 && position + length > bad);
      if (isBad) throw Object.assign(new Error('i/o error'), { code: 'EIO' });
      return { bytesRead: content.copy(buffer, offset, position, position + length) };
    },
  };
  const buffer = Buffer.alloc(20_000, 'x');
  t.equal(await readBlocks(file, buffer, 0), 4096 + 20_000 - 16_384);
  t.ok(buffer.subarray(0, 4096).equals(content.subarray(0, 4096)));
  t.ok(buffer.subarray(4096, 8192).equals(Buffer.alloc(4096)));
  t.ok(buffer.subarray(8192, 16_384).equals(content.subarray(8192, 16_384)));
  const tooMany = { read: () => Promise.reject(Object.assign(new Error('too many files'), { code: 'EMFILE' })) };
  await t.rejects(readBlocks(tooMany, buffer, 0), { code: 'EMFILE' }, 'says nothing of the file');
});

t.test('a copy of a segment that was replayed before is replayed again: only the database can tell', async (t) => {
  const directory = temporaryFolder(t);
  const { journal } = await open(t, directory);
  await record(journal, rowAt(NOW));
  const [segment = ''] = segmentsBelow(directory);
  leave(directory, '00000000000000dd', []);
  cpSync(join(directory, segment), join(directory, '00000000000000dd', '000000001.log'));
  truncateSync(join(directory, '00000000000000dd', '000000001.log'), statSync(join(directory, segment)).size);
  await journal.adopt();
  const ids = (await drain(journal)).map(({ id }) => id);
  t.equal(ids.length, 2);
  t.equal(new Set(ids).size, 1);
});
