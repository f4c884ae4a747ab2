// Compound files: streams that libclamav doesn't reach, macros, objects of presentations, and documents that open by the password of Excel.
import { randomBytes } from 'node:crypto';
import { deflateSync } from 'node:zlib';
import t from 'tap';
import { scanBuffer } from '../../src/engine/clamav/addon.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { zip } from '../fixtures/archives.js';
import { type CompoundStream, compound, packedMacro, record } from '../fixtures/compound.js';
import { agile, standard, workbookStream } from '../fixtures/office-encryption.js';
import { eicar } from '../fixtures/samples.js';
import { bodySignature, databaseFolder, load } from '../native/engine.js';
import { verdictOf } from './compare.js';

const wanted: CompoundStream = { name: 'wanted', content: eicar() };
const words = (count: number, length = 50): CompoundStream[] =>
  Array.from({ length: count }, (_, index) => ({
    name: `w${index}`,
    content: Buffer.alloc(length, `words ${index} `),
  }));
const long = {
  name: 'long',
  content: Buffer.concat([Buffer.alloc(5000, ' '), zip([{ name: 'a', content: eicar() }])]),
};

function changed(bytes: Buffer, at: number, number: number): Buffer {
  const copy = Buffer.from(bytes);
  copy.writeUInt32LE(number, at);
  return copy;
}

const infected: Record<string, Buffer> = {
  'a stream': compound([wanted]),
  'the last of many streams': compound([...words(40), wanted]),
  'the last of many streams in large sectors': compound([...words(40), wanted], 4096),
  'a stream of large sectors behind long ones': compound([...words(200, 5000), wanted, long], 4096),
  'a stream behind one that leads back': compound([{ name: 'a', content: Buffer.from('words'), right: 0 }, wanted]),
  'large sectors in a zip': zip([{ name: 'a.doc', content: compound([...words(40), wanted], 4096) }]),
  'a stream that nothing leads to': compound([{ name: 'a', content: Buffer.from('words'), right: 0xffffffff }, wanted]),
};

t.test('all streams of a compound file are looked at', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, bytes] of Object.entries(infected)) t.equal(verdictOf(bytes), 'infected', what);
  t.equal(verdictOf(compound(words(40))), 'clean', 'words');
  t.equal(verdictOf(compound(words(40), 4096)), 'clean', 'words in large sectors');
  const odd = changed(compound(words(1)), 56, 0);
  t.equal(verdictOf(odd), 'incomplete: engine cannot unpack this kind of compound file data', 'no small streams');
});

t.test('streams of a compound file that lie in each other have an end', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const one = compound([...words(1, 1 << 19), ...words(700, 5000)]);
  const start = one.indexOf(Buffer.from('w0', 'utf16le'));
  let all = one;
  for (let at = start; one.readUInt8(at + 66) === 2; at += 128) {
    all = at === start ? Buffer.from(one) : all;
    all.writeUInt32LE(one.readUInt32LE(start + 116), at + 116);
    all.writeUInt32LE(1 << 19, at + 120);
  }
  // libclamav unpacks them up to its own limit.
  t.ok(scanBuffer(all).alerts.includes('Sluice.Mark.Incomplete.damaged compound file data'));
});

const marked = 'MARK OF THE SIGNATURE';
const macro = Buffer.from(`Attribute VB_Name = "A"\r\n${"' a line\r\n".repeat(600)}x = "${marked}"\r\n`);
const module = (content: Buffer): CompoundStream => ({ name: 'Module1', content });
const performance = Buffer.alloc(40, 7);

t.test('macros are unpacked, whatever their project says', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Marked', marked) })]);
  const packed = packedMacro(macro);
  t.equal(packed.indexOf(marked), -1);
  t.equal(verdictOf(compound([module(packed)])), 'infected', 'a module');
  t.equal(verdictOf(compound([module(Buffer.concat([performance, packed]))])), 'infected', 'behind other bytes');
  const unpacked = Buffer.concat([
    Buffer.from([1, 0xff, 0x3f]),
    Buffer.alloc(4096, "' a line\r\n"),
    packed.subarray(1),
  ]);
  t.equal(verdictOf(compound([module(unpacked)])), 'infected', 'behind a piece that is not packed');
  const other = packedMacro(Buffer.from(macro.toString().replace(marked, 'words')));
  t.equal(verdictOf(compound([module(Buffer.concat([other, packed]))])), 'infected', 'a second one');
  t.equal(verdictOf(compound([module(other)])), 'clean', 'another one');
});

