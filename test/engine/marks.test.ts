// What YARA-X alone may call clean: bytes that say all there is. Whatever holds other content is incomplete, never clean.
import { readFileSync } from 'node:fs';
import { brotliCompressSync, deflateSync } from 'node:zlib';
import t from 'tap';
import { packageJsonPath } from '../../src/paths.js';
import { gzip, mail, tar, zip } from '../fixtures/archives.js';
import { startEngine } from '../fixtures/engines.js';

const text = Buffer.from('harmless text of a few words\n'.repeat(40));
const member = { name: 'a.txt', content: text };
const hex = (bytes: string): Buffer => Buffer.concat([Buffer.from(bytes.replaceAll(' ', ''), 'hex'), text]);
const latin1 = (start: string): Buffer => Buffer.concat([Buffer.from(start, 'latin1'), text]);

function at(offset: number, bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.alloc(offset, 'x'), bytes, text]);
}

/** As tars were before POSIX: the same header without the format's name. */
function oldTar(): Buffer {
  const archive = Buffer.from(tar([member]));
  archive.fill(0, 257, 265);
  return archive;
}

const containers: Record<string, Buffer> = {
  'a ZIP behind a picture': Buffer.concat([hex('89504e470d0a1a0a'), zip([member])]),
  'a ZIP behind text': Buffer.concat([text, zip([member])]),
  gzip: gzip(text),
  tar: tar([member]),
  'an old tar': oldTar(),
  'a mail': mail(text),
  'a mail with a folded header': latin1('Content-Type: text/plain\r\nContent-Transfer-Encoding:\r\n base64\r\n\r\n'),
  'quoted-printable': latin1('content-transfer-encoding: Quoted-Printable\n\n'),
  zlib: deflateSync(text),
  bzip2: latin1('BZh91AY&SY'),
  xz: hex('fd377a585a000004'),
  zstd: hex('28b52ffd'),
  lz4: hex('04224d18'),
  RAR: hex('526172211a0701 00'),
  'RAR behind a program': at(5000, hex('526172211a0700')),
  '7z': hex('377abcaf271c0004'),
  '7z behind something': at(5000, hex('377abcaf271c0004')),
  CAB: hex('4d534346 00000000'),
  cpio: latin1('070701'),
  ar: latin1('!<arch>\n'),
  ISO: at(32_769, Buffer.from('CD001')),
  OLE2: hex('d0cf11e0a1b11ae1'),
  PDF: latin1('%PDF-1.7\n'),
  'a PDF behind something': at(900, Buffer.from('%PDF-1.4')),
  RTF: latin1('{\\rtf1'),
  'RTF, cut short': latin1('{\\rt'),
  OneNote: hex('e4525c7b8cd8a74daeb15378d02996d3'),
  CHM: latin1('ITSF'),
  TNEF: hex('789f3e22'),
  'Word in XML': latin1('<?xml version="1.0"?><w:wordDocument><w:binData w:name="oledata.mso">'),
  'a page with a data URI': latin1('<html><img src="data:image/png;base64,iVBORw0KGgo=">'),
  'an encoded script': latin1('<script language="JScript.Encode">#@~^FgAAAA=='),
  uuencode: latin1('some words\nbegin 644 file.bin\nM'),
  Flash: latin1('CWS\x09'),
  'a packed ELF': Buffer.concat([hex('7f454c46'), Buffer.from('UPX!')]),
  'a program in something': at(300, hex('50450000 4c01 0300')),
  OpenSSL: latin1('Salted__'),
  'OpenPGP, by a password': hex('8c0d0407 0302'),
  'OpenPGP, packed': hex('a302'),
  'gzip behind a script': Buffer.concat([Buffer.from('#!/bin/sh\ntail -n +4 "$0" | tar xz\nexit\n'), gzip(text)]),
  'bzip2 behind a script': Buffer.concat([text, latin1('BZh91AY&SY')]),
  'xz behind a script': Buffer.concat([text, hex('fd377a585a000004')]),
  ARC: hex('1a08612e74787400'),
  zpaq: latin1('7kSt'),
  rzip: latin1('RZIP\x02'),
  LZFSE: latin1('bvx2'),
  'an archive of PHP': latin1('<?php __HALT_COMPILER(); ?>\r\n\x40\0\0\0'),
  WARC: latin1('WARC/1.0\r\n'),
};

/** Unlike anything, and the same at every run. */
function noise(bytes: number): Buffer {
  const content = Buffer.alloc(bytes);
  let state = 12_345;
  for (let index = 0; index < bytes; index += 1) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    content[index] = state >>> 16;
  }
  return content;
}

const plain: Record<string, Buffer> = {
  text,
  'a page': latin1('<!DOCTYPE html><html><body><p>hello</p></body></html>'),
  'UTF-16': Buffer.from(text.toString(), 'utf16le'),
  JSON: readFileSync(packageJsonPath),
  'a script': latin1('#!/bin/sh\necho hello\n'),
  'a mail of plain text': latin1('From: a@example.org\r\nSubject: hello\r\nContent-Transfer-Encoding: 7bit\r\n\r\n'),
  'a picture': hex('89504e470d0a1a0a 0000000d49484452'),
  'a program': readFileSync('/bin/true'),
  zeros: Buffer.alloc(100_000),
  noise: noise(1_000_000),
  'one byte': Buffer.from('x'),
};

t.test('YARA-X alone', async (t) => {
  const { verdict } = await startEngine(t, { engine: 'yara' });
  for (const [what, content] of Object.entries(containers)) {
    t.match(await verdict(content), { kind: 'incomplete', reason: /^engine cannot unpack / }, what);
  }
  for (const [what, content] of Object.entries(plain)) {
    t.same(await verdict(content), { kind: 'clean', encrypted: false }, what);
  }
  t.same(
    await verdict(brotliCompressSync(text)),
    { kind: 'clean', encrypted: false },
    'a form without any mark of its own is bytes of no known format, for ClamAV as well',
  );
});
