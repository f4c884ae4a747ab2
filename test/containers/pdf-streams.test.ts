// Streams of a PDF that libclamav doesn't open: packed by run lengths or LZW, with filters and predictors that are said in ways which readers understand.
import { deflateSync } from 'node:zlib';
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { wholeNumbers } from '../fixtures/random.js';
import { eicar } from '../fixtures/samples.js';
import { bodySignature, databaseFolder, load } from '../native/engine.js';
import { verdictOf } from './compare.js';

const wanted = eicar();
const marked = 'MARK OF THE SIGNATURE';

/** A document of one stream, with other objects behind it. */
function pdf(dictionary: string, data: Buffer, others = '', word = 'stream\n'): Buffer {
  return Buffer.concat([
    Buffer.from(
      `%PDF-1.7\n1 0 obj\n<</Type/Catalog>>\nendobj\n2 0 obj\n<</Length ${data.length}${dictionary}>>\n${word}`,
    ),
    data,
    Buffer.from(`\nendstream\nendobj\n${others}trailer\n<</Root 1 0 R>>\n%%EOF\n`),
  ]);
}

/** Runs of five bytes, and of one byte that comes again. */
function runs(content: Buffer): Buffer {
  const packed: number[] = [];
  for (let at = 0; at < content.length; ) {
    const first = content[at] ?? 0;
    let alike = 1;
    while (alike < 128 && content[at + alike] === first) alike += 1;
    const piece = content.subarray(at, at + (alike > 2 ? alike : 5));
    packed.push(...(alike > 2 ? [257 - alike, first] : [piece.length - 1, ...piece]));
    at += piece.length;
  }
  return Buffer.from([...packed, 128]);
}

function lzw(content: Buffer, early = 1): Buffer {
  let bits = '';
  let width = 9;
  let known = new Map<string, number>();
  const put = (code: number): void => {
    bits += code.toString(2).padStart(width, '0');
  };
  const codeOf = (text: string): number | undefined => (text.length === 1 ? text.charCodeAt(0) : known.get(text));
  put(256);
  let before = '';
  for (const letter of content.toString('latin1')) {
    if (codeOf(before + letter) !== undefined) {
      before += letter;
      continue;
    }
    put(codeOf(before) ?? 0);
    known.set(before + letter, 258 + known.size);
    if (258 + known.size + early > 2 ** width && width < 12) width += 1;
    if (258 + known.size >= 4094) {
      put(256);
      width = 9;
      known = new Map();
    }
    before = letter;
  }
  put(codeOf(before) ?? 0);
  if (258 + known.size + 1 + early > 2 ** width && width < 12) width += 1;
  put(257);
  return Buffer.from((bits.match(/.{1,8}/g) ?? []).map((byte) => Number.parseInt(byte.padEnd(8, '0'), 2)));
}

/** In rows of 17 bytes, each less the one above. */
function predicted(content: Buffer): Buffer {
  const rows: number[] = [];
  for (let at = 0; at < content.length; at += 1) {
    if (at % 17 === 0) rows.push(2);
    rows.push(((content[at] ?? 0) - (at < 17 ? 0 : (content[at - 17] ?? 0))) & 0xff);
  }
  return Buffer.from(rows);
}

const hex = (content: Buffer): Buffer => Buffer.from(`${content.toString('hex')}>`);
const rowsOf17 = '<</Predictor 12/Columns 17>>';
const deflatedRows = deflateSync(predicted(wanted));
const flate = '/Filter/FlateDecode';
const long = 'stream that holds its endstream ';