t.test('objects of presentations are unpacked, whatever stands before them', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const object = compound([...words(3), wanted]);
  const size = Buffer.from(new Uint32Array([object.length]).buffer);
  const packed = record([0x10, 0x1011], Buffer.concat([size, deflateSync(object)]));
  const presentation = (...records: Buffer[]): Buffer =>
    compound([
      { name: 'PowerPoint Document', content: Buffer.concat([record([15, 1000], Buffer.alloc(8)), ...records]) },
    ]);
  const all: Record<string, Buffer> = {
    'an object': presentation(packed),
    'behind a record without content': presentation(record([0, 4000], Buffer.alloc(0)), packed),
    'before a record without content': presentation(packed, record([0, 4000], Buffer.alloc(0))),
    'behind one that is damaged': presentation(record([0x10, 0x1011], Buffer.alloc(20, 'x')), packed),
    'in another record': presentation(record([15, 1033], packed)),
    'as it is': presentation(record([0, 0x1011], object)),
  };
  for (const [what, bytes] of Object.entries(all)) t.equal(verdictOf(bytes), 'infected', what);
  t.equal(verdictOf(presentation(record([0, 0x1011], compound(words(3))))), 'clean', 'words');
});

t.test('documents that Excel opens without a question are decrypted', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const document = zip([
    { name: 'xl/media/image1.png', content: randomBytes(9000) },
    { name: 'xl/embeddings/oleObject1.bin', content: wanted.content },
  ]);
  const opened: Record<string, Buffer> = {
    'agile encryption': agile(document),
    'by other algorithms': agile(document, { digest: 'sha1', keyBits: 128 }),
    'by others yet': agile(document, { digest: 'sha384', keyBits: 192 }),
    'said in other words': agile(document, {
      write: (xml) => xml.replace('<p:encryptedKey ', "<encryptedKey a='1'\n").replaceAll('="', ' = "'),
    }),
    'standard encryption': standard(document),
    'in a zip': zip([{ name: 'a.xlsx', content: agile(document) }]),
  };
  for (const [what, bytes] of Object.entries(opened)) t.equal(verdictOf(bytes), 'infected', what);
  t.equal(verdictOf(agile(document, { password: 'another' })), 'clean, encrypted', 'another password');
  t.equal(verdictOf(standard(document, 'another')), 'clean, encrypted', 'another password of standard encryption');
  t.equal(verdictOf(agile(zip([{ name: 'a', content: Buffer.from('words') }]))), 'clean, encrypted', 'words');

  const unknown = 'incomplete: engine cannot unpack documents of Office that are encrypted so';
  const written: Record<string, (xml: string) => string> = {
    'in other chains': (xml) => xml.replaceAll('ChainingModeCBC', 'ChainingModeCFB'),
    'with a note': (xml) => xml.replace('<keyE', '<!-- <keyData --><keyE'),
    'with two keys': (xml) => xml.replace('<keyE', '<a spinCount="1"/><keyE'),
    'with many turns': (xml) => xml.replace('spinCount="1000"', 'spinCount="1000001"'),
    'of nothing': () => '',
  };
  for (const [what, write] of Object.entries(written)) t.equal(verdictOf(agile(document, { write })), unknown, what);
  const many = [1, 2, 3].map((salt) => ({
    name: `${salt}.xlsx`,
    content: agile(document.subarray(-600), {
      salt,
      write: (xml) => xml.replace('spinCount="1000"', 'spinCount="1000000"'),
    }),
  }));
  t.equal(verdictOf(zip(many)), 'incomplete: too many documents of Office in it are encrypted', 'many');
});

t.test('older workbooks that Excel opens without a question are decrypted', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Marked', marked) })]);
  const workbook = (content: Buffer, name = 'Workbook'): Buffer => compound([...words(2), { name, content }]);
  const text = Buffer.from(`words ${marked}`);
  const opened: Record<string, Buffer> = {
    'the first way': workbook(workbookStream(text)),
    'the second way': workbook(workbookStream(text, { keyBits: 128 })),
    'the second way with a short key': workbook(workbookStream(text, { keyBits: 40 })),
    'by an older name': workbook(workbookStream(text), 'Book'),
    'behind more than small sectors have': workbook(workbookStream(Buffer.concat([Buffer.alloc(6000, 'a'), text]))),
    'two of them': compound([
      { name: 'Workbook', content: workbookStream(Buffer.from('words')) },
      { name: 'Book', content: workbookStream(text) },
    ]),
  };
  for (const [what, bytes] of Object.entries(opened)) {
    t.equal(bytes.indexOf(marked), -1);
    t.equal(verdictOf(bytes), 'infected', what);
  }
  t.equal(verdictOf(workbook(workbookStream(Buffer.from('words')))), 'clean', 'words');
  const locked = 'clean, encrypted';
  t.equal(verdictOf(workbook(workbookStream(text, { password: 'another' }))), locked, 'another password');
  t.equal(verdictOf(workbook(workbookStream(text, { password: 'another', keyBits: 40 }))), locked, 'and a short key');
  const oldest = Buffer.from('0908020000062f000600000001020304', 'hex');
  t.equal(verdictOf(workbook(Buffer.concat([oldest, Buffer.alloc(99)]))), locked, 'the oldest way');
  t.equal(verdictOf(workbook(workbookStream(text).subarray(0, 60))), 'clean', 'cut off');
});
