// Writes, for test/sanitize/memory.cc, content that reaches what libclamav calls others for: XML, charsets, folders, unpackers.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deflateSync } from 'node:zlib';
import { gzip, mail, tar, zip } from '../fixtures/archives.js';
import { eicar } from '../fixtures/samples.js';
import { ole2, pdf } from '../fixtures/sealed.js';

const SECTOR = 512;
const HTML_MARK = 'a mark of this page';
const PARTITION_MARK = 'a mark of this partition';

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('usage: memory-samples FOLDER');

const member = { name: 'eicar.com', content: eicar() };
/** In lines, as the parsers of XML want it. */
const base64 = zip([member]).toString('base64').replace(/.{76}/g, '$&\n');

/** The Open Packaging Conventions of an Office file (ECMA-376, part 2). */
function office(main: string, embedded: string): Buffer {
  const declaration = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>';
  const part = (name: string, text: string) => ({ name, content: Buffer.from(`${declaration}\n${text}`) });
  const types = 'http://schemas.openxmlformats.org/package/2006/content-types';
  const relations = 'http://schemas.openxmlformats.org/package/2006/relationships';
  return zip([
    part(
      '[Content_Types].xml',
      `<Types xmlns="${types}"><Default Extension="bin" ContentType="application/octet-stream"/></Types>`,
    ),
    part('_rels/.rels', `<Relationships xmlns="${relations}"><Relationship Id="r1" Target="${main}"/></Relationships>`),
    part(main, '<document>text</document>'),
    { name: embedded, content: eicar() },
  ]);
}

/** A XAR archive: a deflated table of contents in XML, then the files. */
function xar(content: Uint8Array): Buffer {
  const packed = deflateSync(content);
  const data = `<length>${packed.length}</length><offset>0</offset><size>${content.length}</size>`;
  const file = `<file id="1"><name>eicar.com</name><type>file</type><data>${data}<encoding style="application/x-gzip"/></data></file>`;
  const contents = Buffer.from(`<?xml version="1.0" encoding="UTF-8"?><xar><toc>${file}</toc></xar>`);
  const deflated = deflateSync(contents);
  const header = Buffer.alloc(28);
  header.write('xar!', 0, 'latin1');
  header.writeUInt16BE(header.length, 4);
  header.writeUInt16BE(1, 6);
  header.writeBigUInt64BE(BigInt(deflated.length), 8);
  header.writeBigUInt64BE(BigInt(contents.length), 16);
  return Buffer.concat([header, deflated, packed]);
}

const DEFLATED = 0x80000005;
const END = 0xffffffff;

/** A disk image of Apple's: one partition in deflated stripes, described by a property list, which a trailer describes. */
function dmg(partition: Uint8Array): Buffer {
  const packed = deflateSync(partition);
  const sectors = BigInt(partition.length / SECTOR);
  const stripes = [
    { type: DEFLATED, start: 0n, count: sectors, offset: 0n, length: BigInt(packed.length) },
    { type: END, start: sectors, count: 0n, offset: BigInt(packed.length), length: 0n },
  ];
  const table = Buffer.alloc(204 + stripes.length * 40);
  table.write('mish', 0, 'latin1');
  table.writeUInt32BE(1, 4);
  table.writeBigUInt64BE(sectors, 16);
  table.writeUInt32BE(stripes.length, 200);
  for (const [index, { type, start, count, offset, length }] of stripes.entries()) {
    const at = 204 + index * 40;
    table.writeUInt32BE(type, at);
    for (const [field, value] of [start, count, offset, length].entries())
      table.writeBigUInt64BE(value, at + 8 + field * 8);
  }
  const entry = `<dict><key>Attributes</key><string>0x0050</string><key>Data</key><data>${table.toString('base64')}</data></dict>`;
  const list = Buffer.from(
    '<?xml version="1.0" encoding="UTF-8"?><plist version="1.0"><dict><key>resource-fork</key>' +
      `<dict><key>blkx</key><array>${entry}</array></dict></dict></plist>`,
  );
  const trailer = Buffer.alloc(SECTOR);
  trailer.write('koly', 0, 'latin1');
  trailer.writeUInt32BE(4, 4);
  trailer.writeUInt32BE(SECTOR, 8);
  trailer.writeUInt32BE(1, 12);
  trailer.writeBigUInt64BE(BigInt(packed.length), 32);
  trailer.writeUInt32BE(1, 56);
  trailer.writeUInt32BE(1, 60);
  trailer.writeBigUInt64BE(BigInt(packed.length), 216);
  trailer.writeBigUInt64BE(BigInt(list.length), 224);
  trailer.writeUInt32BE(1, 488);
  return Buffer.concat([packed, list, trailer]);
}

