// Objects in documents: packages of files, and the digits that RTF has of them, are looked at however they are written.
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { zip } from '../fixtures/archives.js';
import { eicar } from '../fixtures/samples.js';
import { load } from '../native/engine.js';
import { verdictOf } from './compare.js';

const wanted = eicar();
const words = Buffer.alloc(300, 'words ');

const little = (...all: readonly number[]): Buffer => Buffer.from(new Uint32Array(all).buffer);
const text = (latin1: string): Buffer => Buffer.from(latin1, 'latin1');

/** A file as Windows puts it into a document. */
function packageOf(content: Buffer, path = 'C:\\a.com\0'): Buffer {
  const names = text(`\x02\0a.com\0${path}\0\0\x03\0`);
  return Buffer.concat([names, little(path.length), text(path), little(content.length), content]);
}

/** In a compound file it is behind its length, which may be wrong. */
const native = (content: Buffer, more = 0): Buffer => {
  const bytes = packageOf(content);
  return Buffer.concat([little(bytes.length + more), bytes]);
};

interface Written {
  word?: string;
  topic?: string;
  version?: number;
  more?: number;
  end?: string;
  spell?: (digits: string) => string;
}

/** A document with one object. */
function rtf(content: Buffer, written: Written = {}): Buffer {
  const {
    word = '\\objdata ',
    topic = '',
    version = 0x501,
    more = 0,
    end = '}}}',
    spell = (digits) => digits,
  } = written;
  const head = [little(version, 2, 8), text('Package\0'), little(topic.length), text(topic), little(0)];
  const bytes = Buffer.concat([...head, little(content.length + more), content]);
  return text(`{\\rtf1\\ansi words {\\object\\objemb{\\*${word}${spell(bytes.toString('hex'))}${end}`);
}

/** A file in a notebook of OneNote, which may say another length. */
function note(content: Buffer, length = content.length): Buffer {
  const head = Buffer.from('e716e3bd65261145a4c48d4d0b7a9eac', 'hex');
  const foot = Buffer.from('22a7fb71790f0b4abb13899256426b24', 'hex');
  return Buffer.concat([head, little(length, 0, 0, 0, 0), content, Buffer.alloc(-content.length & 7), foot]);
}

function notebook(notes: readonly Buffer[], begin = 'e4525c7b8cd8a74daeb15378d02996d3'): Buffer {
  return Buffer.concat([Buffer.from(begin, 'hex'), Buffer.alloc(1008), ...notes]);
}

const object = packageOf(wanted);
const archive = zip([{ name: 'a.com', content: wanted }]);
/** What the body of a mail of Outlook may take bytes from before its own. */
const before = text(
  '{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor MS Sans SerifSymbolArial' +
    'Times New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx',
);

/** RTF as such a body has it ([MS-OXRTFCP]). */
function bodyOf(document: Buffer): Buffer {
  const all = Buffer.concat([before, document]);
  const placed = (at: number, count: number): number[] => [(at & 0xfff) >> 4, ((at & 15) << 4) | (count - 2)];
  const tokens: number[][] = [];
  for (let at = before.length; at < all.length; ) {
    const last = all.subarray(Math.max(0, at - 4000), at);
    let count = 17;
    while (count > 1 && (at + count > all.length || !last.includes(all.subarray(at, at + count)))) count -= 1;
    const piece = all.subarray(at, at + count);
    tokens.push(count > 1 ? placed(at - last.length + last.indexOf(piece), count) : [...piece]);
    at += count;
  }
  tokens.push(placed(all.length, 2));
  const packed: number[] = [];
  for (let at = 0; at < tokens.length; at += 8) {
    const group = tokens.slice(at, at + 8);
    packed.push(
      group.reduce((bits, token, index) => bits | ((token.length - 1) << index), 0),
      ...group.flat(),
    );
  }
  return Buffer.concat([little(packed.length + 12, document.length, 0x75465a4c, 0), Buffer.from(packed)]);
}

/** `winmail.dat` of nothing but the body. */
function winmail(body: Buffer): Buffer {
  const properties = Buffer.concat([little(1, 0x10090102, 1, body.length), body]);
  return Buffer.concat([
    little(0x223e9f78),
    text('\0\0\x01'),
    little(0x00069003, properties.length),
    properties,
    text('\0\0'),
  ]);
}

