// Files in bundles of PyInstaller, Electron and macOS, and messages of OpenPGP and CMS: looked at, or said to be encrypted.
import { deflateRawSync, deflateSync } from 'node:zlib';
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { eicar } from '../fixtures/samples.js';
import { load } from '../native/engine.js';
import { verdictOf } from './compare.js';
import { compressors } from './packers.js';

const wanted = eicar();
const words = Buffer.alloc(300, 'words ');
const nothing = Buffer.alloc(0);

function high(width: number, ...all: readonly number[]): Buffer {
  const bytes = Buffer.alloc(width * all.length);
  for (const [at, value] of all.entries()) bytes.writeUIntBE(value, width * at, width);
  return bytes;
}

/** An archive of PHP: its script, and members by deflate, each between a name and its metadata in the list. */
function phar(contents: readonly Buffer[], end = ' ?>\r\n', script = '<?php '): Buffer {
  const little = (...all: readonly number[]): Buffer => Buffer.from(new Uint32Array(all).buffer);
  const packed = contents.map((content) => deflateRawSync(content));
  const entries = contents.map((content, at) => {
    const numbers = little(content.length, 0, packed[at]?.length ?? 0, 0, 0x11a4, 4);
    return Buffer.concat([little(5), Buffer.from('a.php'), numbers, Buffer.from('meta')]);
  });
  const head = Buffer.concat([
    little(contents.length),
    Buffer.from([0x11, 0]),
    little(0x10000, 1),
    Buffer.from('x'),
    little(0),
  ]);
  const list = Buffer.concat([head, ...entries]);
  return Buffer.concat([Buffer.from(`${script}__HALT_COMPILER();${end}`), little(list.length), list, ...packed]);
}

/** Behind a program, as its own loader finds it: files, a list of them, a mark that says where both are. */
function pyInstaller(files: readonly { content: Buffer; isPacked: boolean }[], tail = 64): Buffer {
  const kept = files.map(({ content, isPacked }) => (isPacked ? deflateSync(content) : content));
  let at = 0;
  const list = files.map(({ content, isPacked }, index) => {
    const length = kept[index]?.length ?? 0;
    const entry = Buffer.concat([
      high(4, 32, at, length, content.length),
      Buffer.from([isPacked ? 1 : 0]),
      Buffer.from('xname'),
    ]);
    at += length;
    return Buffer.concat([entry, Buffer.alloc(32 - entry.length)]);
  });
  const data = Buffer.concat([...kept, ...list]);
  const mark = Buffer.from('MEI\x0c\x0b\x0a\x0b\x0e', 'latin1');
  const end = Buffer.concat([mark, high(4, data.length + 24 + tail, at, 32 * files.length, 311), Buffer.alloc(tail)]);
  return Buffer.concat([Buffer.from('\x7fELF'), Buffer.alloc(600), data, end]);
}

function asar(files: Readonly<Record<string, Buffer>>, spell = (list: string): string => list): Buffer {
  let offset = 0;
  const listed = Object.entries(files).map(([name, content]) => {
    const entry = { size: content.length, integrity: { hash: 'a', blocks: ['}'] }, offset: `${offset}` };
    offset += content.length;
    return [name, entry] as const;
  });
  const list = Buffer.from(spell(JSON.stringify({ files: { folder: { files: Object.fromEntries(listed) } } })));
  const padded = Buffer.concat([list, Buffer.alloc(-list.length & 3)]);
  const lengths = Buffer.from(new Uint32Array([4, padded.length + 8, padded.length + 4, list.length]).buffer);
  return Buffer.concat([lengths, padded, ...Object.values(files)]);
}

/** Behind a program, in one stream, with a size before each file. */
function nsis(content: Buffer): Buffer {
  const little = (value: number): Buffer => Buffer.from(new Uint32Array([value]).buffer);
  const header = Buffer.alloc(40, 1);
  const packed = deflateRawSync(Buffer.concat([little(header.length), header, little(content.length), content]));
  const program = Buffer.concat([Buffer.from('MZ'), Buffer.alloc(1022)]);
  const mark = Buffer.from('\xef\xbe\xad\xdeNullsoftInst', 'latin1');
  return Buffer.concat([program, little(0), mark, little(header.length), little(28 + packed.length), packed]);
}

/** The content as the fork of this number: 1 is that of data, 2 that of resources. */
function apple(magic: number, fork: number): Buffer {
  return Buffer.concat([
    high(4, magic, 0x20000),
    Buffer.alloc(16),
    high(2, 1),
    high(4, fork, 38, wanted.length),
    wanted,
  ]);
}