function toSectors(content: Uint8Array): Buffer {
  const padded = Buffer.alloc(Math.ceil(content.length / SECTOR) * SECTOR);
  padded.set(content);
  return padded;
}

/** Found in its normal form only. */
function page(charset: string): string {
  const head = `<head><meta http-equiv="Content-Type" content="text/html; charset=${charset}"><title>a page</title></head>`;
  const styles = '<style>p { background: url(data:image/png;base64,iVBORw0KGgo=) }</style><script>var a = 1;</script>';
  return `<html>${head}<body>${styles}<p>A&#32;MARK   OF\nTHIS&#x20;PAGE</p></body></html>`;
}

function html(charset: string): Buffer {
  return Buffer.from(page(charset), 'latin1');
}

function wordXml(encoding: string, encoded = Buffer.from(base64)): Buffer {
  const [before = '', after = ''] = wordXmlAround(encoding).split('DATA');
  return Buffer.concat([Buffer.from(before), encoded, Buffer.from(after)]);
}

function wordXmlAround(encoding: string): string {
  return (
    `<?xml version="1.0" encoding="${encoding}"?><?mso-application progid="Word.Document"?>` +
    '<w:wordDocument xmlns:w="http://schemas.microsoft.com/office/word/2003/wordml">' +
    '<w:binData w:name="wordml://1.bin">DATA</w:binData></w:wordDocument>'
  );
}

/** What UTF-7 (RFC 2152) has between its shifts: who can't convert it finds nothing. */
const base64Utf16 = Buffer.from(base64, 'utf16le').swap16().toString('base64').replace(/=+$/, '');

const hangul =
  '\ufeff<?xml version="1.0" encoding="UTF-8"?><HWPML Version="2.8"><TAIL><BINDATASTORAGE>' +
  `<BINDATA Id="1" Size="${zip([member]).length}" Encoding="Base64" Compress="false">${base64}</BINDATA>` +
  '</BINDATASTORAGE></TAIL></HWPML>';

const samples: Readonly<Record<string, Buffer>> = {
  'a.docx': office('word/document.xml', 'word/embeddings/object.bin'),
  'a.xlsx': office('xl/workbook.xml', 'xl/embeddings/object.bin'),
  'a.xar': xar(eicar()),
  'a.dmg': dmg(toSectors(Buffer.from(PARTITION_MARK))),
  'koi8.html': html('koi8-r'),
  'shift-jis.html': html('shift_jis'),
  'utf-16.html': Buffer.from(`\ufeff${page('utf-16')}`, 'utf16le'),
  'utf-8.word.xml': wordXml('UTF-8'),
  'cyrillic.word.xml': wordXml('windows-1251'),
  'japanese.word.xml': wordXml('Shift_JIS'),
  'utf-7.word.xml': wordXml('UTF-7', Buffer.from(`+${base64Utf16}-`)),
  'a.hwpml': Buffer.from(hangul),
  'html.mail': mail(html('koi8-r')),
  'zip.mail': mail(zip([member])),
  'a.doc': ole2([
    { name: 'WordDocument', content: Buffer.alloc(4096, 1) },
    { name: 'Attachment', content: toSectors(Buffer.concat([eicar(), Buffer.alloc(60, ' ')])) },
    { name: 'Package', content: Buffer.concat([zip([member]), Buffer.alloc(4096)]) },
  ]),
  'a.pdf': pdf(eicar()),
  'a.tar.gz': gzip(tar([member])),
  // These only we open.
  'predicted.pdf': Buffer.concat([
    Buffer.from('%PDF-1.7\n1 0 obj\n<</Filter/FlateDecode/DecodeParms<</Predictor 12/Columns 68>>>>\nstream\n'),
    deflateSync(Buffer.concat([Buffer.of(0), eicar()])),
    Buffer.from('\nendstream\nendobj\n'),
  ]),
  'base64.txt': Buffer.from(`This is base64:\n${base64}\n`),
  'behind.sh': Buffer.concat([Buffer.from('#!/bin/sh\n'), gzip(eicar())]),
};

const hex = (text: string): string => Buffer.from(text).toString('hex');
const databases: Readonly<Record<string, string>> = {
  // Target 3: HTML after libclamav's normalisation.
  'page.ndb': `Test.Page:3:*:${hex(HTML_MARK)}\n`,
  'partition.ndb': `Test.Partition:0:*:${hex(PARTITION_MARK)}\n`,
};

mkdirSync(join(folder, 'databases'), { recursive: true });
mkdirSync(join(folder, 'samples'));
for (const [name, text] of Object.entries(databases)) writeFileSync(join(folder, 'databases', name), text);
for (const [name, content] of Object.entries(samples)) writeFileSync(join(folder, 'samples', name), content);
