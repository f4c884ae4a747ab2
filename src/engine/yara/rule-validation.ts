// The entry of the process that validates rule files before they serve: each by itself, then together. Compiling takes seconds, and a rule
// may never end on its sample: nothing but the end of a process stops it.
import { readFileSync, statSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { messageOfError } from '../../error-text.js';
import { cleanSample, testFile } from '../databases.js';
import { checkRules, compileRules, type RuleProblem, type RuleUnits, yaraVersion } from './yara-x.js';

/** The only message to the process. */
export interface ValidationTask {
  readonly rulePaths: readonly string[];
  /** The project's own marks of containers; null: none. If they don't compile, that is a bug, and nothing serves. */
  readonly markPath: string | null;
  /** Files that an earlier process didn't survive, and what happened to it. They are left out, and the log names them. */
  readonly fatal: ReadonlyMap<string, string>;
  /** The rules must find the EICAR test file. */
  readonly findsTestFile: boolean;
}

export interface RuleFile {
  readonly path: string;
  readonly rules: number;
  /** Empty: it is part of what serves. */
  readonly errors: readonly RuleProblem[];
  readonly warnings: readonly RuleProblem[];
}

export interface ValidationAnswer {
  readonly engineVersion: string;
  readonly files: readonly RuleFile[];
  readonly units: RuleUnits;
}

/** What the process says: a file begins to scan its sample, it has scanned it, and at the end the answer, or why there is none. */
export type ValidationMessage =
  | { readonly kind: 'sample'; readonly path: string }
  | { readonly kind: 'through' }
  | { readonly kind: 'answer'; readonly answer: ValidationAnswer }
  | { readonly kind: 'failed'; readonly message: string };

/** Public collections have a few MB in all; a file of this size was not written by hand. */
const FILE_LIMIT_BYTES = 32 * 1024 * 1024;
/** Problems of one file that are reported: the first ones are the cause of the rest. */
const PROBLEMS_MAX = 20;
/** The beginning of any ZIP archive: content that can't be looked into. */
const CONTAINER_SAMPLE = Buffer.from('504b0304140000000800', 'hex');

interface Source {
  readonly text: string;
  readonly names: readonly string[];
  /** Has a rule that all others of its unit depend on. */
  readonly isGlobal: boolean;
}

function say(message: ValidationMessage): void {
  process.send?.(message);
}

function prepare({ rulePaths, markPath, fatal, findsTestFile }: ValidationTask): ValidationAnswer {
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
    return refused([wholeFile(error instanceof TypeError ? 'not UTF-8 text' : messageOfError(error))]);
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

/** Comments, strings and regular expressions come first: a word in them is no rule. */
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

/** Each unit is one pass over every content. So files share a unit, unless two rules have one name or a rule is global. */
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
  // A name may collide with something else, such as another file's module. Then each file is a unit, as it was validated.
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

// The parent, whose id is the argument, may be gone before this process looks, or while this thread is in a rule that never ends: another thread notices it.
new Worker(
  `const { workerData: parent } = require('node:worker_threads');
  setInterval(() => process.ppid === parent || process.kill(process.pid, 'SIGKILL'), 500)`,
  { eval: true, workerData: Number(process.argv[2]) },
);
// The parent ends this process when it has the answer. This process doesn't end itself: its answer could be cut.
process.on('message', (task: ValidationTask) => {
  try {
    say({ kind: 'answer', answer: prepare(task) });
  } catch (error) {
    say({ kind: 'failed', message: messageOfError(error) });
  }
});