const infected: Record<string, Buffer> = {
  'a package': native(wanted),
  ...Object.fromEntries(
    [4, -4, 1000, 1 << 30].map((more) => [`a package whose length is wrong by ${more}`, native(wanted, more)]),
  ),
  'a package in a zip': zip([{ name: 'word/embeddings/oleObject1.bin', content: native(wanted, 4) }]),
  'an object': rtf(object),
  'an object whose word ends with a line': rtf(object, { word: '\\objdata\r\n' }),
  'an object whose word has a number': rtf(object, { word: '\\objdata-1 ' }),
  'an object whose word ends with a group': rtf(object, { word: '\\objdata{\\*\\a}' }),
  'an object with a topic': rtf(object, { topic: 'topic\0' }),
  'an object of another version': rtf(object, { version: 1 }),
  'an object that says more than there is': rtf(object, { more: 4000 }),
  'an object without an end': rtf(object, { end: '' }),
  'digits in lines': rtf(object, { spell: (digits) => digits.replace(/.{63}/g, '$&\r\n') }),
  'digits among words': rtf(object, { word: '\\objdata\n', spell: (digits) => digits.replace(/.{9}/g, '$&\\a12 ') }),
  'digits among groups': rtf(object, {
    word: '\\objdata\n',
    spell: (digits) => digits.replace(/.{9}/g, '$&{\\*\\a12 {34}}'),
  }),
  'digits in a group': rtf(object, { spell: (digits) => `{${digits.slice(0, 70)}}${digits.slice(70)}` }),
  'the body of a mail of Outlook': bodyOf(rtf(object, { end: `}} ${'many words '.repeat(900)}}` })),
  'the end of such a body': bodyOf(Buffer.concat([text(`{\\rtf1 ${'many words '.repeat(900)}`), rtf(object)])),
  'the body of what Outlook sends': winmail(bodyOf(rtf(object))),
  'such a body, not packed': winmail(Buffer.concat([little(0, 0, 0x414c454d, 0), rtf(object)])),
  'a zip in an object': rtf(archive, { word: '\\objdata\n' }),
  'the second object': Buffer.concat([
    rtf(packageOf(words), { end: '}}' }),
    text('{\\object{\\*\\objdata\n'),
    rtf(object).subarray(rtf(object).indexOf('01050000')),
  ]),
  'a zip among the digits of a picture': text(
    `{\\rtf1{\\pict\\wmetafile8\n${archive.toString('hex').replace(/.{64}/g, '$&\r\n')}}}`,
  ),
  'a zip in the words of a drawing': text(`{\\rtf1{\\sp{\\sn a}{\\sv 1;${archive.toString('hex')}}}}`),
  'a file in a notebook': notebook([note(words), note(wanted)]),
  'a file in a notebook behind one that says too much': notebook([note(words, 1 << 30), note(wanted)]),
  'the last file of a notebook, which says too much': notebook([note(wanted, wanted.length + 100).subarray(0, -20)]),
  'a file in the list of a notebook': notebook([note(wanted)], 'a12fff43d9ef764c9ee210ea5722765f'),
};

const clean: Record<string, Buffer> = {
  'a package of words': native(words, 4),
  'a package without a file': native(words).subarray(0, 20),
  'a package whose path is longer than all of it': packageOf(words).fill(0xff, 21, 25),
  'an object of words': rtf(packageOf(words), { word: '\\objdata\n' }),
  'an object that ends with a backslash': rtf(packageOf(words), { end: '\\', more: 9 }),
  'an object without data': text('{\\rtf1{\\object{\\*\\objdata\n}}}'),
  'an object that ends within its head': text('{\\rtf1{\\object{\\*\\objdata\n01050000020000000800}}}'),
  'a name that is longer than all of it': text('{\\rtf1{\\object{\\*\\objdata\n0105000002000000ffffffff41}}}'),
  'a picture in digits': text(`{\\rtf1{\\pict\\pngblip\n89504e470d0a1a0a${wanted.toString('hex')}}}`),
  'a notebook of words': notebook([note(words), note(words, 1 << 30), note(words).subarray(0, 36)]),
  'many objects': text(`{\\rtf1${'{\\object{\\*\\objdata\n01050000}}'.repeat(5000)}}`),
};

t.test('objects in documents are looked at', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, bytes] of Object.entries(infected)) t.equal(verdictOf(bytes), 'infected', what);
  for (const [what, bytes] of Object.entries(clean)) t.equal(verdictOf(bytes), 'clean', what);
});
