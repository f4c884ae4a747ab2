// Nothing is clean that nobody looked at: what libclamav passes over in containers is unpacked and looked at, or said to be incomplete.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { tar } from '../fixtures/archives.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { eicar } from '../fixtures/samples.js';
import { load } from '../native/engine.js';
import { compare, complaintAbout, verdictOf } from './compare.js';
import { containers } from './containers.js';
import { ordinary } from './ordinary.js';
import { archived, compressors, type File, piped, rpm, sevenZip, zipOf } from './packers.js';

const GENERATED = 150;
const ORDINARY = 150;

const { gz, bz2, xz, lzma, zst, lz4, lz4Legacy, lz } = compressors;
const wanted = { name: 'wanted.com', content: eicar() };
const harmless = { name: 'harmless.txt', content: Buffer.from('harmless text of a few words\n'.repeat(2000)) };
const archive = tar([harmless, wanted]);
const clean = tar([harmless]);
const nothing = Buffer.alloc(0);
const halves = (pack: (content: Buffer) => Buffer): Buffer =>
  Buffer.concat([pack(archive.subarray(0, 1000)), pack(archive.subarray(1000))]);
const cut = (bytes: Buffer): Buffer => bytes.subarray(0, Math.floor(bytes.length * 0.7));
const damaged = (bytes: Buffer): Buffer => {
  const copy = Buffer.from(bytes);
  copy.fill(0x55, bytes.length >> 1, (bytes.length >> 1) + 8);
  return copy;
};
const armXz = piped('xz', ['--arm64', '--lzma2', '-c'], archive);
const byMethod = (method: number): Buffer => zipOf([harmless, { ...wanted, method }]);
const nested = (depth: number, content: Buffer): Buffer =>
  Array.from({ length: depth }).reduce<Buffer>((inner) => zst(inner), content);

/** The header of the member that is wanted is another one; its sum is that of signed characters. */
function withHeader(bytes: Buffer, change: (header: Buffer) => void): Buffer {
  const copy = Buffer.from(bytes);
  const at = copy.lastIndexOf('wanted.com');
  const header = copy.subarray(at, at + 512);
  change(header);
  header.fill(' ', 148, 156);
  const sum = header.reduce((total, byte) => total + ((byte << 24) >> 24), 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return copy;
}

/** A header of pax before it says sizes, of which the last one counts. */
const withSizes = Buffer.concat([
  withHeader(tar([{ ...wanted, content: Buffer.from('10 size=5\n11 size=68\n') }]), (header) =>
    header.write('x', 156),
  ).subarray(0, 1024),
  withHeader(tar([wanted]), (header) => header.fill('0', 124, 135)),
]);

const label = withHeader(tar([{ ...wanted, content: nothing }]), (header) => header.fill(0, 124, 136).write('V', 156));
const damaged512 = (bytes: Buffer): Buffer => Buffer.concat([bytes.subarray(0, -1024), Buffer.alloc(1024, 'x')]);
const deb = archived(
  (names, path) => ['ar', ['rcD', path, ...names]],
  [
    { name: 'debian-binary', content: Buffer.from('2.0\n') },
    { name: 'data.tar.xz', content: xz(archive) },
  ],
);

const cpio = (files: readonly File[], form = 'newc'): Buffer =>
  archived((_, path) => ['cpio', ['-o', '--quiet', '-H', form, '-O', path]], files);

/** Its second header begins with other bytes. */
const withOther = (bytes: Buffer, magic = '0707'): Buffer => {
  const copy = Buffer.from(bytes);
  const at = copy.indexOf(magic, 6, 'latin1');
  return copy.fill('1', at, at + 1);
};

/** Nothing but zeros, and what a format is known by. */
const marked = (...marks: readonly [at: number, mark: Buffer | string][]): Buffer => {
  const bytes = Buffer.alloc(68_000);
  for (const [at, mark] of marks) bytes.set(typeof mark === 'string' ? Buffer.from(mark, 'latin1') : mark, at);
  return bytes;
};

/** What is deflated behind the local header of the first member is none any more, from so many bytes on. */
function withoutOne(index: number): Buffer {
  const member = zipOf([harmless]).indexOf('PK\x01\x02');
  return withDamage(zipOf([harmless, harmless, harmless]), index * member + 2);
}

function withDamage(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes);
  copy.fill(0xff, 30 + harmless.name.length + at, 30 + harmless.name.length + at + 8);
  return copy;
}

