// What a content begins with proves nothing alone: a script may begin as an archive does, and stand beside one. Lists of contents that libclamav gives up are a 422.
import { readFileSync } from 'node:fs';
import { deflateSync } from 'node:zlib';
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { tar } from '../fixtures/archives.js';
import { eicar } from '../fixtures/samples.js';
import { load } from '../native/engine.js';
import { verdictOf } from './compare.js';
import { archived, compressors, zipOf } from './packers.js';

const wanted = eicar();
const script = Buffer.from(`<script>eval(atob("${wanted.toString('base64')}"))</script>\n`);
const harmless = { name: 'harmless.txt', content: Buffer.from('harmless text of a few words\n'.repeat(20)) };
const plain = zipOf([harmless, harmless]);
const directory = plain.indexOf('PK\x01\x02');
const compound = Buffer.alloc(1024);
compound.write('\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1', 'latin1');

/** Bytes at their places among zeros. */
function marked(...marks: readonly [at: number, mark: string][]): Buffer {
  const bytes = Buffer.alloc(68_000);
  for (const [at, mark] of marks) bytes.write(mark, at, 'latin1');
  return bytes;
}

/** A cabinet with one file, as it is. */
function cabinet(content: Buffer): Buffer {
  const little = (...all: readonly number[]): Buffer => Buffer.from(new Uint32Array(all).buffer);
  const name = Buffer.from('a.com\0');
  const folder = 36 + 8 + 16 + name.length;
  const size = folder + 8 + content.length;
  const counts = Buffer.from(new Uint16Array([0x103, 1, 1, 0, 0, 0]).buffer);
  const head = [Buffer.from('MSCF'), little(0, size, 0, 44, 0), counts];
  const file = [little(content.length, 0, 0), Buffer.alloc(4), name];
  const sizes = Buffer.from(new Uint16Array([content.length, content.length]).buffer);
  return Buffer.concat([...head, little(folder, 1), ...file, little(0), sizes, content]);
}

function xar(elements: string, heap: Buffer): Buffer {
  const list = Buffer.from(`<?xml version="1.0" encoding="UTF-8"?><xar><toc>${elements}</toc></xar>`);
  const packed = deflateSync(list);
  const header = Buffer.alloc(28);
  header.write('xar!\0\x1c\0\x01', 'latin1');
  header.writeBigUInt64BE(BigInt(packed.length), 8);
  header.writeBigUInt64BE(BigInt(list.length), 16);
  return Buffer.concat([header, packed, heap]);
}

function xarOf(content: Buffer, size: number, style: string, before = ''): Buffer {
  const data = `<length>${content.length}</length><offset>0</offset><size>${size}</size><encoding style="application/${style}"/>`;
  return xar(`<file id="1"><name>a.com</name><type>file</type>${before}<data>${data}</data></file>`, content);
}

/** What Microsoft's Script Encoder makes of a script that decodes the test file. */
const encoded =
  '#@~^awAAAA==n7lsvlDW4vJq9.hq#b^p3o5\x7fy"^jww5gP}W`sWwH!H9nK[,x3.xpToUS.Hi5jX25#x2J`s}.2^\x7fU#9jjzF`I#H`Sj\\BKAjtx3LDUZK\'E#b@&dCEAAA==^#~@';

const packed = deflateSync(wanted);
const shell = Buffer.from('#!/bin/sh\ntail -n +4 "$0" | unpack | sh\nexit\n');
/** Of Debian's package `clamav-testfiles`. */
const binHex = readFileSync('/usr/share/clamav-testfiles/clam.exe.binhex');
const disk = archived(
  (names, archive) => ['genisoimage', ['-quiet', '-J', '-o', archive, ...names]],
  [{ name: 'a.com', content: wanted }],
);
/** In the sectors of the disk that nobody asks. */
const diskThatBegins = (begin: Buffer): Buffer => Buffer.concat([begin, disk.subarray(begin.length)]);

/** Both headers of the only member say that it is encrypted. */
function saidEncrypted(member: Parameters<typeof zipOf>[0][number]): Buffer {
  const bytes = zipOf([member]);
  for (const at of [6, bytes.indexOf('PK\x01\x02') + 8]) bytes.writeUInt8(bytes.readUInt8(at) | 1, at);
  return bytes;
}
const damaged = Buffer.from(packed).fill(0xff, 30, 36);
const notAll = 'incomplete: engine has not unpacked all of the compressed data';

