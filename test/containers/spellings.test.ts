// What lies in a text, a page or a document in another spelling, or behind other bytes, is looked at also where libclamav looks elsewhere.
import { deflateSync } from 'node:zlib';
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { crc32, tar } from '../fixtures/archives.js';
import { eicar } from '../fixtures/samples.js';
import { load } from '../native/engine.js';
import { verdictOf } from './compare.js';
import { compressors, sevenZip } from './packers.js';

const wanted = eicar();
const base64 = wanted.toString('base64');
const lines = base64.replace(/.{20}/g, '$&\r\n');
const archive = tar([{ name: 'wanted.com', content: wanted }]);
const script = Buffer.from('#!/bin/sh\ntail -n +4 "$0" | tar x\nexit\n');

/** As PowerShell takes it. */
const command = Buffer.from(wanted.toString('latin1'), 'utf16le').toString('base64');

/** Says neither by what system it was made, nor how. */
const unusual = compressors.gz(archive);
unusual.set([9, 77], 8);
const lzmaZip = sevenZip('-tzip', '-mm=LZMA')([{ name: 'wanted.com', content: wanted }]);

const part = (body: string, encoding = 'base64'): string =>
  `--AB\r\nContent-Type: a/b\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${body}\r\n`;
const mail = (type: string, parts: string, first = 'From: a@b.c\r\n'): Buffer =>
  Buffer.from(`${first}MIME-Version: 1.0\r\nContent-Type: ${type}\r\n\r\n${parts}--AB--\r\n`);
const mixed = 'multipart/mixed; boundary="AB"';

/** Of the first file of the archive, by its own tool. */
function uuencoded(content: Buffer): string {
  const spelled = (value: number): string => String.fromCharCode(value === 0 ? 0x60 : value + 0x20);
  let text = '';
  for (let at = 0; at < content.length; at += 45) {
    const line = content.subarray(at, at + 45);
    const padded = Buffer.concat([line, Buffer.alloc((3 - (line.length % 3)) % 3)]);
    const letters = [...Buffer.from(padded.toString('base64'))].map((_, index) => {
      const bits = padded.readUIntBE(3 * (index >> 2), 3);
      return spelled((bits >> (18 - 6 * (index & 3))) & 0x3f);
    });
    text += `${spelled(line.length)}${letters.join('')}\n`;
  }
  return `begin 0644 wanted.com\n${text}\`\nend\n`;
}

/** A document of one stream, which the dictionary is about. */
function pdf(dictionary: string, data: Buffer, head = '%PDF-1.7\n'): Buffer {
  return Buffer.concat([
    Buffer.from(
      `${head}1 0 obj\n<</Type/Catalog>>\nendobj\n2 0 obj\n<</Length ${data.length}${dictionary}>>\nstream\n`,
    ),
    data,
    Buffer.from('\nendstream\nendobj\n3 0 obj\n/FlateDecode\nendobj\ntrailer\n<</Root 1 0 R>>\n%%EOF\n'),
  ]);
}

/** With an address that has these letters. */
const page = (letters: readonly string[]): Buffer =>
  Buffer.from(`<html><body><a href="data:application/octet-stream;base64,${letters.join('')}">words</a></body></html>`);

/** Rows of four bytes, each said by the one above or on the left. */
function predicted(type: number): Buffer {
  const rows = Buffer.alloc(5 * (wanted.length / 4));
  for (const [at, byte] of wanted.entries()) {
    const above = wanted[at - 4] ?? 0;
    const left = at % 4 === 0 ? 0 : (wanted[at - 1] ?? 0);
    const corner = at % 4 === 0 ? 0 : (wanted[at - 5] ?? 0);
    const guess = left + above - corner;
    const nearest = [left, above, corner].sort((one, other) => Math.abs(guess - one) - Math.abs(guess - other))[0] ?? 0;
    const said = [0, left, above, (left + above) >> 1, nearest][type] ?? 0;
    rows[5 * (at >> 2)] = type;
    rows[5 * (at >> 2) + 1 + (at % 4)] = byte - said;
  }
  return deflateSync(rows);
}
const summed = deflateSync(wanted.map((byte, at) => byte - (wanted[at - 1] ?? 0)));
const deflated = deflateSync(wanted);
const alike = deflateSync(Buffer.concat([wanted.subarray(0, 16), Buffer.alloc(wanted.length - 16, 'a')]));
const likeWanted = Buffer.concat([Buffer.from(`<</Length ${alike.length}/Filter/FlateDecode>>\nstream\n`), alike]);