const foreign: Record<string, Buffer> = {
  SquashFS: marked([0, 'hsqs']),
  EROFS: marked([1024, '\xe2\xe1\xf5\xe0']),
  ext: marked([1024, '\x10\0\0\0\x40'], [1080, '\x53\xef']),
  FAT: marked([0, '\xeb'], [11, '\0\x02\x04\x01\0\x02'], [21, Buffer.of(0xf8)], [510, '\x55\xaa']),
  NTFS: marked([3, 'NTFS    ']),
  QCOW: marked([0, 'QFI\xfb\0\0\0\x03']),
  VMDK: marked([0, 'KDMV\x01']),
  VHDX: marked([0, 'vhdxfile']),
  WARC: marked([0, 'WARC/1.0\r\n']),
  AppImage: marked([0, '\x7fELF\x02\x01\x01\0AI\x02']),
  ACE: marked([7, '**ACE**']),
  ZOO: marked([0, 'ZOO 2.10 Archive.\x1a\0\0\xdc\xa7\xc4\xfd']),
  StuffIt: marked([0, 'SIT!'], [10, 'rLau']),
  ReiserFS: marked([65_588, 'ReIsEr2Fs']),
  UBI: marked([0, 'UBI#\x01']),
  UBIFS: marked([0, '\x31\x18\x10\x06']),
  JFFS2: marked([0, '\x85\x19\x03\x20']),
  LZFSE: marked([0, 'bvx2']),
  rzip: marked([0, 'RZIP\x02\x01']),
  DMS: marked([0, 'DMS!']),
  ALZ: marked([0, 'ALZ\x01']),
  HFS: marked([1024, 'BD'], [1038, '\0\x03'], [1044, '\0\0\x02'], [1060, '\x04Disk']),
  PST: marked([0, '!BDN'], [8, 'SM']),
  DBX: marked([0, '\xcf\xad\x12\xfe\xc5']),
  EGG: marked([0, 'EGGA\0\x01']),
  DAA: marked([0, 'DAA\0']),
  ISZ: marked([0, 'IsZ!@']),
  SZ: marked([0, 'SZ \x88\xf0\x27\x33\xd1']),
  zisofs: marked([0, '\x37\xe4\x53\x96\xc9\xdb\xd6\x07']),
  Parallels: marked([0, 'WithoutFreeSpace\x02']),
  QED: marked([0, 'QED\0\0\0\x01']),
  'Android backup': Buffer.from('ANDROID BACKUP\n5\n1\nnone\n'),
  'git pack': marked([0, 'PACK\0\0\0\x02']),
  EWF: marked([0, 'EVF\x09\r\n\xff\0']),
  pack200: marked([0, '\xca\xfe\xd0\x0d']),
  compress: marked([0, Buffer.of(0x1f, 0x9d, 0xf0, 0, 2, 2)]),
  pack: marked([0, Buffer.of(0x1f, 0x1e, 0, 0, 0, 68, 7)]),
  pbzx: marked([0, 'pbzx\0\0\0\0\x01']),
  InstallShield: marked([0, 'ISc(']),
  'Microsoft Help 2': marked([0, 'ITOLITLS\x01\0\0\0']),
  PPMd: marked([0, '\x8f\xaf\xac\x84']),
  'git bundle': Buffer.from('# v2 git bundle\n'),
  XFS: marked([0, 'XFSB\0\0\x10\0']),
  'stripped cpio': rpm(gz(marked([0, '07070X00000000']))),
};

const texts = [
  'sqsh is a shell for SQL',
  'We use **ACE** for that',
  'FS NTFS    ext4',
  'StuffIt (c) 1997 by Aladdin',
  'WARC/1.0 is a format',
  'bvx2 begins LZFSE',
  'DMS! is of the Amiga',
  'EGGA and SZ and hsqs and MSWIM are words',
  'QED and WithoutFreeSpace as well',
  '070707 begins a cpio',
  'ITSF begins compiled help',
];