const infected: Record<string, Buffer> = {
  'run lengths': pdf('/Filter/RunLengthDecode', runs(wanted)),
  'run lengths by their short name': pdf('/Filter[/RL]', runs(wanted)),
  'run lengths without an end': pdf('/Filter/RL', runs(wanted).subarray(0, -1)),
  'run lengths of what is deflated': pdf('/Filter[/RL/Fl]', runs(deflateSync(wanted))),
  'digits of run lengths': pdf('/Filter[/ASCIIHexDecode /RunLengthDecode]', hex(runs(wanted))),
  LZW: pdf('/Filter/LZWDecode', lzw(wanted)),
  'LZW by its short name': pdf('/Filter/LZW', lzw(wanted)),
  'LZW without an end': pdf('/Filter/LZW', lzw(wanted).subarray(0, -1)),
  'digits of LZW': pdf('/Filter[/AHx/LZWDecode]', hex(lzw(wanted))),
  'LZW of run lengths': pdf('/Filter[/LZWDecode/RunLengthDecode]', lzw(runs(wanted))),
  'LZW with a predictor': pdf(`/Filter/LZWDecode/DecodeParms${rowsOf17}`, lzw(predicted(wanted))),
  'a name of a filter in digits': pdf('/Filter/R#75nLengthDecode', runs(wanted)),
  'a name of a key in digits': pdf('/F#69lter/RL', runs(wanted)),
  'a filter behind a note': pdf('/Filter%/FlateDecode\n/RL', runs(wanted)),
  'a filter behind another dictionary': pdf('/A<</Filter/FlateDecode>>/Filter/RL', runs(wanted)),
  'a filter behind what closes nothing': pdf('/A<<]>>/B[>>]/Filter/RL', runs(wanted)),
  'a filter behind words of the format': pdf('/A( obj stream\n)/Filter/RL', runs(wanted)),
  'a filter before words of the format': pdf('/Filter/RL/A( 3 0 obj <<)', runs(wanted)),
  'a filter that stands elsewhere': pdf('/Filter 3 0 R', runs(wanted), '3 0 obj/RunLengthDecode endobj\n'),
  'filters that stand elsewhere': pdf(
    '/Filter[3 0 R 4 0 R]',
    hex(runs(wanted)),
    '3 0 obj/AHx endobj\n4 0 obj 5 0 R endobj\n5 0 obj/RL\nendobj\n',
  ),
  'a dictionary that does not close': Buffer.concat([
    Buffer.from('%PDF-1.7\n2 0 obj\n<</Filter/RL\nstream\n'),
    runs(wanted),
    Buffer.from('\nendstream\nendobj\n'),
  ]),
  'a filter that is none': pdf('/Filter null', wanted),
  'no filters': pdf('/Filter[]', wanted),
  'a filter of what is not encrypted': pdf('/Filter[/Crypt]', wanted),
  'blanks behind the word that begins a stream': pdf('', wanted, '', 'stream \n'),
  'a predictor that stands elsewhere': pdf(
    `${flate}/DecodeParms 3 0 R`,
    deflatedRows,
    `3 0 obj\n${rowsOf17}\nendobj\n`,
  ),
  'the number of a predictor elsewhere': pdf(
    `${flate}/DecodeParms<</Predictor 3 0 R/Columns 17>>`,
    deflatedRows,
    '3 0 obj 12 endobj\n',
  ),
  'a predictor by its name in digits': pdf(`${flate}/DecodeParms<</Pr#65dictor 12/Columns 17>>`, deflatedRows),
  'a predictor behind a note': pdf(`${flate}/DecodeParms<</Predictor %1\n12/Columns 17>>`, deflatedRows),
  'a predictor behind one of something else': pdf(`/A<</Predictor 1>>${flate}/DecodeParms${rowsOf17}`, deflatedRows),
  'a predictor before words of the format': pdf(`${flate}/DecodeParms${rowsOf17}/A( obj )`, deflatedRows),
  'the second of two predictors': pdf(`/Filter[/AHx/Fl]/DecodeParms[null${rowsOf17}]`, hex(deflatedRows)),
};

const clean: Record<string, Buffer> = {
  'run lengths of words': pdf('/Filter/RL', runs(Buffer.from('words and words'.repeat(20)))),
  'LZW of words': pdf('/Filter/LZW', lzw(Buffer.from('words and words'.repeat(20)))),
  'no run lengths': pdf('/Filter/RL', wanted),
  'no codes of LZW': pdf('/Filter/LZW', wanted),
  'a length that stands elsewhere, and changes': pdf(
    '/Length 3 0 R',
    wanted.subarray(1),
    '3 0 obj 9 endobj\n3 0 obj 67 endobj\n',
  ),
};

const incomplete: Record<string, Buffer> = {
  'a filter that is nowhere': pdf('/Filter 9 0 R', runs(wanted)),
  'a filter that stands in a circle': pdf('/Filter 3 0 R', runs(wanted), '3 0 obj 3 0 R endobj\n'),
  'a filter that is said in two ways': pdf('/Filter 3 0 R', runs(wanted), '3 0 obj/RL endobj\n3 0 obj/LZW endobj\n'),
  'two filters': pdf('/Filter/LZW/Filter/Fl', runs(wanted)),
  'codes of LZW that grow as nobody knows': pdf(
    '/Filter/LZW/DecodeParms<</EarlyChange 7>>',
    lzw(Buffer.from('words and words')),
  ),
  'more filters than anybody needs': pdf(`/Filter[${'/RL'.repeat(17)}]`, runs(Buffer.from('words and words'))),
  'run lengths in an encrypted document': pdf(
    '/Filter/RL',
    runs(Buffer.from('words and words')),
    'trailer\n<</Encrypt 9 0 R>>\n',
  ),
};

t.test('streams of a PDF are unpacked as readers do', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, bytes] of Object.entries(infected)) t.equal(verdictOf(bytes), 'infected', what);
  for (const [what, bytes] of Object.entries(clean)) t.equal(verdictOf(bytes), 'clean', what);
  for (const [what, bytes] of Object.entries(incomplete))
    t.equal(verdictOf(bytes), 'incomplete: engine cannot unpack this kind of PDF data', what);
});