const infected: Record<string, Buffer> = {
  'the queries of a workbook, which nothing announces': Buffer.from(
    `<DataMashup>${Buffer.concat([numbers(0, lzmaZip.length), lzmaZip]).toString('base64')}</DataMashup>`,
  ),
  'a mail that begins with a header of no meaning': Buffer.from(
    `X-A: b\nContent-Type: ${mixed}\n\n${part(lines)}--AB--\n`,
  ),
  'a mail whose boundary is in two pieces': mail('multipart/mixed; boundary*0=A; boundary*1=B', part(lines)),
  'a mail with two types': mail(`${mixed}\r\nContent-Type: text/plain`, part(lines)),
  'a signed mail with more parts than two': mail('multipart/signed; boundary="AB"', part('AAAA') + part(lines)),
  'a mail with another part of that size': mail(
    'multipart/parallel; boundary="AB"',
    part('x'.repeat(wanted.length), '8bit') + part(lines),
  ),
  'a link in Markdown': Buffer.from(`[a](data:a/b;base64,${base64})`),
  'a picture in SVG': Buffer.from(
    `<svg xmlns="http://www.w3.org/2000/svg"><image href="data:;base64,${base64}"/></svg>`,
  ),
  'a script of a page': Buffer.from(`<html><script>location="data:a/b;base64,${base64}"</script></html>`),
  'an invitation': Buffer.from(`BEGIN:VCALENDAR\nATTACH;ENCODING=BASE64;VALUE=BINARY:${base64}\nEND:VCALENDAR\n`),
  'a visiting card': Buffer.from(`BEGIN:VCARD\nKEY;ENCODING=b:${base64}\nEND:VCARD\n`),
  'a document of Word in one file': Buffer.from(
    `<?xml version="1.0"?><pkg:package><pkg:binaryData>${base64}</pkg:binaryData></pkg:package>`,
  ),
  'a document of LibreOffice in one file': Buffer.from(
    `<?xml version="1.0"?><office:document><office:binary-data>${base64}</office:binary-data></office:document>`,
  ),
  'a zip by LZMA behind a gzip': Buffer.concat([compressors.gz(Buffer.from('other words')), lzmaZip]),
  'lines behind a line of the word': Buffer.from(`base64\n${lines}`),
  'a form of Acrobat': Buffer.from(`<?xml version="1.0"?><xdp:xdp><chunk>${base64}</chunk></xdp:xdp>`),
  'what uuencode -m writes': Buffer.from(`begin-base64 644 wanted.com\n${base64}\n====\n`),
  'a uuencoded file behind a text': Buffer.from(`Here it is.\n${uuencoded(wanted)}`),
  ...Object.fromEntries(
    (['gz', 'bz2', 'xz', 'zst', 'lz4', 'lz'] as const).map((kind) => [
      `a script with ${kind} behind it`,
      Buffer.concat([script, compressors[kind](archive)]),
    ]),
  ),
  ...Object.fromEntries(
    Object.entries({ CR: '\r', 'CR CR LF': '\r\r\n' }).flatMap(([name, end]) => [
      [`base64 in lines that end with ${name}`, Buffer.from(`base64:${end}${lines.replaceAll('\r\n', end)}`)],
      [
        `a mail whose lines end with ${name}`,
        Buffer.from(mail(mixed, part(lines)).toString('latin1').replaceAll('\r\n', end), 'latin1'),
      ],
    ]),
  ),
  'a 7z behind a page with the magic of one': Buffer.concat([
    Buffer.from('<html><body>7z\xbc\xaf\x27\x1c\0\x04</body></html>', 'latin1'),
    sevenZip('-t7z')([{ name: 'wanted.com', content: wanted }]),
  ]),
  ...Object.fromEntries(
    [0, 1, 2, 3, 4].map((type) => [
      `a PDF with predictor ${type} of PNG`,
      pdf('/Filter/FlateDecode/DecodeParms<</Predictor 12/Columns 4>>', predicted(type)),
    ]),
  ),
  'a PDF with the predictor of TIFF': pdf('/Filter/FlateDecode/DecodeParms<</Predictor 2/Columns 68>>', summed),
  'a PDF whose filter stands elsewhere': pdf('/Filter 3 0 R', deflated),
  'a PDF with a word of its own in a text': pdf('/A(stream)/B(endobj)/Filter/FlateDecode', deflated),
  'a PDF with a predictor below digits': pdf(
    '/Filter[/ASCIIHexDecode/FlateDecode]/DecodeParms[null<</Predictor 12/Columns 4>>]',
    Buffer.from(predicted(2).toString('hex')),
  ),
  'a PDF whose filter stands elsewhere, by digits': pdf('/Filter 3 0 R', Buffer.from(`${deflated.toString('hex')}>`)),
  'a PDF with a hidden stream that begins as another one does': pdf(
    '/A(stream)/B(endobj)/Filter/FlateDecode',
    Buffer.concat([deflated, Buffer.from('\nendstream\nendobj\n4 0 obj\n'), likeWanted]),
  ),
  'a script with a tar behind it': Buffer.concat([script, archive]),
  'a script with gzip of an unknown maker behind it': Buffer.concat([script, unusual]),
  'a script that begins with the word': Buffer.from(`atob('${base64}')`),
  'a script with the word behind it': Buffer.from(`wanted="${base64}"\necho $wanted | base64 -d\n`),
  'a script in characters of four bytes, the high ones first': Buffer.concat(
    [...Buffer.from(`\ufeffatob('${base64}')`, 'utf16le').swap16()].map((byte, at) =>
      Buffer.from(at % 2 === 0 ? [0, 0, byte] : [byte]),
    ),
  ),
  'a script in wide characters, the high byte first': Buffer.from(`\ufeffatob('${base64}')`, 'utf16le').swap16(),
  'a page in wide characters without a mark, the high byte first': Buffer.from(
    `<html><a href="data:application/octet-stream;base64,${base64}">`,
    'utf16le',
  ).swap16(),
  'an address of a page by the numbers of its letters': page([...base64].map((letter) => `&#${letter.charCodeAt(0)};`)),
  'an address by numbers in digits of both kinds, without semicolons': page(
    [...base64].map(
      (letter, at) =>
        `&#${at % 2 ? `X00${letter.charCodeAt(0).toString(16)}` : letter.charCodeAt(0)}${at % 3 ? ';' : ' '}`,
    ),
  ),
  'an address of a page with one letter by its number': page([
    base64.slice(0, 5),
    `&#${base64.charCodeAt(5)};`,
    base64.slice(6),
  ]),
  'an address of a page with names in it': Buffer.from(
    `<a href="data&colon;application/octet-stream&semi;base64&comma;${base64.replaceAll('=', '&equals;').replaceAll('+', '&plus;')}">`,
  ),
  'a script in wide characters': Buffer.from(`\ufeffatob('${base64}')`, 'utf16le'),
  'a command of PowerShell': Buffer.from(`cmd /c start PowerShell -w 1 -eNc ${command}\r\n`),
  'a command of PowerShell in a shortcut': Buffer.concat([
    Buffer.from('4c0000000114020000000000c000000000000046', 'hex'),
    Buffer.alloc(57),
    Buffer.from(`-w 1 -ec "${command}"`, 'utf16le'),
  ]),
  'a mail with bytes in quoted-printable': mail(
    mixed,
    part(`${wanted.toString('latin1')}=\r\n${'=1A'.repeat(60)}`, 'quoted-printable'),
  ),
  'a batch file with a certificate': Buffer.from(`@echo off\n-----BEGIN CERTIFICATE-----\n${base64}\n`),
  'a page that unpacks itself': Buffer.from(`<html><script>save(atob('${base64}'))</script></html>`),
  'base64 and nothing else': Buffer.from(`\ufeff\r\n${base64}`),
  'base64 of lines and nothing else': Buffer.from(lines.replace(/\r\n/g, '')),
  'what certutil -encode writes': Buffer.from(
    `-----BEGIN CERTIFICATE-----\r\n${lines}\r\n-----END CERTIFICATE-----\r\n`,
  ),
  'a mail with base64 in pieces': mail(
    mixed,
    part(`${wanted.subarray(0, 34).toString('base64')}\r\n${wanted.subarray(34).toString('base64')}`),
  ),
  'macros as mails have them': Buffer.concat([Buffer.from('ActiveMime'), Buffer.alloc(40), deflated]),
  'a signed message in pieces': signed([wanted.subarray(0, 30), wanted.subarray(30)]),
  'what Outlook sends, without a title': outlook(attribute(0x0006800f, wanted)),
  'what Outlook sends, among properties': outlook(property(0x37010102, wanted)),
  'a message that is attached to what Outlook sends': outlook(
    property(0x3701000d, Buffer.concat([Buffer.alloc(16), outlook(attribute(0x0006800f, wanted))])),
  ),
  'a PDF behind the head of a picture': pdf('/Filter/FlateDecode', deflated, 'GIF89a\n%PDF-1.7\n'),
};