const infected: Record<string, Buffer> = {
  'bz2 of two streams': halves(bz2),
  'bz2 with an empty stream first': Buffer.concat([bz2(nothing), bz2(archive)]),
  'xz of two streams': halves(xz),
  'gz of two streams with zeros between': Buffer.concat([
    gz(archive.subarray(0, 1000)),
    Buffer.alloc(512),
    gz(archive.subarray(1000)),
  ]),
  'two zips': Buffer.concat([zipOf([harmless]), zipOf([wanted])]),
  'two zips, the other way round': Buffer.concat([zipOf([wanted]), zipOf([harmless])]),
  'zip by LZMA': byMethod(14),
  'zip by zstd': byMethod(93),
  'zip by xz': byMethod(95),
  'zip behind other bytes': Buffer.concat([harmless.content, zipOf([...Array(20).fill(harmless), wanted])]),
  'zip whose end is missing': zipOf([wanted, harmless]).subarray(0, -60),
  'zip whose end is missing, sizes behind what is stored': zipOf([
    { ...wanted, hasDescriptor: true },
    harmless,
  ]).subarray(0, -150),
  lzma: lzma(archive),
  zst: zst(eicar()),
  'tar.zst': zst(archive),
  'tar.zst of two frames': halves(zst),
  lz4: lz4(archive),
  'lz4 of old': lz4Legacy(archive),
  lz: lz(archive),
  'zst in a zip': zipOf([{ name: 'a.zst', content: zst(archive) }]),
  'zip by zstd in a tar.gz': gz(tar([{ name: 'a.zip', content: byMethod(93) }])),
  'bz2 of two streams in a zip by xz': zipOf([{ name: 'a.bz2', content: halves(bz2), method: 95 }]),
  'zst in zst': nested(8, archive),
  'two tars, one after the other': gz(Buffer.concat([clean, archive])),
  'tar whose first header has another magic': Buffer.from(archive).fill('x', 257, 258),
  'tar with a size of GNU': withHeader(archive, (header) => header.set([0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 68], 124)),
  'tar without a magic, its sum of signed characters': withHeader(tar([wanted]), (header) =>
    header.fill(0xe9, 0, 1).fill(0, 257, 265),
  ),
  'tar with a type that tools take for a file': withHeader(archive, (header) => header.write('A', 156)),
  'tar with two sizes of pax': withSizes,
  deb,
  rpm: rpm(zst(cpio([harmless, wanted]))),
  'rpm whose payload is as it is': rpm(cpio([harmless, wanted])),
  'two cpios': Buffer.concat([cpio([harmless]), cpio([wanted])]),
  'a cpio, and a compressed one': Buffer.concat([cpio([harmless], 'odc'), zst(cpio([wanted]))]),
  'rpm in a tar.gz': gz(tar([{ name: 'a.rpm', content: rpm(xz(cpio([wanted]))) }])),
  'lzma that says an unlikely size': lzma(archive).fill(0xfe, 12, 13),
  'lzma that says no dictionary': lzma(wanted.content).fill(0, 1, 5),
  'lzma with a dictionary that no encoder uses': lzma(archive).fill(0x77, 1, 5),
  'lzma with other properties': piped('xz', ['--format=lzma', '--lzma1=lc=0,dict=4096', '-c'], archive).fill(0, 2, 3),
  'lzma with an empty stream first': Buffer.concat([lzma(nothing), lzma(archive)]),
  'xz by a filter that libclamav lacks': armXz,
  'xz by such a filter in a zip': zipOf([{ name: 'a.xz', content: armXz }]),
  'xz of two streams with zeros between': Buffer.concat([xz(clean), Buffer.alloc(8), xz(archive)]),
  'cut, behind what is infected': gz(archive).subarray(0, -6),
};

const folder = { name: 'a.bin', content: harmless.content };
const by7z = (...options: string[]): Buffer => sevenZip(...options)([folder]);

/** Of Debian's package `clamav-testfiles`. */
const testFile = (name: string): Buffer => readFileSync(`/usr/share/clamav-testfiles/${name}`);