/** A member by the method 2, which is as it is, and the end. */
function arc(name: string, content: Buffer, end = '\x1a\0'): Buffer {
  const header = Buffer.alloc(29);
  header.write(`\x1a\x02${name}`, 'latin1');
  header.writeUInt32LE(content.length, 15);
  header.writeUInt32LE(content.length, 25);
  return Buffer.concat([header, content, Buffer.from(end, 'latin1')]);
}

const minix = '\x60\x01\x00\x04\x01\0\x01\0\x0f\0\0\0\0\x1c\x08\x10';
const wide = '\x60\x01\0\0\0\0\x01\0\x01\0\x0f\0\0\0\0\0\0\0\0\x7f\0\x04\0\0\x5a\x4d';
/** Members of which lines end with many zeros, whose letters are blanks. */
const stored = zipOf([
  { name: 'zeros.bin', content: Buffer.alloc(900), method: 0 },
  { name: 'wanted.com', content: wanted, method: 0 },
]);
const lines = Array.from({ length: Math.ceil(stored.length / 45) }, (_, index) => {
  const line = stored.subarray(45 * index, 45 * index + 45);
  const bits = Buffer.concat([line, Buffer.alloc(2)]);
  const letters = Array.from({ length: 4 * Math.ceil(line.length / 3) }, (_, at) =>
    String.fromCharCode(0x20 + ((bits.readUIntBE(3 * (at >> 2), 3) >> (18 - 6 * (at & 3))) & 0x3f)),
  );
  return `${String.fromCharCode(0x20 + line.length)}${letters.join('')}`.trimEnd();
});

/** Without an end of its fields there is no stream. */
function gzipWith(flags: number, fields: Buffer, end?: string): Buffer {
  const head = Buffer.from([0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 3]);
  const rest = end === undefined ? [] : [Buffer.from(end), compressors.gz(harmless.content).subarray(head.length)];
  return Buffer.concat([head, fields, ...rest]);
}

