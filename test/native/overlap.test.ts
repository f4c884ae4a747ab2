// Large content is matched in pieces that overlap by the longest pattern: whichever engines hold the signatures, the pieces are those of one engine with all of them.
import t from 'tap';
import { defaultEngineLimits, scanBuffer } from '../../src/engine/clamav/addon.js';
import { prepareGates } from '../../src/engine/clamav/gates/prepare.js';
import { readAnswer, usualPolicy } from '../../src/engine/verdict.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { databaseFolder, loadEngine } from './engine.js';

type Test = Parameters<typeof temporaryFolder>[0];

const hex = (text: string): string => Buffer.from(text, 'latin1').toString('hex');
const letters = (count: number): string => hex('kqzvwxjy'.repeat(count).slice(0, count));
const logical = (target: number, rest: string): string => `;Engine:81-255,Target:${target};${rest}\n`;

/** As libclamav cuts content. */
const PIECE = 131_072;
/** Those that are tried, of the overlap. libclamav's own patterns for kinds of files have up to 32 bytes. */
const LENGTHS = Array.from({ length: 110 }, (_, index) => 30 + index);

const GAP = `${hex('begins here')}{2-9}${hex('and ends')}`;
const TWICE = [1, 7, 0, 2].map(
  (target) => `Test.Twice${target}${logical(target, `1&(0>1);${GAP};${hex('what hits first')}`)}`,
);

/** The longest pattern, in every form. */
const LONGEST: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'a literal': { 'b.ldb': `L${logical(0, `0;${letters(71)}`)}` },
  'a literal for another kind': { 'b.ldb': `L${logical(2, `0;${letters(71)}`)}` },
  'of the same kind': { 'b.ldb': `L${logical(1, `0;${letters(72)}`)}` },
  'a gap of a fixed length': { 'b.ldb': `L${logical(0, `0;${letters(9)}{57}${letters(7)}{13}${letters(5)}`)}` },
  'a long gap': { 'b.ldb': `L${logical(0, `0;${letters(41)}{128}${letters(9)}`)}` },
  'gaps of all kinds': {
    'b.ldb': `L${logical(0, `0;${letters(9)}{31}${letters(6)}{2-90}${letters(31)}{60}${letters(9)}*${letters(40)}`)}`,
  },
  'a choice': { 'b.ldb': `L${logical(0, `0;${letters(39)}(41|424344|4546)${letters(7)}!(41|42)${letters(2)}`)}` },
  'a choice of choices': {
    'b.ldb': `L${logical(0, `0;${letters(38)}(41(42|434445)46|47)${letters(3)}??4?${letters(2)}`)}`,
  },
  'borders of words': { 'b.ldb': `L${logical(0, `0;(B)${letters(50)}(W)`)}` },
  'a byte before it': { 'b.ldb': `L${logical(0, `0;61[2-5]${letters(51)}`)}` },
  'a byte behind it': { 'b.ldb': `L${logical(0, `0;${letters(52)}[2-5]61`)}` },
  'in wide letters': { 'b.ldb': `L${logical(0, `0;${letters(37)}::w`)}` },
  'in letters of any case': { 'b.ldb': `L${logical(0, `0;${letters(56)}::if`)}` },
  'zeros at first': { 'b.ldb': `L${logical(0, `0;000000????${letters(51)}`)}` },
  'a body signature': { 'b.ndb': `L:0:*:${letters(67)}\n` },
  'a rule': { 'b.yar': `rule l { strings: $a = "${'kqzvwxjy'.repeat(8)}" condition: $a }\n` },
  none: {},
};

function content(
  parts: readonly (readonly [what: string | Buffer, at: number])[],
  beginning = 'MZ',
  filler = 0,
): Buffer {
  const bytes = Buffer.alloc(PIECE + 5_000, filler);
  bytes.write(beginning, 'latin1');
  for (const [what, at] of parts) Buffer.from(what).copy(bytes, at);
  return bytes;
}

const isInfected = (bytes: Uint8Array): boolean => readAnswer(scanBuffer(bytes), usualPolicy).kind === 'infected';

async function loadBoth<Found>(
  t: Test,
  files: Readonly<Record<string, string>>,
  look: () => Found,
): Promise<{ plain: Found; gated: Found }> {
  const folder = databaseFolder(t, files);
  const options = { directories: [folder], temporaryDirectory: temporaryFolder(t), limits: defaultEngineLimits };
  await loadEngine(options);
  const plain = look();
  const made = (await prepareGates([folder], temporaryFolder(t), { prior: null })).options;
  if (made.gates === null) throw new Error('There are no gates');
  await loadEngine({ ...options, ...made, singlePass: true });
  return { plain, gated: look() };
}

/** Lengths of the overlap with which it may be that libclamav counts the pattern twice. */
function countedTwice(beginning: string, filler: number): readonly number[] {
  return LENGTHS.filter((length) =>
    isInfected(
      content(
        [
          ['what hits first', 2_000],
          ['begins here', PIECE - length],
          ['and ends', PIECE - length + 15],
        ],
        beginning,
        filler,
      ),
    ),
  );
}

for (const [form, files] of Object.entries(LONGEST)) {
  t.test(`the longest pattern is ${form}`, async (t) => {
    const { plain, gated } = await loadBoth(t, { 'a.ldb': TWICE[0] ?? '', ...files }, () => countedTwice('MZ', 0));
    t.strictSame(gated, plain, 'as far as the overlap reaches');
  });
}