/** The forks of a file behind its name and their lengths, each filled up to 128 bytes; a second head may be before them. */
function macBinary(data: Buffer, resources: Buffer, isLong = false): Buffer {
  const head = Buffer.alloc(128);
  head.write('\x05a.com', 1);
  head.writeUInt32BE(data.length, 83);
  head.writeUInt32BE(resources.length, 87);
  head.writeUInt16BE(isLong ? 100 : 0, 120);
  const parts = [head, ...(isLong ? [Buffer.alloc(100)] : []), data, resources];
  return Buffer.concat(parts.map((part) => Buffer.concat([part, Buffer.alloc(-part.length & 127)])));
}

/** A property list of one object. */
function propertyList(content: Buffer): Buffer {
  const object = Buffer.concat([Buffer.from([0x4f, 0x11]), high(2, content.length), content]);
  const trailer = Buffer.concat([Buffer.alloc(6), Buffer.from([1, 1]), Buffer.alloc(4), high(4, 1), Buffer.alloc(8)]);
  return Buffer.concat([
    Buffer.from('bplist00'),
    object,
    Buffer.from([8]),
    trailer,
    Buffer.alloc(4),
    high(4, 8 + object.length),
  ]);
}

/** One whose first objects say that they are as long as the list. */
function propertyListOfDecoys(decoys: number): Buffer {
  const decoy = Buffer.concat([Buffer.from([0x4f, 0x11]), high(2, 2000)]);
  const object = Buffer.concat([Buffer.from([0x4f, 0x11]), high(2, wanted.length), wanted]);
  const objects = Buffer.concat([...Array.from({ length: decoys }, () => decoy), object, Buffer.alloc(2000, 'words ')]);
  const places = Array.from({ length: decoys + 1 }, (_, index) => 8 + decoy.length * index);
  const trailer = high(4, 0, 0x401, 0, places.length, 0, 0, 0, 8 + objects.length);
  trailer.writeUInt16BE(0x401, 6);
  return Buffer.concat([Buffer.from('bplist00'), objects, high(4, ...places), trailer]);
}

/** Modules of PyInstaller, with the place of their list. */
function modules(...parts: readonly Buffer[]): Buffer {
  const all = Buffer.concat(parts);
  return Buffer.concat([
    Buffer.from('PYZ\0aaaa'),
    high(4, 17 + all.length),
    Buffer.alloc(5),
    all,
    Buffer.from('[list]'),
  ]);
}

/** A packet of OpenPGP with a length of two bytes, in the old form. */
const packet = (tag: number, ...body: readonly Buffer[]): Buffer => {
  const content = Buffer.concat(body);
  return Buffer.concat([Buffer.from([0x81 | (tag << 2)]), high(2, content.length), content]);
};
/** In the new form, whose first pieces say how long each of them is. */
const inPieces = (tag: number, body: Buffer): Buffer => {
  const rest = body.subarray(32);
  return Buffer.concat([Buffer.from([0xc0 | tag, 0xe5]), body.subarray(0, 32), Buffer.from([rest.length]), rest]);
};
const literal = packet(11, Buffer.from('b\x05a.com'), Buffer.alloc(4), wanted);
const key = packet(1, Buffer.from([3]), Buffer.alloc(8), Buffer.from([1]), Buffer.alloc(258, 1));
const password = packet(3, Buffer.from([4, 9, 3, 8]), Buffer.alloc(9));
const secret = Buffer.concat([Buffer.from([0xd2, 101, 1]), Buffer.alloc(100, 7)]);
/** Readers pass over it. */
const marker = packet(10, Buffer.from('PGP'));
const withWrongSum = deflateSync(literal);
withWrongSum[withWrongSum.length - 1] = (withWrongSum.at(-1) ?? 0) ^ 1;
const armoured = (content: Buffer): Buffer =>
  Buffer.from(
    `-----BEGIN PGP MESSAGE-----\n\n${content.toString('base64').replace(/.{64}/g, '$&\n')}\n=abcd\n-----END PGP MESSAGE-----\n`,
  );

const unknownModules = 'incomplete: engine cannot unpack this kind of PYZ data';