const verdicts: Record<string, [string, Buffer]> = {
  'a script that begins as a zip does': ['infected', Buffer.concat([Buffer.from('PK="";'), script])],
  'a script that begins as a member of a zip does': ['infected', Buffer.concat([Buffer.from('PK\x03\x04'), script])],
  'a script that begins as a XAR does': ['infected', Buffer.concat([Buffer.from('xar!'), script])],
  'a page that begins as RTF does': ['infected', Buffer.from(`{\\rt<script>x="${wanted.toString('hex')}"</script>`)],
  'a page behind the mark of a compound file': ['infected', Buffer.concat([compound, script])],
  'a stream behind such letters': ['infected', Buffer.concat([Buffer.from('PK#!/bin/sh\n'), compressors.gz(wanted)])],
  'a page before a zip': ['infected', Buffer.concat([Buffer.from('PK'), script, plain])],
  'a page behind a zip': ['infected', Buffer.concat([plain, script])],
  'a page as the comment of a zip': ['infected', zipOf([harmless], { comment: script })],
  'a script that begins as a cabinet does': ['infected', Buffer.concat([Buffer.from('MSCF\0\0\0\0'), script])],
  'a page as the comment of a gzip': ['infected', gzipWith(16, script, '\0')],
  'the same among what else may stand there': [
    'infected',
    gzipWith(28, Buffer.concat([Buffer.from('\x02\0abname\0'), script]), '\0'),
  ],
  'a script that begins as a gzip with a name': ['infected', gzipWith(8, script)],
  'a gzip with a long name': ['clean', gzipWith(8, Buffer.alloc(200, 'name '), '\0')],
  'a page between members and directory': [
    'infected',
    Buffer.concat([zipOf([harmless]).subarray(0, -22), script, plain]),
  ],
  'a zip with zeros behind it': ['clean', Buffer.concat([plain, Buffer.alloc(5000)])],
  'a zip without its end': ['clean, truncated', plain.subarray(0, directory)],
  'a XAR': ['infected', xarOf(packed, wanted.length, 'x-gzip')],
  'a XAR by bzip2': ['infected', xarOf(compressors.bz2(wanted), wanted.length, 'x-bzip2')],
  'a XAR of a text': ['clean', xarOf(deflateSync(harmless.content), harmless.content.length, 'x-gzip')],
  'a XAR of a text by xz': ['clean', xarOf(compressors.xz(harmless.content), harmless.content.length, 'x-xz')],
  'a XAR of an empty file': ['clean', xar('<file id="1"><name>a</name><type>file</type></file>', Buffer.alloc(0))],
  'a XAR with an attribute before the file': [
    notAll,
    xarOf(wanted, wanted.length, 'octet-stream', '<ea><name>a</name></ea>'),
  ],
  'a XAR whose file is damaged': [notAll, xarOf(damaged, wanted.length, 'x-gzip')],
  'a XAR that is cut off': [notAll, xarOf(packed, wanted.length, 'x-gzip').subarray(0, -packed.length)],
  'a XAR whose list is damaged': [
    'incomplete: damaged archive data',
    xarOf(packed, wanted.length, 'x-gzip').fill(0xff, 60, 64),
  ],
  'a XAR whose list may hide something': [
    'incomplete: damaged archive data',
    xarOf(harmless.content, harmless.content.length, 'octet-stream', '<!-- -->'),
  ],
  'what a shell unpacks from a line on, by LZMA': ['infected', Buffer.concat([shell, compressors.lzma(wanted)])],
  'the same by lz4 of old': ['infected', Buffer.concat([shell, compressors.lz4Legacy(wanted)])],
  'the same by compress': [
    'incomplete: engine cannot unpack compress',
    Buffer.concat([shell, Buffer.of(0x1f, 0x9d, 0xf0, 0, 2, 2)]),
  ],
  'the same by gzip': ['infected', Buffer.concat([shell, compressors.gz(wanted)])],
  'a script with other characters': ['clean', Buffer.from('#!/bin/sh\necho "\x01\x1b[0m"\n'.repeat(9))],
  BinHex: ['infected', binHex],
  'BinHex behind a line': ['infected', Buffer.concat([Buffer.from('A line of text.\r\n\r\n'), binHex])],
  'words of BinHex': ['clean', Buffer.from('It says (This file must be converted with BinHex 4.0).\n')],
  'an optical disk': ['infected', disk],
  'an optical disk that begins as gzip does': ['infected', diskThatBegins(compressors.gz(harmless.content))],
  'an optical disk that begins as a tar does': ['infected', diskThatBegins(tar([harmless]))],
  'an optical disk that begins as a zip does': ['infected', diskThatBegins(plain)],
  'an optical disk that begins as a page does': ['infected', diskThatBegins(Buffer.from('\0<html>'))],
  'a member that is said to be encrypted': ['infected', saidEncrypted({ name: 'a.com', content: wanted })],
  'the same as it is': ['infected', saidEncrypted({ name: 'a.com', content: wanted, method: 0 })],
  'the same by LZMA': ['infected', saidEncrypted({ name: 'a.com', content: wanted, method: 14 })],
  'the same of a text': ['clean, encrypted', saidEncrypted(harmless)],
  'an encoded script': ['infected', Buffer.from(encoded)],
  'an encoded script behind other lines': ['infected', Buffer.from(`var a = 1;\n${encoded}`)],
  'an encoded script behind another one': ['infected', Buffer.from(`#@~^AAAAAA==AAAAAA==^#~@${encoded}`)],
  'an encoded script without its end': ['infected', Buffer.from(`var a = 1;\n${encoded.slice(0, -12)}`)],
  'an encoded script in a page': [
    'infected',
    Buffer.from(`<html><script language="JScript.Encode">${encoded}</script></html>`),
  ],
  'beginnings of encoded scripts': ['clean', Buffer.alloc(400, '#@~^')],
  ARC: ['incomplete: engine cannot unpack ARC', arc('WANTED.COM', wanted)],
  'an ARC without its end': ['clean', arc('WANTED.COM', wanted, 'ab')],
  'ARC with a control character in a name': ['clean', arc('WANTED\x01', wanted)],
  SQX: ['incomplete: engine cannot unpack SQX', marked([7, '-sqx-'])],
  Minix: ['incomplete: engine cannot unpack Minix', marked([1024, `${minix}\x7f\x13`])],
  'Minix with long names': ['incomplete: engine cannot unpack Minix', marked([1024, `${minix}\x8f\x13`])],
  'Minix of version 3': ['incomplete: engine cannot unpack Minix', marked([1024, wide])],
  'the two bytes of Minix': ['clean', marked([1040, '\x7f\x13'])],
  JFS: ['incomplete: engine cannot unpack JFS', marked([32_768, 'JFS1'])],
  UFS: ['incomplete: engine cannot unpack UFS', marked([66_908, '\x19\x01\x54\x19'])],
  NILFS2: ['incomplete: engine cannot unpack NILFS2', marked([1024, '\x02\0\0\0\0\0\x34\x34'])],
  Flatpak: ['incomplete: engine cannot unpack Flatpak', marked([0, 'flatpak\0'])],
  'Nix archive': ['incomplete: engine cannot unpack Nix archive', marked([8, 'nix-archive-1'])],
  'words that begin as formats do': ['clean', Buffer.from('HG10 and PP20, CISO and ZISO, zPQ and BH are words\n')],
  'an encrypted package of Windows': ['clean, encrypted', marked([0, 'EXPH\x64'])],
  'an encrypted bundle of Windows': ['clean, encrypted', marked([0, 'EXBH\x64'])],
  'a word that begins so': ['clean', Buffer.from('EXPHASE is a word\n')],
  'a vault of Ansible': ['clean, encrypted', Buffer.from('$ANSIBLE_VAULT;1.1;AES256\n3334\n')],
  'uuencode without the blanks at the ends of lines': [
    'infected',
    Buffer.from(`begin 644 a.zip\n${lines.join('\n')}\n\`\nend\n`),
  ],
  'the same with other ends of lines': [
    'infected',
    Buffer.from(`begin 644 a.zip\r\n${lines.join('\r\n')}\r\n\`\r\nend\r\n`),
  ],
};