/** An element of ASN.1 of less than 64 KB; without an end that is said: it has one of its own. */
function element(tag: number, content: Buffer, hasLength = true): Buffer {
  if (!hasLength) return Buffer.concat([Buffer.from([tag, 0x80]), content, Buffer.alloc(2)]);
  return Buffer.concat([Buffer.from([tag, 0x82, content.length >> 8, content.length & 0xff]), content]);
}

/** What is signed is in pieces, as senders of mails write it. */
function signed(pieces: readonly Buffer[]): Buffer {
  const id = (last: number): Buffer => Buffer.from([6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, last]);
  const octets = element(0x24, Buffer.concat(pieces.map((piece) => element(4, piece))), false);
  const content = element(0x30, Buffer.concat([id(1), element(0xa0, octets, false)]), false);
  const all = Buffer.concat([Buffer.from([2, 1, 1, 0x31, 0]), content, element(0x31, Buffer.alloc(0))]);
  return element(0x30, Buffer.concat([id(2), element(0xa0, element(0x30, all, false), false)]), false);
}

function numbers(...all: readonly number[]): Buffer {
  return Buffer.from(new Uint32Array(all).buffer);
}

/** Of an attachment; the sum at its end nobody asks for. */
function attribute(kind: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.from([2]), numbers(kind, content.length), content, Buffer.alloc(2)]);
}