t.test('what is long is unpacked to its end', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Marked', marked) })]);
  const draw = wholeNumbers(7);
  const noise = Buffer.from(Array.from({ length: 30_000 }, () => 32 + draw(16)));
  const content = Buffer.concat([noise, Buffer.from(marked), noise]);
  t.equal(verdictOf(pdf('/Filter/LZWDecode', lzw(content))), 'infected', 'LZW');
  const late = '/DecodeParms<</EarlyChange 0>>';
  t.equal(verdictOf(pdf(`/Filter/LZWDecode${late}`, lzw(content, 0))), 'infected', 'LZW with codes that grow late');
  t.equal(verdictOf(pdf('/Filter/LZWDecode', lzw(content, 0))), 'clean', 'LZW that is read in the wrong way');
  t.equal(verdictOf(pdf('/Filter/RunLengthDecode', runs(content))), 'infected', 'run lengths');
  // As one run, so that the word stands there.
  const whole = Buffer.concat([Buffer.from([long.length - 1]), Buffer.from(long), runs(Buffer.from(marked))]);
  t.equal(verdictOf(pdf('/Filter/RL', whole)), 'infected', 'run lengths that hold the word which ends a stream');
});

t.test('streams of a PDF that unpack to more and more end at the limit', async (t) => {
  await load(t, [ownSignaturesDirectory], { maxScanSizeBytes: 1 << 20 });
  const twice = Buffer.alloc(1 << 16, Buffer.from([129, 65]));
  t.equal(verdictOf(pdf('/Filter/RL', twice)), 'incomplete: engine limit exceeded: MaxScanSize', 'run lengths');
  const zeros = lzw(Buffer.alloc(3 << 20));
  t.equal(verdictOf(pdf('/Filter/LZW', zeros)), 'incomplete: engine limit exceeded: MaxScanSize', 'LZW');
  const part = pdf('/Filter/RL', runs(Buffer.alloc(1 << 19)));
  t.equal(
    verdictOf(Buffer.concat([part, part, part])),
    'incomplete: engine limit exceeded: MaxScanSize',
    'three of them',
  );
  const blanks = pdf('/Filter[/RL/AHx]', runs(Buffer.alloc(1 << 19, ' ')));
  t.equal(verdictOf(blanks), 'clean', 'of what the next filter passes over, a part of the limit');
  t.equal(
    verdictOf(Buffer.concat([blanks, blanks, blanks])),
    'incomplete: engine limit exceeded: MaxScanSize',
    'what the next filter passes over, three times',
  );
});

t.test('dictionaries in each other are not read again and again', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const many = Buffer.from(`%PDF-1.7\n${'1 0 obj<</A('.repeat(100_000)}`);
  t.equal(verdictOf(many), 'incomplete: engine cannot unpack this kind of PDF data', 'texts that do not end');
  const named = `%PDF-1.7\n${'1 0 obj 2 0 R\n'.repeat(10_000)}${'2 0 obj<</Filter 1 0 R>>stream\n'.repeat(10_000)}`;
  t.equal(
    verdictOf(Buffer.from(named)),
    'incomplete: engine cannot unpack this kind of PDF data',
    'values said again and again',
  );
  const ahead = `%PDF-1.7\n1 0 obj<</Filter 7 0 R>>stream\nabc\nendstream\nendobj ${'7 0 obj 1('.repeat(200_000)}`;
  t.match(verdictOf(Buffer.from(ahead)), /^incomplete/, 'what stands behind them');
});

t.test('what is read of a document ends within its last object: it is not clean', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const last = pdf('/Filter/RL', runs(wanted)).subarray('%PDF-1.7\n'.length);
  const behind = (blanks: number): Buffer =>
    Buffer.concat([Buffer.from(`%PDF-1.7\n${'1 0 obj<</A[ '.repeat(15)}`), Buffer.alloc(blanks, ' '), last]);
  // The most blanks with which it is still read.
  let [least, most] = [90_000, 100_000];
  while (most - least > 1) {
    const middle = Math.floor((least + most) / 2);
    if (verdictOf(behind(middle)) === 'infected') least = middle;
    else most = middle;
  }
  for (let blanks = most; blanks < most + 15; blanks += 1) {
    t.equal(verdictOf(behind(blanks)), 'incomplete: engine cannot unpack this kind of PDF data', `${blanks} blanks`);
  }
});

t.test('of more such streams than files may be, the last ones are not clean', async (t) => {
  await load(t, [ownSignaturesDirectory], { maxFiles: 5 });
  const plain = Array.from({ length: 6 }, () => pdf('/Filter/RL', runs(Buffer.from('words and words'))));
  const many = Buffer.concat([...plain, pdf('/Filter/RL', runs(wanted))]);
  t.equal(verdictOf(many), 'incomplete: engine limit exceeded: MaxFiles');
});
