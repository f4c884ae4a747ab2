// What libclamav finds inside containers, and that no limit and no encrypted member is ever passed over in silence.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { defaultEngineLimits, scanBuffer } from '../../src/engine/clamav/addon.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { compressors } from '../containers/packers.js';
import { gzip, type Member, nestedZip, tar, zip } from '../fixtures/archives.js';
import { eicar } from '../fixtures/samples.js';
import { databaseFolder, load } from '../native/engine.js';

const MIB = 1024 * 1024;
const TEST_FILES = '/usr/share/clamav-testfiles';
const EICAR = 'Sluice.Test.EICAR.UNOFFICIAL';
const ENCRYPTED = 'Heuristics.Encrypted.Zip';
const SCAN_SIZE = 'Heuristics.Limits.Exceeded.MaxScanSize';
const RECURSION = 'Heuristics.Limits.Exceeded.MaxRecursion';
const FILES = 'Heuristics.Limits.Exceeded.MaxFiles';

const text = Buffer.from('harmless text of a few words\n'.repeat(20));
const secret: Member = { name: 'secret.txt', content: text, encrypted: true };
const plain: Member = { name: 'plain.txt', content: text };
const virus: Member = { name: 'eicar.com', content: eicar() };
const large: Member = { name: 'large.bin', content: Buffer.alloc(3 * MIB) };
const deep: Member = { name: 'deep.zip', content: nestedZip(text, 20) };
const many: Member[] = Array.from({ length: 60 }, (_, i) => ({
  name: `f${i}`,
  content: Buffer.from(`file ${i} `.repeat(9)),
}));
const secretZip: Member = { name: 'secret.zip', content: zip([secret]) };
const inTars = (content: Uint8Array, depth: number): Buffer =>
  depth === 0 ? Buffer.from(content) : tar([{ name: 'inner', content: inTars(content, depth - 1) }]);

const tight = { maxScanSizeBytes: 2 * MIB, maxFiles: 50, maxRecursion: 10 };

t.test('a signature is found beside encrypted members and beside some limits', async (t) => {
  await load(t, [ownSignaturesDirectory], tight);
  const cases: Record<string, Member[]> = {
    'encrypted, then infected': [secret, virus],
    'infected, then encrypted': [virus, secret],
    'encrypted inside, then infected': [secretZip, virus],
    'too deep, then infected': [deep, virus],
    'infected, then too large': [virus, large],
    'too large, then infected': [large, virus],
  };
  for (const [what, members] of Object.entries(cases)) {
    t.equal(scanBuffer(zip(members)).virusName, EICAR, what);
    t.equal(
      scanBuffer(gzip(tar(members.map((m) => ({ ...m, content: zip([m]) }))))).virusName,
      EICAR,
      `${what}, tar.gz`,
    );
  }
});

t.test('every exceeded limit is reported, whatever else is in the archive', async (t) => {
  await load(t, [ownSignaturesDirectory], tight);
  const cases: readonly (readonly [string, Buffer, string])[] = [
    ['too deep', zip([deep]), RECURSION],
    ['too large', zip([large]), SCAN_SIZE],
    ['too large and not packed', Buffer.alloc(3 * MIB), SCAN_SIZE],
    ['too many', zip(many), FILES],
    ['encrypted, then too deep', zip([secret, deep]), RECURSION],
    ['too deep, then encrypted', zip([deep, secret]), RECURSION],
    ['encrypted, then too large', zip([secret, large]), SCAN_SIZE],
    ['too large, then encrypted', zip([large, secret]), SCAN_SIZE],
    ['encrypted, then too many', zip([secret, ...many]), FILES],
    ['too many encrypted', zip(Array.from({ length: 60 }, () => secret)), FILES],
    ['tar.gz: encrypted, then too deep', gzip(tar([secretZip, deep])), RECURSION],
    ['tar.gz: encrypted, then too large', gzip(tar([secretZip, large])), SCAN_SIZE],
    ['infected behind too many', zip([...many, virus]), FILES],
    ['infected too deep', inTars(eicar(), 20), RECURSION],
  ];
  for (const [what, content, limit] of cases) {
    const answer = scanBuffer(content);
    t.equal(answer.code, 1, what);
    t.ok(answer.alerts.includes(limit), `${what}: ${answer.alerts.join(', ')}`);
    t.notOk(
      answer.alerts.some((name) => !name.startsWith('Heuristics.')),
      `${what} finds no signature`,
    );
  }
});

t.test('encrypted members are reported, and nothing else is', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const members of [[secret], [secret, plain], [plain, secret], [secretZip, plain]]) {
    t.same(scanBuffer(zip(members)).alerts, [ENCRYPTED]);
  }
  t.same(scanBuffer(zip([plain])).alerts, []);
});

