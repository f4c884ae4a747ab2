// Streams of a PDF whose bytes are letters, in lines and with blanks as readers take them (ISO 32000-2, 7.4.2 and 7.4.3), and scripts whose letters are
// numbers (7.3.4).
import { deflateSync } from 'node:zlib';
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { eicar } from '../fixtures/samples.js';
import { load } from '../native/engine.js';
import { verdictOf } from './compare.js';

const wanted = eicar();
const deflated = deflateSync(wanted);

function pdf(filter: string, data: Buffer | string): Buffer {
  const bytes = Buffer.from(data);
  return Buffer.concat([
    Buffer.from(`%PDF-1.7\n1 0 obj\n<</Type/Catalog>>\nendobj\n2 0 obj\n<</Length ${bytes.length}/Filter${filter}>>\n`),
    Buffer.from('stream\n'),
    bytes,
    Buffer.from('\nendstream\nendobj\ntrailer\n<</Root 1 0 R>>\n%%EOF\n'),
  ]);
}

const hex = (content: Buffer): string => `${content.toString('hex')}>`;

function base85(content: Buffer): string {
  let text = '';
  for (let at = 0; at < content.length; at += 4) {
    const piece = content.subarray(at, at + 4);
    let value = Buffer.concat([piece, Buffer.alloc(4 - piece.length)]).readUInt32BE();
    let letters = '';
    for (let count = 0; count < 5; count += 1) {
      letters = String.fromCharCode(0x21 + (value % 85)) + letters;
      value = Math.floor(value / 85);
    }
    text += letters.slice(0, piece.length + 1);
  }
  return `${text}~>`;
}

/** With this behind each so many letters. */
const inLines = (text: string, length: number, end = '\n'): string =>
  (text.match(new RegExp(`[^]{1,${length}}`, 'g')) ?? []).join(end);

const infected: Record<string, Buffer> = {
  'digits in lines': pdf('/ASCIIHexDecode', inLines(hex(wanted), 64)),
  'digits of one byte in two lines': pdf('/ASCIIHexDecode', inLines(hex(wanted), 63)),
  'zeros between digits': pdf('/AHx', inLines(hex(wanted), 30, '\0')),
  'blanks and lines between digits': pdf('/AHx', inLines(hex(wanted), 14, ' \n')),
  'letters of base 85 behind what PostScript says before them': pdf('/ASCII85Decode', `<~${base85(wanted)}`),
  'zeros between such letters': pdf('/A85', inLines(base85(wanted), 30, '\0')),
  'an end in two lines': pdf('/A85', base85(wanted).replace('~>', '~\n>')),
  'digits of letters': pdf('[/ASCIIHexDecode/ASCII85Decode]', inLines(hex(Buffer.from(base85(wanted))), 63)),
  'letters of digits in lines': pdf('[ /A85 /AHx ]', base85(Buffer.from(inLines(hex(wanted), 63)))),
  'digits of what is deflated': pdf('[/AHx/Fl]', inLines(hex(deflated), 63)),
  'digits below what is deflated': pdf('[/Fl/AHx]', deflateSync(Buffer.from(inLines(hex(wanted), 63)))),
  'digits of a picture': pdf('[/AHx/DCTDecode]', inLines(hex(wanted), 63)),
};

const clean: Record<string, Buffer> = {
  'digits of words': pdf('/AHx', inLines(hex(Buffer.alloc(500, 'words ')), 63)),
  'digits of packed words in one line': pdf('[/AHx/RunLengthDecode]', hex(Buffer.from('\x04words\x80', 'latin1'))),
  'a filter that nobody knows': pdf('[/Other/AHx]', hex(Buffer.alloc(500, 'words '))),
};

const foreign = 'incomplete: engine cannot unpack this kind of PDF data';
const incomplete: Record<string, Buffer> = {
  'a list of filters that stand elsewhere': pdf('[ 3 0 R ]', inLines(hex(deflated), 63)),
};

t.test('letters of a PDF are read as readers do', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, bytes] of Object.entries(infected)) t.equal(verdictOf(bytes), 'infected', what);
  for (const [what, bytes] of Object.entries(clean)) t.equal(verdictOf(bytes), 'clean', what);
  for (const [what, bytes] of Object.entries(incomplete)) t.equal(verdictOf(bytes), foreign, what);
});

t.test('zeros in base 85 are four times their letters, and count', async (t) => {
  await load(t, [ownSignaturesDirectory], { maxScanSizeBytes: 16 << 20 });
  const zeros = pdf('/A85', `<~${'z'.repeat(8 << 20)}~>`);
  t.equal(verdictOf(zeros), 'incomplete: engine limit exceeded: MaxScanSize');
});

t.test('of more streams than files may be, the last ones are not clean', async (t) => {
  await load(t, [ownSignaturesDirectory], { maxFiles: 5 });
  const plain = Array.from({ length: 6 }, () => pdf('/A85', base85(Buffer.from('words and words'))));
  const many = Buffer.concat([...plain, pdf('/A85', `<~${base85(wanted)}`)]);
  t.equal(verdictOf(many), 'incomplete: engine limit exceeded: MaxFiles');
});

t.test('scripts of a PDF are read as readers do', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const octal = `(${[...wanted].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')})`;
  const wide = Buffer.from(`\ufeff${wanted.toString('latin1')}`, 'utf16le').swap16();
  const document = (script: string, more = ''): Buffer =>
    Buffer.from(
      `%PDF-1.7\n1 0 obj\n<</Type/Catalog/OpenAction<</S/JavaScript${script}>>>>\nendobj\n${more}trailer\n<</Root 1 0 R>>\n%%EOF\n`,
    );
  const packed = deflateSync(Buffer.from(`4 0 <</S/JavaScript/JS ${octal}>>`));
  const found: Record<string, Buffer> = {
    'letters by their numbers': document(`/JS ${octal}`),
    'wide letters in digits': document(`/JS <${inLines(hex(wide), 63)}`),
    'a name in digits': document(`/#4aS% a note\n${octal}`),
    'in an object of its own': document('/JS 3 0 R', `3 0 obj\n${octal}\nendobj\n`),
    'behind a text without an end': document('/JS (a', `2 0 obj<</JS ${octal}>>endobj\n`),
    'in a list of objects': pdf('/FlateDecode/Type/ObjStm/N 1/First 4', packed),
  };
  for (const [what, bytes] of Object.entries(found)) t.equal(verdictOf(bytes), 'infected', what);
  t.equal(verdictOf(document('/JS (words\\051)', '3 0 obj <776f726473> endobj\n')), 'clean', 'words');
  t.equal(verdictOf(document('/JS ('.repeat(100_000))), foreign, 'texts in each other');
});
