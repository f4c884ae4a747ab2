// Random signatures and contents: an engine that has its matcher look only at stretches says of each content what libclamav as it comes says.
// `node dist/test/native/stretches.test.js ROUNDS SEED` runs longer.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { defaultEngineLimits, EngineLoadError, scanBuffer } from '../../src/engine/clamav/addon.js';
import { prepareGates } from '../../src/engine/clamav/gates/prepare.js';
import { readAnswer, usualPolicy } from '../../src/engine/verdict.js';
import { zip } from '../fixtures/archives.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { generator, type Random } from '../fixtures/random.js';
import { bytesFor, portableExecutable } from '../fixtures/satisfying.js';
import { databaseFolder, loadEngine } from './engine.js';

const [rounds = '3', seed = '1'] = process.argv.slice(2);
const SIGNATURES = 48;
const CONTENTS = 240;
/** libclamav looks at so many bytes at a time, and at some of them twice. */
const PIECE = 131_072;
/** A kind of file, and how long its head is: the only section, where it begins to run, lies behind. */
const PROGRAM = 1;
const HEAD = 512;

interface Signature {
  readonly line: string;
  readonly isLogical: boolean;
  /** Of its body patterns. */
  readonly patterns: readonly { readonly hex: string; readonly modifiers: string; readonly offset: string }[];
}

class Maker {
  readonly random: Random;

  constructor(random: Random) {
    this.random = random;
  }

  below(end: number): number {
    return Math.floor(this.random() * end);
  }

  pick<T>(values: readonly T[]): T {
    const value = values[this.below(values.length)];
    if (value === undefined) throw new Error('there is nothing to choose from');
    return value;
  }

  byte(): string {
    const often = ['00', '00', '20', '41', '61', '62', '4d', '5a', 'ff', '0a'];
    const any = this.below(256).toString(16).padStart(2, '0');
    return this.random() < 0.6 ? this.pick(often) : any;
  }

  bytes(count: number): string {
    return Array.from({ length: count }, () => this.byte()).join('');
  }

