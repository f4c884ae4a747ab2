// Regular expressions say what PCRE2's interpreter says of them, whatever it is.
import { createRequire } from 'node:module';
import * as fc from 'fast-check';
import t from 'tap';
import { defaultEngineLimits, scanBuffer } from '../../src/engine/clamav/addon.js';
import { readAnswer, usualPolicy } from '../../src/engine/verdict.js';
import { faultAddonPath } from '../fixtures/faults.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { databaseFolder, loadEngine } from './engine.js';

interface Addon {
  /** For each text what our function and PCRE2's say, each as a result, a beginning and an end; null: it is no expression. */
  matchRegex(pattern: string, texts: readonly Uint8Array[], options: number, steps: number): number[] | null;
}

const { matchRegex }: Addon = createRequire(import.meta.url)(faultAddonPath);

const NO_MATCH = -1;
const MATCH_LIMIT = -47;
/** Those that signatures may have (PCRE2_CASELESS, DOTALL, MULTILINE, UNGREEDY, EXTENDED). */
const OPTIONS = [0x8, 0x20, 0x400, 0x40000, 0x80];
/** libclamav's usual limit. */
const STEPS = 100_000;

function asked(pattern: string, texts: readonly Uint8Array[], options = 0, steps = STEPS) {
  const numbers = matchRegex(pattern, texts, options, steps);
  if (numbers === null) return null;
  const of = (who: number): number[] => numbers.filter((_, index) => Math.floor(index / 3) % 2 === who);
  return { ours: of(0), theirs: of(1) };
}

const atom = fc.constantFrom(
  ...[
    'a',
    'b',
    '.',
    '\\x00',
    '\\xff',
    '[ab]',
    '[^a]',
    '[a-c\\x80-\\xff]',
    '\\d',
    '\\W',
    '\\b',
    '^',
    '$',
    '\\1',
    '\\s',
    'ab',
    '(a|)',
    '(?P=n)',
    '\\B',
    '\\h',
    '\\V',
    '\\R',
    '\\A',
    '\\Z',
    '\\z',
  ],
);
const repeat = fc.constantFrom('', '', '', '*', '+', '?', '*?', '+?', '{2}', '{1,3}', '{0,5}?', '{2,}', '*+', '{0}');
const OPENINGS = ['(', '(?:', '(?=', '(?!', '(?<=', '(?<!', '(?i:', '(?sU:', '(?-i:', '(?>', '(?P<n>'];

function expressionOf(atom: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const { regex } = fc.letrec<{ regex: string; part: string }>((tie) => ({
    part: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      atom,
      fc.tuple(fc.constantFrom(...OPENINGS), tie('regex')).map(([open, inner]) => `${open}${inner})`),
    ),
    regex: fc
      .array(fc.tuple(tie('part'), repeat, fc.constantFrom('', '', '', '|')), { minLength: 1, maxLength: 5 })
      .map((parts) => parts.map((part) => part.join('')).join('')),
  }));
  return regex;
}

/** Of few bytes each. */
const narrow = fc.constantFrom(
  ...[
    'a',
    'b',
    'ab',
    'A',
    '1',
    '\\d',
    '[ab]',
    '[a-c1]',
    '(?:ab|1)',
    '(a|b)',
    '\\x41',
    '[\\x41-b]',
    '[-a]',
    '[^\\D]',
    '{',
    '\\{',
    ']',
    '}',
  ],
);
/** What may be read wrongly. */
const odd = fc.constantFrom(
  ...[
    '(?:a|)',
    '(?=a)',
    '(?!a)',
    '(?<=a)',
    '\\b',
    '^',
    '$',
    '\\1',
    '\\t',
    ' ',
    '\\x',
    '\\x{41}',
    '\\101',
    '\\01',
    '[\\b]',
    '\\R',
  ],
  ...['[]a]', '[^]a]', '[+--]', '[a\\]b]', '[\\d-]', '[[a]', '[[:alpha:]]', 'a{', 'a{,2}', 'a{ 1,2 }', '\\v'],
  ...['(?i)', '(?-i)', '(?s)', '(?x) a', '(?#a)b', '#a'],
);
/** Often two bytes or more before whatever follows. */
const some = fc.oneof({ weight: 4, arbitrary: narrow }, odd);
const few = fc.tuple(some, fc.oneof({ weight: 4, arbitrary: fc.constant('') }, repeat)).map((part) => part.join(''));
const tail = fc.oneof(fc.constant(''), expressionOf(some));
const beginning = fc.tuple(few, few, few, few, tail).map((parts) => parts.join(''));
const textOf = (bytes: string) =>
  fc
    .array(fc.constantFrom(...Buffer.from(bytes, 'latin1')), { maxLength: 40 })
    .map((chosen) => Uint8Array.from(chosen));