/** A member by the method, in a header of level 0. */
function lha(method: string, content: Buffer): Buffer {
  const header = Buffer.alloc(28);
  header.set([header.length - 2, 0]);
  header.write(method, 2);
  header.writeUInt32LE(content.length, 7);
  header.writeUInt32LE(content.length, 11);
  header.set([0x20, 0, 4], 19);
  header.write('a.sh', 22);
  header[1] = header.subarray(2).reduce((sum, byte) => sum + byte, 0) & 0xff;
  return Buffer.concat([header, content, Buffer.alloc(1)]);
}

/** As it is, behind a header of level 2, whose size counts all of it. */
function lhaOfLevel2(content: Buffer): Buffer {
  const header = Buffer.alloc(26);
  header.writeUInt16LE(header.length, 0);
  header.write('-lh0-', 2);
  header.writeUInt32LE(content.length, 7);
  header.writeUInt32LE(content.length, 11);
  header.set([0x20, 2], 19);
  return Buffer.concat([header, content]);
}

const encryptedArj = testFile('clam.arj');
const arjMember = encryptedArj.indexOf('\x60\xea', 2, 'latin1');
encryptedArj[arjMember + 8] = 1;
const notAll = 'engine has not unpacked all of the compressed data';

const incomplete: Record<string, [Buffer, string]> = {
  'a 7z whose data is damaged': [damaged(by7z('-t7z', '-m0=Copy')), notAll],
  'one of several in a 7z': [damaged(sevenZip('-t7z', '-m0=Copy', '-ms=off')([folder, harmless])), notAll],
  'a cabinet that is cut off': [testFile('clam.cab').subarray(0, 400), notAll],
  'an ARJ that is cut off': [testFile('clam.arj').subarray(0, 344), notAll],
  'damaged compiled help': [testFile('clam.chm').fill(0x55, 50, 58), notAll],
  'LHA by a method that the engine lacks': [lha('-lh2-', harmless.content), notAll],
  'LHA whose second member is by such a method': [
    Buffer.concat([lhaOfLevel2(harmless.content), lha('-lh2-', harmless.content)]),
    notAll,
  ],
  'a local header with another method': [
    zipOf([{ ...harmless, method: 8, localMethod: 0 }]),
    'a zip can be read in several ways: two headers of a member contradict each other',
  ],
  'a local header without a size': [
    zipOf([{ ...harmless, localIsEmpty: true }]),
    'a zip can be read in several ways: two headers of a member contradict each other',
  ],
  'a deflated member that is damaged': [withDamage(zipOf([harmless]), 2), 'damaged zip data'],
  ...Object.fromEntries(
    [0, 1, 2].map((index) => [`one of three members of one size: ${index}`, [withoutOne(index), 'damaged zip data']]),
  ),
  'one of several, in a zip': [
    zipOf([harmless, { name: 'a.zip', content: withDamage(zipOf([harmless, harmless]), 2) }]),
    'damaged zip data',
  ],
  'one of several, in a zip beside another one in a zip': [
    zipOf([
      {
        name: 'a.zip',
        content: zipOf([
          { name: 'b.zip', content: withDamage(zipOf([harmless, harmless]), 2) },
          { name: 'c.zip', content: zipOf([harmless]) },
          harmless,
        ]),
      },
      { name: 'd.zip', content: zipOf([harmless]) },
    ]),
    'damaged zip data',
  ],
  'a method that nobody has': [zipOf([{ ...harmless, method: 98 }]), 'a member of a zip is compressed by method 98'],
  'a method of 7z that the engine lacks': [by7z('-t7z', '-m0=Deflate'), 'engine cannot unpack this kind of 7z data'],
  'a 7z with a filter that the engine lacks': [
    by7z('-t7z', '-m0=Delta:4', '-m1=LZMA'),
    'engine cannot unpack this kind of 7z data',
  ],
  'a 7z whose end is missing': [cut(by7z('-t7z')), 'damaged 7z data'],
  wim: [by7z('-twim'), 'engine cannot unpack WIM'],
  'an rpm with something else in the place of a header': [rpm(gz(clean)).fill(0, 96, 100), 'damaged RPM data'],
  'an rpm that ends within a header': [rpm(gz(clean)).subarray(0, 150), 'damaged RPM data'],
  'an rpm whose header says a size beyond its end': [rpm(gz(clean)).fill(1, 106, 107), 'damaged RPM data'],
  'a cpio with another magic in a header': [withOther(cpio([harmless, wanted])), 'damaged cpio data'],
  'a binary cpio with another magic in a header': [
    withOther(cpio([harmless, wanted], 'bin'), '\xc7\x71'),
    'damaged cpio data',
  ],
  'a binary cpio whose first header has no name': [
    cpio([harmless, wanted], 'bin').fill(0, 20, 22),
    'damaged cpio data',
  ],
  'a tar with holes': [
    withHeader(tar([{ ...wanted, content: harmless.content }]), (header) => header.write('S', 156)),
    'engine cannot unpack this kind of tar data',
  ],
  'a cpio of old with another magic in a header': [withOther(cpio([harmless, wanted], 'odc')), 'damaged cpio data'],
  'a cpio whose first header has no size': [cpio([harmless, wanted]).fill('x', 54, 55), 'damaged cpio data'],
  'a cpio of old whose first header has no size': [
    cpio([harmless, wanted], 'odc').fill('x', 65, 66),
    'damaged cpio data',
  ],
  'a damaged tar': [damaged512(clean), 'damaged tar data'],
  'damaged bz2': [damaged(bz2(clean)), 'damaged bzip2 data'],
  'damaged xz': [damaged(xz(clean)), 'damaged xz data'],
  'damaged zst': [damaged(zst(clean)), 'damaged zstd data'],
  'damaged bz2 in a zip': [zipOf([{ name: 'a.bz2', content: damaged(bz2(clean)) }]), 'damaged bzip2 data'],
  'zst too deep': [nested(40, archive), 'engine limit exceeded: MaxRecursion'],
  'a bomb of zst': [zst(zst(Buffer.alloc(400 << 20))), 'engine limit exceeded: MaxScanSize'],
  'lz4 that breaks off in a block': [cut(lz4(clean)), 'damaged lz4 data'],
  'many small members': [
    zipOf(
      Array.from({ length: 10_100 }, (_, index) => ({ name: `${index}`, content: eicar().subarray(0, 40) })),
      {
        base: -1,
      },
    ),
    'engine limit exceeded: MaxFiles',
  ],
};