  /** Nothing negated, no choice of several bytes, and no words by a modifier: of some such patterns libclamav itself dies. */
  #wild(): string {
    const n = this.below(6) + 1;
    return this.pick([
      () => '??',
      () => `${this.pick(['4', '0', 'f'])}?`,
      () => `?${this.pick(['1', '0', 'f'])}`,
      () => '(61|41)',
      () => `(${this.bytes(1)}|${this.bytes(1)})`,
      () => `{${n}}`,
    ])();
  }

  #part(): string {
    const kind = this.random();
    // One byte again and again, and more bytes than are compared at once.
    if (kind < 0.06) return this.byte().repeat(2 + this.below(70)) + this.bytes(this.below(3));
    if (kind < 0.1) return this.bytes(60 + this.below(80));
    // A single byte somewhere before or behind.
    const range = `[${this.below(4)}-${4 + this.below(28)}]`;
    if (kind < 0.14) return `${this.bytes(1)}${range}${this.bytes(3 + this.below(5))}`;
    if (kind < 0.18) return `${this.bytes(3 + this.below(5))}${range}${this.bytes(1)}`;
    let text = this.bytes(2 + this.below(5));
    for (let one = this.below(3); one > 0; one -= 1) text += this.#wild() + this.bytes(1 + this.below(5));
    return this.random() < 0.1 ? `(${this.pick(['W', 'B', 'L'])})${text}` : text;
  }

  hex(): string {
    let text = this.#part();
    for (let one = this.pick([0, 0, 0, 1, 1, 2]); one > 0; one -= 1) {
      const n = this.below(90);
      text += this.pick(['*', `{${n}-}`, `{-${n + 1}}`, `{${n}-${n + this.below(200)}}`, `{${128 + n}}`, '{0}']);
      text += this.#part();
    }
    return text;
  }

  offset(target: number): string {
    const n = this.below(60);
    if (target === PROGRAM && this.random() < 0.4)
      return this.pick([`EP+${n}`, `EP+${n},${this.below(40)}`, `S0+${n}`, `SL+${n}`, 'SE0', `EP-${n}`]);
    const at = this.pick([0, 0, this.below(40), this.below(2_000), PIECE - this.below(40)]);
    const relative = [`EOF-${8 + this.below(100)}`, `EOF-${60 + this.below(100)},${this.below(50)}`];
    return this.random() < 0.65 ? '*' : this.pick([String(at), `${at},${this.below(300)}`, ...relative]);
  }

  signature(number: number): Signature {
    const target = this.pick([0, 0, 0, 7, 3, PROGRAM]);
    if (this.random() < 0.5) {
      const [hex, offset] = [this.hex(), this.offset(target)];
      const line = `Test.Body${number}:${target}:${offset}:${hex}`;
      return { line, isLogical: false, patterns: [{ hex, modifiers: '', offset }] };
    }
    const patterns = Array.from({ length: 1 + this.below(3) }, () => {
      const modifiers = this.pick(['', '', 'i', 'w', 'wa']);
      return { hex: this.hex(), modifiers, offset: this.offset(target) };
    });
    const bodies = patterns.map(({ hex, modifiers, offset }) => {
      const body = offset === '*' ? hex : `${offset}:${hex}`;
      return modifiers === '' ? body : `${body}::${modifiers}`;
    });
    const expression = bodies
      .map((_, index) => (this.random() < 0.2 ? `(${index}${this.pick(['>1', '=1', '=2'])})` : index))
      .join(this.pick(['&', '|']));
    const line = `Test.Logical${number};Engine:81-255,Target:${target};${expression};${bodies.join(';')}`;
    return { line, isLogical: true, patterns };
  }

  /** Bytes that the pattern matches, mostly: one may be another one, or the end may be missing. */
  #match({ hex, modifiers }: Signature['patterns'][number]): Buffer {
    const bytes = bytesFor(hex.replaceAll(/\([WBL]\)/g, ''), modifiers) ?? Buffer.from(this.bytes(8), 'hex');
    const what = this.random();
    if (what < 0.1 && bytes.length > 0) bytes[this.below(bytes.length)] = this.below(256);
    return what > 0.95 ? bytes.subarray(0, this.below(bytes.length)) : bytes;
  }

  #place(offset: string, size: number, length = 0): number {
    const [, base = '', number = '0', range = '0'] = /^(EOF-|EP\+|S[0L]\+)?(\d+)(?:,(\d+))?/.exec(offset) ?? [];
    // The last place of a range is one of its own.
    const shift = this.pick([0, Number(range), Number(range), this.below(Number(range) + 1)]);
    if (base.endsWith('+') && this.random() < 0.9) return HEAD + Number(number) + shift;
    if (offset !== '*' && this.random() < 0.8) return shift + (base === '' ? Number(number) : size - Number(number));
    // The last bytes of it.
    if (this.random() < 0.15) return size - length;
    if (size > PIECE && this.random() < 0.7) return PIECE * (1 + this.below(2)) - this.below(300) + 60;
    return this.below(size);
  }

  content(signatures: readonly Signature[]): Buffer {
    const few = this.below(9) - 4;
    const sizes = [1 + this.below(124), 32 * (1 + this.below(4)) + few, 500, 4_000, 4_096 + 40 + few];
    const size = Math.max(1, this.pick([...sizes, PIECE + few, PIECE + this.below(PIECE * 2)]));
    const alphabet = this.pick(['00', '2061', '0020416162ff4d5a', '0a61622041', '']);
    const letters = Buffer.from(alphabet, 'hex');
    const content = Buffer.alloc(size);
    for (let at = 0; at < size; at += 1) content[at] = letters[this.below(letters.length)] ?? this.below(256);
    const types = [
      '<html><a href="x">',
      'MZ',
      'PE\0\0',
      'PK\u0003\u0004',
      '\nFrom: a\nMIME-Version: 1',
      '%PDF-1.4',
      '/RGB\nID\n',
    ];
    if (this.random() < 0.2) portableExecutable(Math.max(1, size - HEAD)).copy(content, 0);
    for (let one = this.below(3); one > 0; one -= 1)
      Buffer.from(this.pick(types), 'latin1').copy(content, this.#place('*', size));
    for (let one = 1 + this.below(3); one > 0; one -= 1) {
      for (const pattern of this.pick(signatures).patterns) {
        for (let again = 1 + this.below(2); again > 0; again -= 1) {
          const match = this.#match(pattern);
          match.copy(content, Math.max(0, this.#place(pattern.offset, size, match.length)));
        }
      }
    }
    return this.random() < 0.15 ? zip([{ name: 'a', content }]) : content;
  }
}

function kindOf(content: Buffer): string {
  return readAnswer(scanBuffer(content), usualPolicy).kind;
}

/** A logical signature beside them, so that there are gates. */
const BESIDE = 'Test.Beside;Engine:81-255,Target:0;0;d1c9b7a5e3f1928374655647';
const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');

interface EdgeCase {
  readonly what: string;
  readonly body: readonly string[];
  readonly logical?: readonly string[];
  readonly contents: readonly Buffer[];
}

function filled(size: number, byte: number, places: readonly (readonly [at: number, bytes: string])[]): Buffer {
  const content = Buffer.alloc(size, byte);
  for (const [at, bytes] of places) hex(bytes).copy(content, at);
  return content;
}

/** Normalised text is matched in pieces that are larger than others, at whose end libclamav doesn't look for the ends of words. */
function largeText(at: number, word: string): Buffer {
  const content = Buffer.from(Array.from({ length: 300_000 }, (_, place) => 97 + ((place * 7 + (place >> 5)) % 26)));
  for (const [from, to] of [
    [0, 300],
    [129_000, 131_300],
    [260_000, 262_600],
  ] as const) {
    for (let place = from; place < to; place += 14) content.write(' EVILWORDSX BADWALLZ ', place, 'latin1');
  }
  content.write(word, at, 'latin1');
  return content;
}

const ANCHOR = 'a1a2a3a4a5a6a7a8';
const EDGE_CASES: readonly EdgeCase[] = [
  {
    what: 'words in pieces that are larger than others',
    body: ['Test.A:7:*:(W)6576696c776f726473(W)', 'Test.B:7:*:2062616477616c6c7b61!(W)'],
    contents: [70_200, 200_200, 280_200].flatMap((at) => [largeText(at, ' EVILWORDS '), largeText(at, ' BADWALL{A ')]),
  },
  {
    what: 'a part that bytes end in, where libclamav takes it for found',
    body: [`Test.A:0:*:${ANCHOR}{-100}aaab`, 'Test.B:0:*:20626364(W)f9fafbfcf1f2f3'],
    contents: [
      Buffer.concat([filled(5_000, 0x91, [[100, ANCHOR]]), hex('2062636420f9fafbfcf1f2')]),
      ...[106, 107, 108, 109].map((behind) =>
        filled(4_000, 0x91, [
          [999 + behind, '2062636420f9fafbfcf1f2'],
          [1_000, ANCHOR],
          [60, ANCHOR],
        ]),
      ),
    ],
  },
  {
    what: 'choices of different lengths, where bytes begin and end',
    body: [
      `Test.A:0:*:(dd|de){30}${ANCHOR}`,
      'Test.B:0:*:e1e2(c3|c5c6c7c8c9)626364',
      'Test.C:0:*:20626364(c3c4|c5c6c7c8c9cacbcc)f9fafbfcf1',
    ],
    contents: [
      Buffer.concat([filled(5_000, 0x2e, [[100, ANCHOR]]), hex('20626364c5c6c7c8c9cacbccf9fa')]),
      ...Array.from({ length: 30 }, (_, before) =>
        filled(4_000, 0x2e, [
          [50, ANCHOR],
          [1_000, ANCHOR],
          [975 - before, 'c5c6c7c8c9626364'],
        ]),
      ),
    ],
  },
  {
    what: 'a part that two pieces have, behind one that only the first has',
    body: ['Test.A:0:*:f1f2f3f4f5f6f7f8{120}{28}4142', 'Test.B:0:*:d1d2d3d4d5d6d7d8??99'],
    logical: ['Test.C;Engine:81-255,Target:0;(0>1);e1e2e3e4e5e6e7e8{-50}4344'],
    contents: [0, 40, 120, 300].map((count) => {
      const edge = PIECE - 158;
      const many = Array.from(
        { length: count },
        (_, index) => [edge - 60 - 12 * (index + 1), 'd1d2d3d4d5d6d7d8'] as const,
      );
      return filled(PIECE + 5_000, 0x2e, [...many, [edge - 20, 'e1e2e3e4e5e6e7e8'], [edge + 10, '4344']]);
    }),
  },
  {
    what: 'words inside of others',
    body: ['Test.A:0:*:(W)62636465(W)', 'Test.B:0:*:(W)71727374(W)'],
    contents: [filled(4_000, 0x78, [[1_000, '62636465']]), filled(4_000, 0x78, [[1_000, '2071727374 2e']])],
  },
  {
    what: 'letters of either case',
    body: ['Test.A:0:*:f1f2f3f4f5f6f7f8'],
    logical: ['Test.B;Engine:81-255,Target:0;0;7168767a6b772074::i'],
    contents: ['7168767a6b772074', '5148565a4b572054', '7148765a6b572074'].map((bytes) =>
      filled(4_000, 0x91, [[1_000, bytes]]),
    ),
  },
  {
    what: 'bytes that differ as letters do, and are none',
    body: ['Test.A:0:*:(10|30)(0f|2f)b1c3(05|25)', 'Test.B:0:*:(51|71)(4f|6f)b1c3(45|65)'],
    contents: ['300fb1c325', '102fb1c305', '300fb1c345', '714fb1c365', '516fb1c345', '516fb1c325'].flatMap((bytes) =>
      [1_000, 1_001].map((at) => filled(4_000, 0x91, [[at, bytes]])),
    ),
  },
  {
    what: 'zeros in the middle of zeros',
    body: ['Test.A:0:1000,40:00000000000000000000*b1c2d3e4f5a6'],
    contents: [1_000, 2_000].map((end) =>
      Buffer.concat([Buffer.alloc(end + 30), filled(500, 0x91, [[100, 'b1c2d3e4f5a6']])]),
    ),
  },
  {
    what: 'what comes behind a gate',
    body: ['Test.A:0:*:f1f2f3f4f5f6f7f8'],
    logical: ['Test.B;Engine:81-255,Target:0;0&1;b7c1a9d3e5f70b1d;a3d5f7091b2d4f61'],
    contents: ['b7c1a9d3e5f70b1d', 'a3d5f7091b2d4f61'].map((bytes) =>
      filled(4_000, 0x91, [
        [500, bytes],
        [2_000, 'f1f2f3f4f5f6f7f8'],
      ]),
    ),
  },
  {
    what: 'signs of several types of files',
    body: [`Test.A:3:*:${Buffer.from('evilhtmlword').toString('hex')}`],
    contents: [
      Buffer.from(
        `${'some words '.repeat(40)}<HTML><BODY>EVILHTMLWORD</BODY>${' and more'.repeat(40)}%PDF-1.4 ${' to the end'.repeat(40)}`,
      ),
    ],
  },
  {
    what: 'a signature whose first bytes end another one',
    body: ['Test.A:0:*:4243449999', 'Test.B:0:*:4344??45', 'Test.C:0:*:414243'],
    contents: [filled(4_000, 0x2e, [[1_000, '4142434499454344aa45']]), filled(4_000, 0x2e, [[1_000, '424344aa45']])],
  },
];

for (const { what, body, logical = [], contents } of EDGE_CASES) {
  t.test(what, async (t) => {
    const folder = databaseFolder(t, {
      'a.ndb': `${body.join('\n')}\n`,
      'a.ldb': `${[...logical, BESIDE].join('\n')}\n`,
    });
    const options = { directories: [folder], temporaryDirectory: temporaryFolder(t), limits: defaultEngineLimits };
    await loadEngine(options);
    const plain = contents.map(kindOf);
    t.ok(plain.includes('infected'));
    const made = (await prepareGates([folder], temporaryFolder(t), { prior: null })).options;
    await loadEngine({ ...options, ...made, singlePass: true });
    t.strictSame(contents.map(kindOf), plain);
  });
}

t.test('random signatures and contents', async (t) => {
  const random = generator(Number(seed));
  for (let round = 0; round < Number(rounds); round += 1) {
    const maker = new Maker(random);
    let signatures = Array.from({ length: SIGNATURES }, (_, number) => maker.signature(number));
    const folder = databaseFolder(t, { 'a.ndb': '' });
    const options = { directories: [folder], temporaryDirectory: temporaryFolder(t), limits: defaultEngineLimits };
    for (;;) {
      const textOf = (isLogical: boolean): string =>
        `${signatures
          .filter((one) => one.isLogical === isLogical)
          .map(({ line }) => line)
          .join('\n')}\n`;
      writeFileSync(join(folder, 'a.ndb'), textOf(false));
      writeFileSync(join(folder, 'a.ldb'), textOf(true));
      try {
        await loadEngine(options);
        break;
      } catch (error) {
        if (!(error instanceof EngineLoadError)) throw error;
        // What libclamav doesn't take, or finds in everything, is left out.
        const [, number = '', kind = ''] = /at line (\d+).*\.(ndb|ldb)/s.exec(error.message) ?? [];
        const [, name] = /found to be (Test\.\w+)/.exec(error.message) ?? [];
        const bad =
          signatures.find(({ line }) => name !== undefined && line.split(/[:;]/, 1)[0] === name) ??
          signatures.filter((one) => one.isLogical === (kind === 'ldb'))[Number(number) - 1];
        if (bad === undefined) throw error;
        signatures = signatures.filter((one) => one !== bad);
      }
    }
    const contents = Array.from({ length: CONTENTS }, () => maker.content(signatures));
    const plain = contents.map(kindOf);
    const made = (await prepareGates([folder], temporaryFolder(t), { prior: null })).options;
    t.ok(made.gates, 'some are behind gates');
    await loadEngine({ ...options, ...made, singlePass: round % 4 !== 3 });
    const different = contents.flatMap((content, index) =>
      kindOf(content) === plain[index] ? [] : [`${index}: ${content.length} bytes, ${plain[index]}`],
    );
    t.strictSame(different, [], `seed ${seed}, round ${round}, ${signatures.length} signatures`);
    t.ok(plain.includes('infected') && plain.includes('clean'), 'some of each');
  }
});