const optionsOf = (all: readonly number[]) =>
  fc.subarray([...all]).map((some) => some.reduce((bits, one) => bits | one, 0));

function compare(expressions: fc.Arbitrary<string>, text: fc.Arbitrary<Uint8Array>, options: fc.Arbitrary<number>) {
  const seen = { match: 0, noMatch: 0, limit: 0 };
  fc.assert(
    fc.property(
      expressions,
      fc.array(text, { minLength: 1, maxLength: 6 }),
      options,
      fc.constantFrom(STEPS, 20),
      (pattern, texts, bits, steps) => {
        const both = asked(pattern, texts, bits, steps);
        for (const [index, result] of (both?.theirs ?? []).entries()) {
          if (index % 3 !== 0) continue;
          if (result > 0) seen.match += 1;
          else if (result === NO_MATCH) seen.noMatch += 1;
          else if (result === MATCH_LIMIT) seen.limit += 1;
        }
        return (
          both === null ||
          both.ours.every((number, index) => number === both.theirs[index] || isEither(number, both.theirs[index]))
        );
      },
    ),
    { numRuns: 20_000 },
  );
  return seen;
}

t.test('whatever the expression and the text', async (t) => {
  const seen = compare(expressionOf(atom), textOf('aabbcAB1 \n\0\xff'), optionsOf(OPTIONS));
  t.ok(Math.min(...Object.values(seen)) > 25, JSON.stringify(seen));
});

t.test('wherever a match may begin', async (t) => {
  const options = fc.oneof({ weight: 4, arbitrary: optionsOf(OPTIONS.slice(0, 4)) }, optionsOf(OPTIONS));
  const seen = compare(
    fc.oneof(
      beginning,
      fc.tuple(beginning, beginning).map((both) => both.join('|')),
    ),
    textOf('aaaaaaabbbbAA11{]}-\t'),
    options,
  );
  t.ok(seen.match > 1000 && seen.noMatch > 1000, JSON.stringify(seen));
});

/** No match in few steps, where the interpreter takes too many to say so. To libclamav both are no match. */
function isEither(ours: number, theirs: number | undefined): boolean {
  return ours === NO_MATCH && theirs === MATCH_LIMIT;
}

t.test('what machine code misses', async (t) => {
  const UNGREEDY = 0x40000;
  const missed: [pattern: string, text: string, options: number][] = [
    ['(?>.+?)a', 'a a', 0],
    ['(?>[ab]+?)a', 'bba', 0],
    ['(?>a+?){2}b', 'aaab', 0],
    ['(?>[^a]+)\\d', 'cB1', UNGREEDY],
    ['(?U)(?>[^a]+)\\d', 'cB1', 0],
    ['(?x)(?>. + ?)a', 'a a', 0],
    ['(?>a+?|\\x00)(?!(aa{0,5}?))', 'aa', 0],
    ['((a|)a*?)a', 'a', 0],
    ['(a|)a*a', 'a', 0],
    ['(1|)b*1', '1', 0],
    ['(?!(a|)*+a)(?!\\1)', '', 0],
  ];
  for (const [pattern, content, options] of missed) {
    const both = asked(pattern, [Buffer.from(content)], options);
    t.same(both?.ours, both?.theirs, pattern);
  }
});