const verdicts: Record<string, [string, Buffer]> = {
  'a file of PyInstaller': [
    'infected',
    pyInstaller([
      { content: words, isPacked: true },
      { content: wanted, isPacked: true },
    ]),
  ],
  'one that is not packed, of its first versions': ['infected', pyInstaller([{ content: wanted, isPacked: false }], 0)],
  'words of PyInstaller': ['clean', pyInstaller([{ content: words, isPacked: true }])],
  'modules of PyInstaller': [
    'infected',
    Buffer.concat([
      Buffer.from('PYZ\0aaaa\0\0\0\0\0'),
      deflateSync(wanted.subarray(0, 30)),
      deflateSync(wanted.subarray(30)),
    ]),
  ],
  'modules up to their list': [
    'infected',
    modules(deflateSync(wanted.subarray(0, 30)), deflateSync(wanted.subarray(30))),
  ],
  'words of modules': ['clean', modules(deflateSync(words), deflateSync(words))],
  'no modules': ['clean', modules()],
  'modules with other bytes between them': [
    unknownModules,
    modules(deflateSync(words), nothing, Buffer.alloc(2), deflateSync(wanted)),
  ],
  'modules that are encrypted': [unknownModules, modules(Buffer.alloc(300, 7))],
  'a file of Electron, in a list that spells its words by numbers': [
    'infected',
    asar({ 'a.com': wanted }, (list) =>
      list.replace('"size":68', '"s\\u0069ze"  : 68').replace('"offset":"0"', '"offset" :"\\u0030"'),
    ),
  ],
  'a file of Electron': ['infected', asar({ 'index.js': words, 'a.com': wanted })],
  'words of Electron': ['clean', asar({ 'index.js': words })],
  'an archive of PHP': ['infected', phar([words, wanted])],
  'an archive of PHP that begins with its last word': ['infected', phar([wanted], '', '')],
  'words of PHP': ['clean', phar([words])],
  'a script of PHP with that word': ['clean', Buffer.from(`<?php __HALT_COMPILER(); ?>\n${words}`)],
  'an installer by NSIS': ['infected', nsis(wanted)],
  'an installer of words': ['clean', nsis(words)],
  AppleSingle: ['infected', apple(0x51600, 1)],
  'resources of AppleDouble': ['infected', apple(0x51607, 2)],
  'data of MacBinary': ['infected', macBinary(wanted, nothing)],
  'resources of MacBinary': ['infected', macBinary(words, wanted)],
  'MacBinary with a second head': ['infected', macBinary(wanted, words, true)],
  'words of MacBinary': ['clean', macBinary(words, words)],
  "Safari's web archive": ['infected', propertyList(wanted)],
  'a property list behind objects that hold each other': ['infected', propertyListOfDecoys(4)],
  'words of a property list': ['clean', propertyList(words)],
  'a file by zlib': ['infected', deflateSync(wanted)],
  'a text that begins as zlib does': ['clean', Buffer.from('x^2 + y^2 = z^2, and more words')],
  'a message that is signed': [
    'infected',
    Buffer.concat([packet(4, Buffer.from([3, 0, 8, 1]), Buffer.alloc(9)), literal]),
  ],
  'a message in pieces': ['infected', inPieces(11, literal.subarray(3))],
  'a message by deflate': ['infected', packet(8, Buffer.from([1]), deflateRawSync(literal))],
  'a message by zlib': ['infected', packet(8, Buffer.from([2]), deflateSync(literal))],
  'a message by bzip2': ['infected', packet(8, Buffer.from([3]), compressors.bz2(literal))],
  'a message in letters': ['infected', armoured(literal)],
  'a message behind 1,001 others': [
    'infected',
    Buffer.concat([...Array(1001).fill(marker), packet(8, Buffer.from([2]), deflateSync(literal))]),
  ],
  'a message with a wrong sum': ['infected', packet(8, Buffer.from([2]), withWrongSum)],
  'words of a message that is cut': [
    'clean, truncated',
    packet(8, Buffer.from([1]), deflateRawSync(packet(11, Buffer.from('b\0'), Buffer.alloc(4), words)).subarray(0, -4)),
  ],
  'a message for a key': ['clean, encrypted', Buffer.concat([key, secret])],
  'a message with a password, in letters': ['clean, encrypted', armoured(Buffer.concat([password, secret]))],
  'a signature': ['clean', packet(2, Buffer.from([4, 0, 1, 8]), Buffer.alloc(300))],
  'what begins as a key does': ['clean', Buffer.concat([key, Buffer.alloc(300, 'a')])],
  'an encrypted message of Outlook': [
    'clean, encrypted',
    Buffer.concat([Buffer.from('3082010006' + '0b2a864886f70d0109100117', 'hex'), Buffer.alloc(300)]),
  ],
};

t.test('all files of a bundle are looked at', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, [verdict, bytes]] of Object.entries(verdicts)) t.equal(verdictOf(bytes), verdict, what);
});

t.test('a bundle whose files lie in each other is incomplete', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const bytes = asar({ 'a.bin': Buffer.alloc(1 << 20) });
  const files = Object.fromEntries(
    Array.from({ length: 9 }, (_, index) => [`${index}`, { size: 1 << 20, offset: '0' }]),
  );
  const list = Buffer.from(JSON.stringify({ files }));
  const lengths = Buffer.from(new Uint32Array([4, list.length + 8, list.length + 4, list.length]).buffer);
  const nested = Buffer.concat([lengths, list, bytes]);
  t.equal(verdictOf(nested), 'incomplete: too much of it only looks packed, or lies in several archives');
});
