// Made-up logical and extended signatures for the bench: as many strings, wildcards and regular expressions as real ones have, of text and of code that clean contents have too, and never all of it.
import { type Cipher, createCipheriv, createHash } from 'node:crypto';

const SEED_BYTES = 16;

/** The same numbers in each run and on each machine. */
class Draw {
  readonly #cipher: Cipher;

  constructor(seed: string) {
    this.#cipher = createCipheriv('aes-128-ctr', createHash('md5').update(seed).digest(), Buffer.alloc(SEED_BYTES));
  }

  bytes(count: number): Buffer {
    return this.#cipher.update(Buffer.alloc(count));
  }

  below(count: number): number {
    return this.bytes(4).readUInt32LE() % count;
  }

  of<T>(choices: readonly [T, ...T[]]): T {
    return choices[this.below(choices.length)] ?? choices[0];
  }
}

/** Words of what programs import, say and name: what honest ones have as well. */
const WORDS = [
  ...['Create', 'Open', 'Write', 'Read', 'Get', 'Set', 'Load', 'Find', 'Internet', 'Virtual', 'Remote', 'Reg'],
  ...['Process', 'Thread', 'File', 'Memory', 'Module', 'Library', 'Address', 'Handle', 'Key', 'Value', 'Url', 'Window'],
  ...['http://', 'https://', 'User-Agent: ', 'Content-Type', 'Software\\Microsoft\\', 'CurrentVersion\\Run', '.dll'],
  ...[
    '.exe',
    'temp',
    'system32',
    'cmd /c ',
    'powershell',
    'eval(',
    'document.write',
    'unescape(',
    'String.fromCharCode',
  ],
  ...[
    'base64_decode',
    'password',
    'login',
    'token',
    'update',
    'config',
    'server',
    'client',
    'socket',
    'connect',
    'send',
  ],
] as [string, ...string[]];

/** Beginnings of functions, calls and tests of x86, as compilers make them; wildcards for addresses. */
const CODE = [
  ...[
    '558bec83ec??',
    '558bec6aff68????????',
    '8b45??8b4d??',
    'e8????????83c4??',
    'ff15????????',
    '85c074??',
    '33c0c9c3',
  ],
  ...['488b05????????', '4883ec??', '0fb6??', 'c745??????????', '8d85????ffff', '6a006a00', '5f5e5bc9c3', '83f8??75??'],
] as [string, ...string[]];

/** Of a hundred so many are for programs of Windows, any content, HTML, OLE2, text and programs of Linux. */
const TARGETS = [
  [1, 84],
  [0, 3],
  [3, 4],
  [2, 3],
  [7, 3],
  [6, 3],
] as const;
/** Of so many one has a regular expression. */
const ONE_EXPRESSION_OF = 40;
/** Of so many one is a count or a choice, and not all of its strings. */
const ONE_CHOICE_OF = 4;

/** One line of an `.ldb`, without its end. */
export function* logicalSignatures(count: number): Generator<string> {
  const draw = new Draw('logical signatures');
  for (let index = 0; index < count; index += 1) yield signatureOf(draw, index);
}

function signatureOf(draw: Draw, index: number): string {
  const strings = Array.from({ length: 1 + draw.below(4) }, () => (draw.below(2) === 0 ? textOf(draw) : codeOf(draw)));
  const [own] = [draw.bytes(10 + draw.below(14)).toString('hex')];
  const isChoice = strings.length > 1 && draw.below(ONE_CHOICE_OF) === 0;
  const usual = strings.map((_, at) => String(at));
  const some = isChoice ? `(${usual.join('|')})` : usual.join('&');
  // What only it has is needed in any case, so that nothing honest is infected.
  const logic = [`${some}&${strings.length}`];
  const parts = [...strings, own];
  if (draw.below(ONE_EXPRESSION_OF) === 0) {
    parts.push(`${strings.length}/${draw.of(WORDS).replaceAll(/[^A-Za-z]/g, '')}[a-z]{2,8}[0-9]+/i`);
    logic.push(String(parts.length - 1));
  }
  return `Bench.Logical-${index};Engine:81-255,Target:${targetOf(draw)};${logic.join('&')};${parts.join(';')}`;
}

/** Of extended ones. */
const EXTENDED_TARGETS = [
  [1, 65],
  [0, 20],
  [2, 10],
  [3, 3],
  [7, 2],
] as const;

/** One line of an `.ndb`, likewise. */
export function* extendedSignatures(count: number): Generator<string> {
  const draw = new Draw('extended signatures');
  for (let index = 0; index < count; index += 1) {
    const usual = draw.below(2) === 0 ? wordsOf(draw) : codeOf(draw);
    const own = draw.bytes(10 + draw.below(14)).toString('hex');
    yield `Bench.Extended-${index}:${targetOf(draw, EXTENDED_TARGETS)}:*:${usual}${own}`;
  }
}

function targetOf(draw: Draw, targets: readonly (readonly [target: number, share: number])[] = TARGETS): number {
  let left = draw.below(100);
  for (const [target, share] of targets) {
    left -= share;
    if (left < 0) return target;
  }
  return 0;
}

/** A name of its own within words: where strings begin alike, all of those are asked at each place that does. */
function textOf(draw: Draw): string {
  const text = wordsOf(draw);
  return `${text}${draw.of(['', '', '', '::i', '::w', '::wa'])}`;
}

function wordsOf(draw: Draw): string {
  const name = Array.from({ length: 3 + draw.below(6) }, () => String.fromCharCode(97 + draw.below(26))).join('');
  const words = Array.from({ length: 1 + draw.below(3) }, () => draw.of(WORDS));
  return Buffer.from([name, ...words].join('')).toString('hex');
}

/** Code behind a constant of its own, with what is between the pieces left open. */
function codeOf(draw: Draw): string {
  const pieces = Array.from({ length: 2 + draw.below(3) }, () => draw.of(CODE));
  const constant = draw.bytes(3 + draw.below(3)).toString('hex');
  return constant + pieces.join(draw.of(['', '', '{-16}', '{4}']));
}
