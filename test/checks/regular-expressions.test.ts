// Regular expressions that see bytes from outside take steps in proportion to what they are given, whatever it is. Counted, not timed.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync, Visitor } from 'rolldown/utils';
import t from 'tap';

// Everywhere the same: its other back ends are binaries that not every machine has.
process.env['RECHECK_BACKEND'] = 'pure';
const { checkSync } = await import('recheck');

const sources = fileURLToPath(new URL('../../../src/', import.meta.url));
const LONGEST = 16 * 1024;
/** Steps for each character: an expression of linear time tries a few ways at each. */
const STEPS_PER_CHARACTER = 64;
const TIMEOUT_MS = 120_000;

/** What sees nothing from outside, and why. A file and its expression. */
const exceptions: readonly (readonly [file: string, expression: string, reason: string])[] = [
  ['config/config.ts', '/\\/+$/', "the operator's variables"],
  ['engine/clamav/addon.ts', '/\\s(\\/.*)$/', "lines of the process's own /proc/self/maps"],
  [
    'config/values.ts',
    '/^rediss?(:|\\+cluster:)\\/\\/[^,]+(,\\s*rediss?(:|\\+cluster:)\\/\\/[^,]+)*$|^rediss?\\+sentinel:\\/\\/[^/?]+\\/[^/?]+(\\/\\d+)?(\\?[^?]+)?$/',
    "the operator's variables, and alone a fifth of this file's time",
  ],
  [
    'engine/clamav/gates/plan.ts',
    '/\\([^)]*\\)|../g',
    'patterns out of signature files, apart from the serving thread',
  ],
  ['engine/clamav/gates/prepare.ts', '/[.]?[{].*$/', 'names out of signature files, apart from the serving thread'],
  ['engine/clamav/gates/prepare.ts', '/\\r+$/', 'lines of signature files, apart from the serving thread'],
  [
    'engine/yara/rule-validation.ts',
    '/\\/\\*[\\s\\S]*?\\*\\/|\\/\\/[^\\n]*|"(?:\\\\.|[^"\\\\\\n])*"|\\/(?:\\\\.|[^/\\\\\\n])+\\/|\\brule\\s+([A-Za-z_]\\w*)|\\b(global)\\b/g',
    "the operator's rules, in a process of their own that is ended when it takes long",
  ],
  ['engine/yara/yara-x.ts', '/\\n\\s*\\|\\s*[\\^-]+ ([^\\n]+)/', "YARA-X's messages about the operator's rules"],
  [
    'store/embedded/server.ts',
    '/(FATAL|PANIC|HINT|DETAIL|[a-z]+: (error|fatal|hint)): /i',
    'lines of the embedded database as it starts',
  ],
  ['store/redis/refusals.ts', '/\\S*\\d+\\.\\d+\\.\\d+\\.\\d+\\S*/g', 'messages of connection errors'],
];

function expressionsOf(file: string): string[] {
  const source = readFileSync(join(sources, file), 'utf8');
  const found: string[] = [];
  const take =
    (what: RegExp) =>
    ({ start, end }: { readonly start: number; readonly end: number }): void => {
      const text = source.slice(start, end);
      if (what.test(text)) found.push(text);
    };
  // One that is made can't be read here: a literal can always be written instead.
  const made = take(/^(new )?RegExp\b/);
  new Visitor({ Literal: take(/^\//), NewExpression: made, CallExpression: made }).visit(
    parseSync(file, source).program,
  );
  return found;
}

const CHARACTER = String.raw`(?:\[(?:[^\]\\]|\\.)+\]|\\[^bBk1-9]|[^\\^$.*+?()[\]{}|])`;
const FIXED = String.raw`(?:${CHARACTER}(?:\{\d+\})?)*`;
/** From the beginning on one character after the other, of which at most one may repeat as often as it likes: whichever way, each is tried once. */
const STRAIGHT = new RegExp(String.raw`^\/\^${FIXED}(?:${CHARACTER}(?:[*+?]|\{\d+,\d*\}))?${FIXED}\$?\/[isu]*$`);

/** Undefined: its steps grow as the input does. */
function complaintAbout(expression: string): string | undefined {
  const end = expression.lastIndexOf('/');
  if (!expression.startsWith('/')) return 'it is made at run time';
  const result = checkSync(expression.slice(1, end), expression.slice(end + 1), {
    // Where repetitions are bounded, it tries them out by default, at length.
    checker: STRAIGHT.test(expression) ? 'automaton' : 'auto',
    maxAttackStringSize: LONGEST,
    maxRecallStringSize: LONGEST,
    attackLimit: STEPS_PER_CHARACTER * LONGEST,
    randomSeed: 1,
    timeout: TIMEOUT_MS,
    // By default what takes more than a second is an attack: on a busy machine that is anything.
    seedingTimeout: null,
    incubationTimeout: null,
    attackTimeout: null,
  });
  if (result.status === 'safe') return undefined;
  return result.status === 'vulnerable' ? `${result.complexity.summary} for ${result.attack.pattern}` : result.status;
}

/** Parts of the build: they see our own guides and styles, and nothing of them is served. */
const isOfTheBuild = (path: string): boolean => path.endsWith('-plugin.ts');
const files = readdirSync(sources, { recursive: true, encoding: 'utf8' }).filter(
  (path) => /\.tsx?$/.test(path) && !isOfTheBuild(path),
);
const all = files.flatMap((file) => expressionsOf(file).map((expression) => ({ file, expression })));
const isException = (file: string, expression: string): boolean =>
  exceptions.some(([inFile, ofText]) => inFile === file && ofText === expression);

t.test('the checker knows what is quadratic', async (t) => {
  t.match(complaintAbout('/X:[ \\t]*([^\\r\\n]*)(?:\\r\\n(?!$)|$)/y'), /polynomial/);
  t.match(complaintAbout('/[ \\t]+$/'), /polynomial/);
  t.match(complaintAbout('/^(a|a)*$/'), /exponential/);
  t.match(complaintAbout('/^(a{0,200}){0,200}b$/'), /exponential/);
  t.equal(complaintAbout('/^[ \\t]+/'), undefined);
  t.equal(complaintAbout('/^[a-z]{1,255}$/'), undefined);
});

t.test('every expression that sees something from outside is linear', { timeout: 600_000 }, async (t) => {
  t.ok(all.length > 100, 'there are many');
  const seen = all.filter(({ file, expression }) => !isException(file, expression));
  for (const expression of new Set(seen.map((one) => one.expression))) {
    const places = seen.filter((one) => one.expression === expression).map(({ file }) => file);
    t.equal(complaintAbout(expression), undefined, `${places} ${expression}`);
  }
});

t.test('what is said to be an exception is there', async (t) => {
  for (const [file, expression, reason] of exceptions) {
    t.ok(
      all.some((one) => one.file === file && one.expression === expression),
      `${file} ${expression}: ${reason}`,
    );
  }
});