t.test('a limit is where the interpreter has it', async (t) => {
  // It backtracks: each more "a" doubles the steps.
  const pattern = '^(a+)+$';
  const texts = (tail: string) => Array.from({ length: 22 }, (_, index) => Buffer.from('a'.repeat(index + 1) + tail));
  const matching = asked(pattern, texts(''));
  t.same(matching?.ours, matching?.theirs);
  const missing = asked('^(a+)+b|a{5}c', texts('d'));
  t.ok(
    missing?.ours.every((number, index) => number === missing.theirs[index] || isEither(number, missing.theirs[index])),
  );
  t.ok(missing?.theirs.includes(MATCH_LIMIT), 'the interpreter has given up');
  for (const pattern of ['(a|b)+c', '(a|b)+?c', '(a|b)+?\\1{1,5}?c', '(a|b)+?(?i:b|a)*?c']) {
    const few = asked(pattern, [Buffer.from(`${'ab'.repeat(20)}dc`)], 0, 100);
    t.same([few?.ours[0], few?.theirs[0]], [NO_MATCH, MATCH_LIMIT], `machine code takes fewer steps: ${pattern}`);
  }
});

t.test(
  'a large text takes machine code no longer than the interpreter, which sees at once that a character is missing',
  async (t) => {
    const cases = [
      ['[a-z]+\\s=\\sx', 'a'],
      ['a[^b]*c[^d]*e[^f]*g', 'ace'],
      ['a.*?b.*?c\\(', 'ab'],
      ['(?P<n>[a-z]+)\\s*=\\s*(?P=n)\\(', 'a '],
      ['\\x61{1,}[[:alpha:]]+[]x+]+;', 'a'],
      ['(?:a|b\\s*)+;', 'ab  '],
    ] as const;
    for (const [pattern, again] of cases) {
      // Minutes or hours, if nothing were counted.
      const text = Buffer.alloc(4_000_000, again);
      const both = asked(pattern, [text], 0x20);
      t.same([both?.ours[0], both?.theirs[0]], [NO_MATCH, NO_MATCH], pattern);
    }
  },
);

t.test('what takes more stack than a thread has for it', async (t) => {
  const long = Buffer.from(`${'ab'.repeat(200_000)}x`);
  for (const pattern of ['^((a)(b))*x', '(?:(a|b)*?)*?y', '^(?:(a)|(b))*x$']) {
    const both = asked(pattern, [long], 0, 10_000_000);
    t.ok(both !== null);
    const [ours, theirs] = [both?.ours[0], both?.theirs[0]];
    t.ok(ours === theirs || ours === NO_MATCH, `${pattern}: ${ours}, ${theirs}`);
    if (ours !== theirs) t.ok((theirs ?? 0) < 0, 'the interpreter has found nothing');
  }
});

t.test('what the interpreter has no time for is incomplete', async (t) => {
  // At each of many thousand places nearly as many steps as are allowed for one: most of a minute.
  const folder = databaseFolder(t, {
    'a.ldb': `Test.Slow;Engine:81-255,Target:0;0&1;${Buffer.from('aaaaaaaa').toString('hex')};0/a[^)]+Calculate/si\n`,
  });
  const order = { directories: [folder], temporaryDirectory: temporaryFolder(t) };
  await loadEngine({ ...order, limits: { ...defaultEngineLimits, maxScanTimeMs: 400 } });
  const answer = scanBuffer(Buffer.from(`${'a'.repeat(95_000)}e`));
  const late = { kind: 'incomplete', reason: 'engine limit exceeded: MaxScanTime' };
  t.match(readAnswer(answer, usualPolicy), late);
  t.same(answer.alerts, [...new Set(answer.alerts)], 'libclamav says it as well, and it is said once');
  const matching = Buffer.from('aaaaaaaa, calculate');
  t.match(readAnswer(scanBuffer(matching), usualPolicy), { kind: 'infected' });
});