function property(tag: number, content: Buffer): Buffer {
  return attribute(0x00069005, Buffer.concat([numbers(1, tag, 1, content.length), content]));
}

/** `winmail.dat`: words and what else is attached. */
function outlook(attached: Buffer): Buffer {
  const words = attribute(0x0006800f, Buffer.alloc(200, 'words '));
  return Buffer.concat([numbers(0x223e9f78), Buffer.alloc(2), words, attached]);
}

/** It says that its directory lies further on than any file is long. */
function sevenZipHeader(): string {
  const header = Buffer.from(`7z\xbc\xaf\x27\x1c\0\x04${'\0'.repeat(24)}`, 'latin1');
  header.writeUInt32LE(0x7fffffff, 12);
  header.writeUInt32LE(crc32(header.subarray(12)), 8);
  return header.toString('latin1');
}

const object = (digits: string): Buffer => Buffer.from(`{\\rtf1{\\object\\objemb{\\*\\objdata ${digits}}}}`, 'latin1');

/** As signed characters they make a sum of nothing, which is what stands in the field of the sum. */
function likeTar(): Buffer {
  const block = Buffer.alloc(2 * 512);
  Buffer.from([1, 0x80, 0x80, 0xff, 0x80, 0x80, 0x80, 0x80, 0xa3]).copy(block);
  block.write('77777777777', 124);
  block.write('0', 148);
  return block;
}

const clean: Record<string, Buffer> = {
  'bytes that a sum makes look like a tar': likeTar(),
  'a program that opens archives': Buffer.from('words 7z\xbc\xaf\x27\x1c\0\x04 MSCF\0\0\0\0 and more words', 'latin1'),
  'an object of RTF': object('0105000002000000\\par 4142{\\*\\comment x}'),
  'a mail in quoted-printable': mail(
    mixed,
    part('a =3D b=\r\nc =3D \r\n', 'quoted-printable') + part('a = \r\nb', '8bit'),
  ),
  'a certificate': Buffer.concat([Buffer.from([0x30, 0x82, 1, 0]), Buffer.alloc(256)]),
  'a page about RAR': Buffer.from('<html><body>Rar!\x1a\x07\x01\0 and more words</body></html>', 'latin1'),
  'base64 of few bytes': Buffer.from(`base64: ${Buffer.alloc(64, 1).toString('base64')}\n`),
  'a mail with a picture': mail(mixed, part(Buffer.alloc(500, 'word ').toString('base64'))),
  'a PDF with a picture': pdf(
    '/Subtype/Image/Filter/FlateDecode/DecodeParms<</Predictor 15/Columns 9/Colors 3>>',
    deflateSync(Buffer.alloc(280)),
  ),
};

t.test('what is spelled in another way, or lies behind other bytes, is looked at', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, bytes] of Object.entries(infected)) t.equal(verdictOf(bytes), 'infected', what);
  for (const [what, bytes] of Object.entries(clean)) t.equal(verdictOf(bytes), 'clean', what);
});

