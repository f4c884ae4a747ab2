// The entry of the process that tries rule files before they serve: each by itself, then together. Compiling takes seconds, and a rule
// may never end on its sample: nothing but the end of a process stops it.
import { readFileSync, statSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { cleanSample, testFile } from './self-test.js';
import { checkRules, compileRules, type RuleProblem, type RuleUnits, yaraVersion } from './yara.js';

/** What the process is given, as its only message. */
export interface RulesTask {
  readonly rulePaths: readonly string[];
  /** Of our own; null: none. What they don't compile to is a bug, and nothing serves. */
  readonly markPath: string | null;
  /** What happened to those that the process didn't survive: they are left out, and told. */
  readonly fatal: ReadonlyMap<string, string>;
  /** The rules must find the EICAR test file. */
  readonly findsTestFile: boolean;
}

/** One rule file, tried. */
export interface RuleFile {
  readonly path: string;
  /** Rules in it. */
  readonly rules: number;
  /** Empty: it is part of what serves. */
  readonly errors: readonly RuleProblem[];
  readonly warnings: readonly RuleProblem[];
}

export interface RulesAnswer {
  readonly engineVersion: string;
  readonly files: readonly RuleFile[];
  readonly units: RuleUnits;
}

/** What the process says: that a file meets its sample, that it is through with that, and at the end the answer, or why there is none. */
export type TrialMessage =
  | { readonly kind: 'sample'; readonly path: string }
  | { readonly kind: 'through' }
  | { readonly kind: 'answer'; readonly answer: RulesAnswer }
  | { readonly kind: 'failed'; readonly message: string };

/** Public collections have a few MB in all; a file of this size is no text that somebody wrote. */
const FILE_LIMIT_BYTES = 32 * 1024 * 1024;
/** Problems of one file that are told: the first ones are the cause of the rest. */
const PROBLEMS_MAX = 20;
/** The beginning of any ZIP archive: content that can't be looked into. */
const CONTAINER_SAMPLE = Buffer.from('504b0304140000000800', 'hex');

interface Source {
  readonly text: string;
  readonly names: readonly string[];
  /** Has a rule that all others of its unit depend on. */
  readonly isGlobal: boolean;
}

function say(message: TrialMessage): void {
  process.send?.(message);
}

function prepare({ rulePaths, markPath, fatal, findsTestFile }: RulesTask): RulesAnswer {
  const engineVersion = yaraVersion();
  const files: RuleFile[] = [];
  const sources: Source[] = [];
  for (const path of rulePaths) {
    const { file, source } = tryFile(path, fatal.get(path) ?? null);
    files.push(file);
    if (source !== null) sources.push(source);
  }
  const marks = markPath === null ? [] : [readFileSync(markPath, 'utf8')];
  const units = { rules: together(sources), marks };
  test(units, findsTestFile);
  return { engineVersion, files, units };
}

/** Never throws: what is wrong with one file doesn't stop the others. */
function tryFile(path: string, fate: string | null): { readonly file: RuleFile; readonly source: Source | null } {
  const refused = (errors: readonly RuleProblem[], rules = 0) => ({
    file: { path, rules, errors: errors.slice(0, PROBLEMS_MAX), warnings: [] },
    source: null,
  });
  const wholeFile = (message: string): RuleProblem => ({ line: null, column: null, message });
  let source: Source;
  try {
    if (statSync(path).size > FILE_LIMIT_BYTES) throw new Error(`larger than ${FILE_LIMIT_BYTES >> 20} MB`);
    source = readSource(new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path)));
  } catch (error) {
    return refused([wholeFile(error instanceof TypeError ? 'not UTF-8 text' : messageOf(error))]);
  }
  const { errors, warnings } = checkRules(source.text);
  if (errors.length > 0) return refused(errors, source.names.length);
  if (fate !== null) return refused([wholeFile(fate)], source.names.length);
  const scanner = compileRules({ rules: [source.text], marks: [] });
  say({ kind: 'sample', path });
  const matched = scanner.scan(cleanSample());
  say({ kind: 'through' });
  if (matched.length > 0) return refused([wholeFile(`${matched[0]} matches harmless text`)], source.names.length);
  return { file: { path, rules: source.names.length, errors, warnings: warnings.slice(0, PROBLEMS_MAX) }, source };
}

/** Comments, strings and regular expressions, which may say anything; then what they may not hide. */
const TOKENS =
  /\/\*[\s\S]*?\*\/|\/\/[^\n]*|"(?:\\.|[^"\\\n])*"|\/(?:\\.|[^/\\\n])+\/|\brule\s+([A-Za-z_]\w*)|\b(global)\b/g;

function readSource(text: string): Source {
  const tokens = [...text.matchAll(TOKENS)];
  return {
    text,
    names: tokens.flatMap(([, name]) => (name === undefined ? [] : [name])),
    isGlobal: tokens.some(([, , global]) => global !== undefined),
  };
}

/** Each unit is one pass over every content, so files share one, unless a name is taken or a rule speaks for all. */
function together(sources: readonly Source[]): string[] {
  const shared: { readonly texts: string[]; readonly names: Set<string> }[] = [];
  const alone: string[] = [];
  for (const { text, names, isGlobal } of sources) {
    if (isGlobal) {
      alone.push(text);
      continue;
    }
    let unit = shared.find((candidate) => !names.some((name) => candidate.names.has(name)));
    if (unit === undefined) {
      unit = { texts: [], names: new Set() };
      shared.push(unit);
    }
    unit.texts.push(text);
    for (const name of names) unit.names.add(name);
  }
  const units = [...shared.map(({ texts }) => texts.join('\n')), ...alone];
  // A name may collide with something else, such as another file's module: then each is by itself, as it was tried.
  const isWhole = units.every((unit) => checkRules(unit).errors.length === 0);
  return isWhole ? units : sources.map(({ text }) => text);
}

function test(units: RuleUnits, findsTestFile: boolean): void {
  const scanner = compileRules(units);
  const found = scanner.scan(cleanSample());
  if (found.length > 0) throw new Error(`The self-test failed: ${found[0]} matches harmless text`);
  if (findsTestFile && scanner.scan(testFile()).length === 0) {
    throw new Error('The self-test failed: the EICAR test file is not found');
  }
  if (units.marks.length > 0 && scanner.scan(CONTAINER_SAMPLE).length === 0) {
    throw new Error('The self-test failed: an archive is taken for plain content');
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

// A thread of its own notices that the parent is gone also while this one is in a rule that never ends.
new Worker(
  `const { ppid } = process; setInterval(() => ppid === process.ppid || process.kill(process.pid, 'SIGKILL'), 500)`,
  {
    eval: true,
  },
);
// The parent ends this process when it has the answer: before that, not all of it may have left.
process.on('message', (task: RulesTask) => {
  try {
    say({ kind: 'answer', answer: prepare(task) });
  } catch (error) {
    say({ kind: 'failed', message: messageOf(error) });
  }
});