t.test('a ZIP member over every limit is never clean', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const over = Buffer.concat([Buffer.alloc(defaultEngineLimits.maxScanSizeBytes + MIB), eicar()]);
  t.ok(scanBuffer(zip([{ name: 'over.bin', content: over }])).alerts.includes(SCAN_SIZE));
});

t.test('a scan that runs out of time is never clean', async (t) => {
  await load(t, [ownSignaturesDirectory], { maxScanTimeMs: 15 });
  const slow = zip(Array.from({ length: 20 }, (_, i) => ({ name: `${i}.zip`, content: zip([large, plain]) })));
  t.match(scanBuffer(slow), { code: 1, alerts: ['Heuristics.Limits.Exceeded.MaxScanTime'] });
  t.ok(
    scanBuffer(zip([secret, ...Array.from({ length: 20 }, () => large)])).alerts.includes(
      'Heuristics.Limits.Exceeded.MaxScanTime',
    ),
  );
});

/** A stored member of no bytes. */
function member(flags = 0): Buffer {
  return Buffer.from(`PK\x03\x04\x14\0${String.fromCharCode(flags)}${'\0'.repeat(19)}\x01\0\0\0a`, 'latin1');
}

function directoryEnd(bytes: number, offset: number): Buffer {
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06');
  end.writeUInt16LE(Math.sign(bytes), 10);
  end.writeUInt32LE(bytes, 12);
  end.writeUInt32LE(offset, 16);
  return end;
}

/** A directory of 2,000 records of one member, and so many ends, each of which has all of it. */
function directories(count: number): Buffer {
  const records = Buffer.alloc(2000 * 46);
  for (let at = 0; at < records.length; at += 46) records.write('PK\x01\x02', at);
  const ends = Array.from({ length: count }, (_, index) => directoryEnd(records.length + index * 22, member().length));
  return Buffer.concat([member(), records, ...ends]);
}

t.test('no content has the same bytes looked at again and again', async (t) => {
  await load(t, [ownSignaturesDirectory], { maxScanSizeBytes: 8 * MIB });
  const contents: Record<string, [content: Buffer, alert: string | null]> = {
    'a member without its size': [
      Buffer.concat([member(8), Buffer.from('PK\x07\x08'), Buffer.alloc(20)]),
      'Sluice.Mark.Truncated',
    ],
    'members without their sizes': [
      Buffer.concat([Buffer.alloc(9000 * member().length, member(8)), Buffer.alloc(4 * MIB, 'PK\x07\x08')]),
      'Sluice.Mark.Truncated',
    ],
    'ends of directories': [Buffer.concat([member(), Buffer.alloc(3 * MIB, directoryEnd(0, 0))]), FILES],
    'directories with the same records': [directories(20), FILES],
    'beginnings of uuencoded files': [Buffer.alloc(4 * MIB, 'begin 6 x\n'), null],
    'beginnings of uuencoded files in one line': [Buffer.alloc(4 * MIB, 'begin '), null],
    'words that announce base64': [Buffer.alloc(4 * MIB, 'base64\nABCDEFGHIJKLMNOPQ\n'), null],
    'streams of a PDF without an end': [
      Buffer.concat([Buffer.from('%PDF-1.7\n'), Buffer.alloc(4 * MIB, 'stream\nx\x9c\0\0\0\xff\xff', 'latin1')]),
      'Sluice.Mark.Incomplete.damaged PDF data',
    ],
    'beginnings of gzip': [
      Buffer.concat([
        Buffer.from('text'),
        Buffer.alloc(4 * MIB, '\x1f\x8b\x08\0\0\0\0\0\0\x03\0\xf5\xff\x0a\0', 'latin1'),
      ]),
      null,
    ],
    'beginnings of bzip2': [Buffer.concat([Buffer.from('text'), Buffer.alloc(4 * MIB, 'BZh91AY&SYabcd')]), null],
    'letters of names in digits': [Buffer.concat([Buffer.from('%PDF-1.7\n'), Buffer.alloc(MIB, '#')]), null],
    'frames of nothing': [Buffer.alloc(MIB, Buffer.of(0x02, 0x21, 0x4c, 0x18)), null],
  };
  for (const [what, [content, alert]] of Object.entries(contents)) {
    const begun = process.cpuUsage();
    const { alerts } = scanBuffer(content);
    const { user, system } = process.cpuUsage(begun);
    t.ok(user + system < 5_000_000, `${what}: ${user + system} us of a processor`);
    if (alert !== null) t.ok(alerts.includes(alert), `${what}: ${alerts.join(', ')}`);
  }
});

t.test('members wait in as much room as they have bytes', async (t) => {
  await load(t, [ownSignaturesDirectory], { maxTemporaryBytes: 16 * MIB });
  const header = `${'name'.padEnd(48)}${'8'.padEnd(10)}\`\n`;
  t.match(scanBuffer(Buffer.from(`!<arch>\n${`${header}harmless`.repeat(1000)}`)), { code: 0, alerts: [] });
});

