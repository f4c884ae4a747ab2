// Regular expressions that see bytes from outside take steps in proportion to what they are given, whatever it is. Counted, not timed.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import ts from 'typescript';

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
    'config/variables.ts',
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
  ['store/redis/client.ts', '/\\S*\\d+\\.\\d+\\.\\d+\\.\\d+\\S*/g', 'messages of connection errors'],
];

function expressionsOf(file: string): string[] {
  const source = ts.createSourceFile(
    file,
    readFileSync(join(sources, file), 'utf8'),
    ts.ScriptTarget.Latest,
    true,
    file.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS,
  );
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isRegularExpressionLiteral(node)) found.push(node.text);
    const isMade = (ts.isNewExpression(node) || ts.isCallExpression(node)) && node.expression.getText() === 'RegExp';
    // It can't be read here: a literal can always be written instead.
    if (isMade) found.push(node.getText());
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** Undefined: its steps grow as the input does. */
function complaintAbout(expression: string): string | undefined {
  const end = expression.lastIndexOf('/');
  if (!expression.startsWith('/')) return 'it is made at run time';
  const result = checkSync(expression.slice(1, end), expression.slice(end + 1), {
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
  t.equal(complaintAbout('/^[ \\t]+/'), undefined);
});

t.test('every expression that sees something from outside is linear', { timeout: 600_000 }, async (t) => {
  t.ok(all.length > 100, 'there are many');
  for (const { file, expression } of all) {
    if (isException(file, expression)) continue;
    t.equal(complaintAbout(expression), undefined, `${file} ${expression}`);
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