t.test('a content is looked at whatever it begins with', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, [verdict, bytes]] of Object.entries(verdicts)) t.equal(verdictOf(bytes), verdict, what);
});

t.test('what begins again and again takes no longer for that', async (t) => {
  await load(t, [ownSignaturesDirectory], { maxScanTimeMs: 3000 });
  t.equal(verdictOf(xar('<data'.repeat(150_000), script)), 'infected', 'elements of a list');
  const unit = `${'('.repeat(512)}99999999${' '.repeat(24)}`;
  t.equal(verdictOf(Buffer.concat([Buffer.alloc(9 << 20, unit), script])), 'infected');
});

t.test('a cabinet behind another one is looked into', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  t.equal(verdictOf(cabinet(wanted)), 'infected', 'alone');
  t.equal(verdictOf(Buffer.concat([cabinet(harmless.content), cabinet(wanted)])), 'infected', 'behind another');
  t.equal(
    verdictOf(Buffer.concat([cabinet(harmless.content), Buffer.alloc(99), cabinet(wanted)])),
    'infected',
    'later',
  );
  t.equal(verdictOf(Buffer.concat([cabinet(harmless.content), cabinet(harmless.content)])), 'clean', 'of words');
});

t.test('what stands behind the end of a tar is looked into, up to the next tar', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const words = tar([harmless]);
  t.equal(verdictOf(Buffer.concat([words, cabinet(wanted)])), 'infected', 'a cabinet');
  // tar and 7z pass over whole blocks to the next one.
  const between = (content: Buffer): Buffer => Buffer.concat([cabinet(content), Buffer.alloc(1024)], 1024);
  t.equal(verdictOf(Buffer.concat([words, between(wanted), words])), 'infected', 'before another tar');
  const bad = tar([{ name: 'a.com', content: wanted }]);
  t.equal(verdictOf(Buffer.concat([words, between(harmless.content), bad])), 'infected', 'another tar');
  t.equal(verdictOf(Buffer.concat([words, cabinet(harmless.content)])), 'clean', 'of words');
});