t.test('of the directory of a 7z as much is kept as says whether it can be opened', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const folders = 150_000;
  const folder = Buffer.alloc(1 + 32 + 62, Buffer.of(32, ...Array<number>(94).fill(0)));
  const count = Buffer.of(0xc0 | (folders >> 16), folders & 0xff, (folders >> 8) & 0xff);
  const header = Buffer.concat([Buffer.of(1, 4, 7, 11), count, Buffer.of(0), Buffer.alloc(folders * 95, folder)]);
  const packed = compressors.lzma(header);
  const size = (bytes: number): Buffer => {
    const number = Buffer.alloc(5, 0xf0);
    number.writeUInt32LE(bytes, 1);
    return number;
  };
  const unpacking = [
    Buffer.of(7, 11, 1, 0, 1, 0x23, 3, 1, 1, 5),
    packed.subarray(0, 5),
    Buffer.of(12),
    size(header.length),
  ];
  const data = packed.subarray(13);
  const directory = Buffer.concat([
    Buffer.of(23, 6, 0, 1, 9),
    size(data.length),
    Buffer.of(0),
    ...unpacking,
    Buffer.of(0, 0),
  ]);
  const start = Buffer.alloc(32);
  start.write('7z\xbc\xaf\x27\x1c\0\x04', 'latin1');
  start.writeBigUInt64LE(BigInt(data.length), 12);
  start.writeBigUInt64LE(BigInt(directory.length), 20);
  const content = Buffer.concat([start, data, directory]);
  const before = process.resourceUsage().maxRSS;
  t.ok(scanBuffer(content).alerts.includes('Sluice.Mark.Incomplete.damaged 7z data'));
  const grown = (process.resourceUsage().maxRSS - before) / 1024;
  t.ok(grown < 70, `${grown} MB`);
});

t.test("Debian's test files get the verdict and name that clamscan gives", async (t) => {
  t.ok(existsSync(TEST_FILES), `${TEST_FILES} is there (package clamav-testfiles)`);
  t.equal(spawnSync('clamscan', ['--version']).status, 0, 'clamscan is there (package clamav)');
  const files = readdirSync(TEST_FILES).map((name) => join(TEST_FILES, name));
  t.ok(files.length > 40);
  const program = readFileSync(join(TEST_FILES, 'clam.exe'));
  const generated = databaseFolder(t, {
    'generated.hsb': `${createHash('sha256').update(program).digest('hex')}:${program.length}:Generated.Hash:73\n`,
    'generated.ndb': `Generated.Body:0:*:${Buffer.from('CLAMessageBoxA').toString('hex')}\n`,
  });
  await load(t, [generated, ownSignaturesDirectory]);
  const expected = clamscan([generated, ownSignaturesDirectory], files);
  t.same(new Map(files.map((path) => [path, scanBuffer(readFileSync(path)).virusName ?? 'OK'])), expected);
  t.ok(
    [...expected.values()].filter((name) => name.startsWith('Generated.') || name.startsWith('Sluice.')).length > 30,
  );
});

/** Path to the name found or `OK`, with our limits and options. */
function clamscan(databases: readonly string[], paths: readonly string[]): Map<string, string> {
  const { maxScanSizeBytes, maxFileSizeBytes, maxFiles, maxRecursion, maxScanTimeMs } = defaultEngineLimits;
  const output = execOutput('clamscan', [
    ...databases.map((folder) => `--database=${folder}`),
    '--no-summary',
    '--disable-cache',
    '--alert-encrypted=yes',
    '--alert-exceeds-max=yes',
    `--max-scansize=${maxScanSizeBytes}`,
    `--max-filesize=${maxFileSizeBytes}`,
    `--max-files=${maxFiles}`,
    `--max-recursion=${maxRecursion}`,
    `--max-scantime=${maxScanTimeMs}`,
    ...['embeddedpe', 'htmlnormalize', 'htmlnotags', 'scriptnormalize', 'ziptypercg'].map(
      (limit) => `--max-${limit}=${maxScanSizeBytes}`,
    ),
    `--pcre-max-filesize=${maxScanSizeBytes}`,
    ...paths,
  ]);
  return new Map(
    output
      .trim()
      .split('\n')
      .map((line) => {
        const cut = line.lastIndexOf(': ');
        return [line.slice(0, cut), line.slice(cut + 2).replace(/ FOUND$/, '')];
      }),
  );
}

/** clamscan exits with 1 when it finds something, which is what we want. */
function execOutput(command: string, args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 16 * MIB });
  if (status !== 0 && status !== 1) throw new Error(`${command} failed: ${stderr}`);
  return stdout;
}