const encrypted: Record<string, Buffer> = {
  'a disk with a password': marked([0, 'LUKS\xba\xbe\0\x02']),
  'a disk by BitLocker': marked([0, '\xeb\x58\x90-FVE-FS-']),
  'an image of macOS': marked([0, 'encrcdsa']),
  'an image of old macOS': Buffer.concat([Buffer.alloc(600, 'words '), Buffer.from('cdsaencr')]),
  'a document of LibreOffice': zipOf([
    { name: 'META-INF/manifest.xml', content: Buffer.from('<manifest:encryption-data manifest:checksum="a"/>') },
  ]),
  'a file by openssl': marked([0, 'Salted__']),
  'a file by age': Buffer.from('age-encryption.org/v1\n-> X25519 abc\n'),
  'a message of S/MIME': marked([0, '\x30\x82\x02\x90\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x03']),
};

const truncated: Record<string, Buffer> = {
  gz: cut(gz(clean)),
  bz2: cut(bz2(clean)),
  xz: cut(xz(clean)),
  lzma: cut(lzma(clean)),
  zst: cut(zst(clean)),
  // Its end mark, and the sum of the content.
  lz4: lz4(clean).subarray(0, -8),
  'gz in a zip': zipOf([{ name: 'a.gz', content: cut(gz(clean)) }]),
  'rpm in its payload': cut(rpm(gz(cpio([harmless, harmless])))),
  zip: zipOf([harmless, harmless]).subarray(0, -100),
  tar: clean.subarray(0, 5000),
  cpio: cut(cpio([harmless])),
  'LHA in a member of a few bytes': lha('-lh0-', Buffer.from('few')).subarray(0, -2),
  'a cabinet in its directory': testFile('clam.cab').subarray(0, 60),
};

t.test('what libclamav passes over is looked at', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, bytes] of Object.entries(infected)) t.equal(verdictOf(bytes), 'infected', what);
});