for (const [index, [kind, beginning, filler]] of (
  [
    ['a program', 'MZ', 0],
    ['text', 'a', 0x61],
    ['of no known kind', '\x01', 0],
  ] as const
).entries()) {
  t.test(`a pattern with a gap at the edge of a piece of what is ${kind}`, async (t) => {
    const longest = `Test.Longest${logical(0, `0;${letters(120)}`)}Test.Text${logical(7, `0;${letters(90)}`)}`;
    const { plain, gated } = await loadBoth(t, { 'a.ldb': `${TWICE[index]}${longest}` }, () =>
      countedTwice(beginning, filler),
    );
    t.ok(plain.length > 0, 'it is counted twice');
    t.ok(plain.length < LENGTHS.length, 'and once where it lies in one piece');
    t.strictSame(gated, plain);
  });
}

/** The compared bytes lie behind the trigger. */
const COMPARES = `Test.Compare${logical(1, `0&1;${hex('where bytes are compared')};0(>>30#ib2#=4660)`)}`;
const BYTES = Buffer.from([0x12, 0x34]);
const PARTS = `${hex('one part')}{2-9}${hex('another part')}`;

for (const [form, files] of Object.entries({
  none: {},
  'of a body signature': { 'b.ndb': `B:1:*:${PARTS}\n` },
  'of a program': { 'b.ldb': `L${logical(1, `0;${PARTS}`)}` },
  'with any gap': { 'b.ndb': `B:1:*:${PARTS.replace('{2-9}', '*')}\n` },
  'with a gap of a fixed length': { 'b.ndb': `B:1:*:${PARTS.replace('{2-9}', '{9}')}\n` },
  'for another kind': { 'b.ndb': `B:2:*:${PARTS}\n` },
})) {
  t.test(`libclamav compares no bytes where no pattern for the kind has parts: ${form}`, async (t) => {
    const bytes = content(
      [
        ['where bytes are compared', 500],
        [BYTES, 530],
      ],
      'MZ',
      0,
    );
    const { plain, gated } = await loadBoth(t, { 'a.ldb': COMPARES, ...files }, () => isInfected(bytes));
    t.equal(plain, /body|program|any gap/.test(form));
    t.equal(gated, plain);
  });
}

t.test('bytes of a later piece are taken for those of the first one', async (t) => {
  const files = { 'a.ldb': COMPARES, 'b.ndb': `B:1:*:${PARTS}\n`, 'c.ldb': `L${logical(0, `0;${letters(71)}`)}` };
  const { plain, gated } = await loadBoth(t, files, () =>
    LENGTHS.filter((length) =>
      isInfected(
        content(
          [
            ['where bytes are compared', 500],
            [BYTES, PIECE - length + 530],
          ],
          'MZ',
          0,
        ),
      ),
    ),
  );
  t.strictSame(plain, [71]);
  t.strictSame(gated, plain);
});

t.test('nothing that Sluice loads beside signatures is longer than what libclamav has itself', async (t) => {
  const { plain, gated } = await loadBoth(t, { 'a.ldb': TWICE[3] ?? '' }, () =>
    countedTwice('\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1', 0),
  );
  // The second part of the pattern lies 15 bytes behind the first.
  t.equal(plain.at(-1), 32 + 15);
  t.strictSame(gated, plain);
});

t.test('parts of two bytes are found behind what begins another pattern', async (t) => {
  const body = `B:0:*:${hex('begin')}{-16}${hex('00')}{-16}${hex('endof')}\nC:0:*:${hex('a00Qab')}\n`;
  const files = { 'a.ldb': TWICE[0] ?? '', 'b.ndb': body };
  const found = await loadBoth(t, files, () => isInfected(Buffer.from('some words and begina00Qendof it')));
  t.strictSame(found, { plain: true, gated: true });
});

t.test('places in normalised text are counted from its end wherever a signature for text does so', async (t) => {
  const text = Buffer.from(`Words   BEFORE\n${'x'.repeat(40)}and BEHIND   it\n`);
  const wanted = logical(0, `0&1;${hex('words before')};EOF-60,60:${hex('and behind it')}`);
  const fromEnd: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    'a body signature': { 'b.ndb': `E:7:EOF-90:${letters(20)}\n` },
    'one behind a gate': { 'b.ldb': `E${logical(7, `0;EOF-90:${letters(20)}`)}` },
    none: {},
  };
  for (const [form, files] of Object.entries(fromEnd)) {
    const { plain, gated } = await loadBoth(t, { 'a.ldb': `W${wanted}`, ...files }, () => isInfected(text));
    t.equal(plain, form !== 'none', form);
    t.equal(gated, plain, form);
  }
});

t.test('a regular expression sees all of normalised text, whichever signatures are elsewhere', async (t) => {
  const text = Buffer.from(`Some words\nand QUIXOTIC220\n${'x'.repeat(90)}\nbut MARMALADE vermilion\n`);
  const wanted = `0&1;${hex('marmalade vermilion')};0/quixotic[0-9]+/`;
  const forms: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    'a logical signature': { 'a.ldb': `R${logical(0, wanted)}`, 'b.ndb': `S:0:*:${hex('some words or')}\n` },
    'one for text': { 'a.ldb': `R${logical(7, wanted)}`, 'b.ndb': `S:7:*:${hex('some words or')}\n` },
    'a rule beside gates in letters of any case': {
      'a.ldb': `S${logical(0, `0;${hex('some words')}??${hex('jyqxkv zwvqkj')}::i`)}`,
      'b.yar': 'rule r { strings: $a = /quixotic[0-9]+/ condition: $a }\n',
    },
  };
  for (const [form, files] of Object.entries(forms)) {
    const found = await loadBoth(t, files, () => isInfected(text));
    t.strictSame(found, { plain: true, gated: true }, form);
  }
});