const pdfData = 'engine cannot unpack this kind of PDF data';
const mixedRtf = 'engine cannot unpack objects of RTF in two spellings';
const tooMuch = 'too much of it only looks packed, or lies in several archives';
const spelled = Buffer.from('other letters than those of digits'.repeat(4));
const headless = pdf('/Filter/FlateDecode', deflated, '');
const incomplete: Record<string, [string, Buffer]> = {
  'a PDF whose filter is not to be found': [pdfData, pdf('/Filter 9 0 R', spelled)],
  'a PDF without a head': [pdfData, Buffer.concat([headless, Buffer.from('startxref\n0\n%%EOF\n')])],
  'a PDF that hides its encryption': [
    pdfData,
    Buffer.concat([pdf('', Buffer.from('other letters '.repeat(9))), Buffer.from('trailer\n<</Encr#79pt 1 0 R>>\n')]),
  ],
  'an object of RTF with a character by its number': [mixedRtf, object("0105{}\\'412")],
  'an object of RTF with bytes as they are': [mixedRtf, object('\\bin4 abcd')],
  'lzop behind a script': [
    'engine cannot unpack lzop',
    Buffer.concat([script, Buffer.from('\x89LZO\0\r\n\x1a\n\x10\x40', 'latin1'), Buffer.alloc(80)]),
  ],
  'quoted-printable with blanks where a line goes on': [
    'engine cannot decode quoted-printable with blanks where a line goes on',
    mail(mixed, part('=58=35= \t\r\n=4F', 'quoted-printable')),
  ],
  ...Object.fromEntries(
    Object.entries({
      'a gzip of pieces that are none': '\x1f\x8b\x08\0\0\0\0\0\0\x03\0\xf5\xff\x0a\0',
      'a zstd without an end': '\x28\xb5\x2f\xfd\0\x80\0\0\x08',
      'a lzip without an end': 'LZIP\x01\x0c\0\0',
      'the header of a 7z': sevenZipHeader(),
      'a stored member of a zip without a size': `PK\x03\x04\x14\0\x08${'\0'.repeat(19)}\x01\0\0\0a`,
    }).map(([what, bytes]): [string, [string, Buffer]] => [
      `${what}, again and again`,
      [tooMuch, Buffer.concat([script, Buffer.alloc(1 << 18, bytes, 'latin1')])],
    ]),
  ),
  'a zip of which the end alone says what it is': [
    'a zip can be read in several ways: a member is not where the directory says',
    Buffer.from(lzmaZip.toString('latin1').replace('PK\x03\x04', 'XK\x03\x04'), 'latin1'),
  ],
  'a message that is compressed (RFC 3274)': [
    'engine cannot unpack this kind of CMS data',
    Buffer.from('3080060b2a864886f70d0109100109a0803080020100', 'hex'),
  ],
  'a RAR behind a page': [
    'engine cannot unpack RAR',
    Buffer.from('<html><body></body></html>\nRar!\x1a\x07\x01\0abcd\x03\x01\0\0\0', 'latin1'),
  ],
  'what lzma86 writes': ['engine cannot unpack LZMA86', Buffer.concat([Buffer.alloc(1), compressors.lzma(wanted)])],
};

t.test('a signed message that breaks off is truncated', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const whole = signed([Buffer.alloc(300, 'words ')]);
  t.match(verdictOf(whole.subarray(0, 200)), 'truncated');
});

t.test('what can be read in a way that no library here has is incomplete', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, [reason, bytes]] of Object.entries(incomplete)) {
    t.equal(verdictOf(bytes), `incomplete: ${reason}`, what);
  }
});

t.test('bytes are looked at many together, and what they say is found at each place', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const members = [{ name: 'wanted.com', content: wanted }];
  const spelled: Record<string, Buffer> = {
    base64: Buffer.from(`(${base64})`),
    'base64 in short lines': Buffer.from(`\n${base64.replace(/.{5}/g, '$&\n')}`),
    uuencode: Buffer.from(`\n${uuencoded(wanted)}`),
    '7z': sevenZip('-t7z')(members),
    'a zip': sevenZip('-tzip')(members),
    ...Object.fromEntries((['gz', 'bz2', 'xz', 'zst'] as const).map((kind) => [kind, compressors[kind](archive)])),
  };
  for (const [what, bytes] of Object.entries(spelled)) {
    const missed = Array.from({ length: 100 }, (_, at) => at + 1).filter((at) => {
      const found = verdictOf(Buffer.concat([Buffer.from('Base64'), Buffer.alloc(at, ' -'), bytes]));
      return found !== 'infected';
    });
    t.same(missed, [], what);
  }
});