t.test('what nobody can look at is incomplete, and says why', async (t) => {
  // The other limits are reached first, also where the machine is busy.
  await load(t, [ownSignaturesDirectory], { maxScanTimeMs: 100_000 });
  for (const [what, [bytes, reason]] of Object.entries(incomplete)) {
    t.equal(verdictOf(bytes), `incomplete: ${reason}`, what);
  }
  t.equal(verdictOf(lha('-lh0-', harmless.content)), 'clean', 'LHA that is whole');
  t.equal(verdictOf(Buffer.concat([label.subarray(0, 512), clean])), 'clean', 'a tar with a label, which has no size');
  for (const form of ['newc', 'crc', 'odc', 'bin']) t.equal(verdictOf(cpio([harmless, folder], form)), 'clean', form);
  t.equal(verdictOf(by7z('-t7z', '-psecret')), 'clean, encrypted', 'a 7z with a password');
  t.equal(verdictOf(encryptedArj), 'clean, encrypted', 'an ARJ with a password');
  t.equal(verdictOf(encryptedArj.subarray(0, -4)), 'clean, encrypted, truncated', 'an ARJ without its end');
  for (const [what, bytes] of Object.entries(encrypted)) t.equal(verdictOf(bytes), 'clean, encrypted', what);
  for (const text of texts) t.equal(verdictOf(Buffer.from(`${text}.\n`)), 'clean', text);
  for (const [name, bytes] of Object.entries(foreign)) {
    t.equal(verdictOf(bytes), `incomplete: engine cannot unpack ${name}`);
    t.equal(verdictOf(zipOf([{ name: 'a', content: bytes }])), `incomplete: engine cannot unpack ${name}`, 'in a zip');
  }
  // A short mark alone is not enough. The first is what a program that reads zips holds.
  const end = Buffer.concat([Buffer.from('PK\x05\x06'), Buffer.alloc(18, 0x90).fill(0, 12, 16)]);
  for (const bytes of [
    marked([0, 'MZ'], [4000, end]),
    marked([1080, '\x53\xef']),
    marked([510, '\x55\xaa']),
    marked([54, 'FAT12   ']),
    marked([1024, 'BD']),
    marked([0, Buffer.of(0x1f, 0x9d, 0x90, 0, 0xfe, 0xff)]),
    marked([0, Buffer.of(0x1f, 0x9d, 0x10, 0, 2, 2)]),
    marked([0, Buffer.of(0x1f, 0x1e, 0, 0, 0, 68, 7, 1, 2)]),
  ]) {
    t.equal(verdictOf(bytes), 'clean');
  }
});

t.test('a content and all that is inside of it have the time of one scan', async (t) => {
  await load(t, [ownSignaturesDirectory], { maxScanTimeMs: 15 });
  const slow = zipOf(Array.from({ length: 20 }, (_, index) => ({ name: `${index}`, content: Buffer.alloc(1 << 20) })));
  for (const bytes of [zst(slow), lzma(zst(slow))]) {
    t.equal(verdictOf(bytes), 'incomplete: engine limit exceeded: MaxScanTime');
  }
});

t.test('a stream of a few bytes takes no longer for the size of its window', async (t) => {
  await load(t, [ownSignaturesDirectory], { maxScanTimeMs: 10_000 });
  const frame = Buffer.from('28b52ffd008809000078', 'hex');
  const frames = Buffer.alloc(200_000 * frame.length, frame);
  t.equal(verdictOf(frames), 'clean');
});

t.test('what ends before its time is clean with a notice', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, bytes] of Object.entries(truncated)) t.equal(verdictOf(bytes), 'clean, truncated', what);
});

t.test('no generated container is clean if a tool gets the test file out of it', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  let opened = 0;
  for await (const compared of compare(containers(1, GENERATED), join(temporaryFolder(t), 'containers'))) {
    if (compared.tools !== '') opened += 1;
    t.equal(complaintAbout(compared), undefined, compared.what);
  }
  t.ok(opened > GENERATED / 3, 'the tools open many of them');
});

t.test('ordinary archives and documents are clean', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const { what, bytes } of ordinary(ORDINARY)) t.equal(verdictOf(bytes), 'clean', what);
});
