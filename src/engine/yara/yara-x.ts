// The only loader of YARA-X: it checks what goes in and types what comes out. Rules belong to the thread that compiled them.
import { createRequire } from 'node:module';

/** What the pinned version of the package was built from; it doesn't say so itself. */
const ENGINE_VERSION = '1.7.1';
/**
 * Every match of a rule that fires is copied out, so a short string repeated over 10 MB would take seconds and gigabytes.
 * Conditions that count to more, or ask where the later ones are, don't see them.
 */
const MATCHES_PER_PATTERN = 10_000;
/** Characters of a name that are kept: ClamAV's own stay below a hundred. */
const NAME_MAX_CHARACTERS = 200;
/** Beginnings that are read as something else than a match (verdict.ts): no rule may take them. */
const RESERVED_NAMES = /^(?:Heuristics\.|Sluice\.Mark\.)/;
/** As libclamav marks what is not of the official databases. */
const UNOFFICIAL = '.UNOFFICIAL';
const MARK = 'Sluice.Mark.Unscanned.';

/** What the author of a rule should know: a scan with YARA-X can't be given a time limit of its own. */
const SLOW = new Set(['slow_pattern', 'potentially_slow_loop']);

export interface RuleProblem {
  /** From 1; null where it is about the whole file. */
  readonly line: number | null;
  readonly column: number | null;
  readonly message: string;
}

export interface CheckedRules {
  /** Empty: they compile. */
  readonly errors: readonly RuleProblem[];
  readonly warnings: readonly RuleProblem[];
}

/** Sources, of which each is compiled by itself. A rule can't refer to rules of another source. */
export interface RuleUnits {
  /** A match is an infection. */
  readonly rules: readonly string[];
  /** A match is content that can't be looked into. */
  readonly marks: readonly string[];
}

/** Rules that are compiled, for one thread. */
export interface RuleScanner {
  /** Names of what matches, in the order of the rules; marks as `Sluice.Mark.Unscanned.ZIP`. Throws when it can't look. */
  scan(content: Uint8Array): string[];
}

interface Compiled {
  getWarnings(): readonly { readonly code: string; readonly message: string }[];
  setMaxMatchesPerPattern(matches: number): void;
  scan(content: Buffer): readonly Match[];
}

interface Match {
  readonly ruleIdentifier: string;
  readonly meta: Readonly<Record<string, unknown>>;
}

interface CompilerOptions {
  readonly enableIncludes: boolean;
  readonly bannedModules: readonly {
    readonly name: string;
    readonly errorTitle: string;
    readonly errorMessage: string;
  }[];
}

interface YaraX {
  compile(source: string, options: CompilerOptions): Compiled;
  validate(source: string, options: CompilerOptions): { readonly errors: readonly { readonly message: string }[] };
}

const compilerOptions: CompilerOptions = {
  // A rule file must not read other files of this machine.
  enableIncludes: false,
  bannedModules: [
    { name: 'console', errorTitle: 'module not available', errorMessage: 'it would print from the scan threads' },
  ],
};

let loaded: YaraX | null = null;

/** At the first call and not at import: some machines have no build of it, and some services need no rules. */
function yaraX(): YaraX {
  if (loaded === null) {
    try {
      const exported: YaraX = createRequire(import.meta.url)('@litko/yara-x');
      loaded = exported;
    } catch (error) {
      throw new Error(`YARA-X cannot be loaded on this machine: ${firstLine(messageOf(error))}`, { cause: error });
    }
  }
  return loaded;
}

/** For a thread that can't open files later. Where YARA-X isn't installed nothing happens: its first use throws. */
export function loadYara(): void {
  try {
    yaraX();
  } catch {
    loaded = null;
  }
}

/** `yara-x/1.7.1`. Throws where there is none. */
export function yaraVersion(): string {
  yaraX();
  return ENGINE_VERSION;
}

export function checkRules(source: string): CheckedRules {
  const engine = yaraX();
  try {
    const warnings = engine.compile(source, compilerOptions).getWarnings();
    return { errors: [], warnings: warnings.filter(({ code }) => SLOW.has(code)).map(readProblem) };
  } catch (error) {
    const { errors } = engine.validate(source, compilerOptions);
    return { errors: errors.length > 0 ? errors.map(readProblem) : [readProblem(error)], warnings: [] };
  }
}

/** Throws when a source doesn't compile. */
export function compileRules({ rules, marks }: RuleUnits): RuleScanner {
  const compiledRules = rules.map(compile);
  const compiledMarks = marks.map(compile);
  return {
    scan(content) {
      if (!(content instanceof Uint8Array) || content.length === 0) throw new TypeError('content must be bytes');
      const buffer = Buffer.from(content.buffer, content.byteOffset, content.length);
      const names = compiledRules.flatMap((compiled) => compiled.scan(buffer).map(nameOf));
      return [...names, ...compiledMarks.flatMap((compiled) => compiled.scan(buffer).map(markOf))];
    },
  };
}

function compile(source: string): Compiled {
  const compiled = yaraX().compile(source, compilerOptions);
  compiled.setMaxMatchesPerPattern(MATCHES_PER_PATTERN);
  return compiled;
}

/** What the package says in place of a text with escaped bytes in it. */
const UNREADABLE = 'unknown';

/** The rule's `virus_name`, or its identifier behind `YARA.`, as libclamav names it. */
function nameOf({ ruleIdentifier, meta }: Match): string {
  const given = meta['virus_name'];
  const name = typeof given === 'string' ? given.replace(/\p{Cc}/gu, '').slice(0, NAME_MAX_CHARACTERS) : '';
  const isName = name !== '' && name !== UNREADABLE && !RESERVED_NAMES.test(name);
  return `${isName ? name : `YARA.${ruleIdentifier}`}${UNOFFICIAL}`;
}

function markOf({ ruleIdentifier, meta }: Match): string {
  const what = meta['what'];
  return `${MARK}${typeof what === 'string' ? what : ruleIdentifier}`;
}

/** From the compiler's text: `error[E025]: unknown pattern`, then ` --> line:5:13`, then the line and what is wrong there. */
function readProblem(problem: unknown): RuleProblem {
  const text = messageOf(problem);
  const [, title = firstLine(text)] = /(?:error|warning)\[\w+\]: ([^\n]*)/.exec(text) ?? [];
  const [, line, column] = /--> line:(\d+):(\d+)/.exec(text) ?? [];
  const [, label] = /\n\s*\|\s*[\^-]+ ([^\n]+)/.exec(text) ?? [];
  return {
    line: line === undefined ? null : Number(line),
    column: column === undefined ? null : Number(column),
    message: label === undefined ? title : `${title}: ${label}`,
  };
}

const firstLine = (text: string): string => text.split('\n')[0] ?? text;

function messageOf(error: unknown): string {
  const hasMessage =
    typeof error === 'object' && error !== null && 'message' in error && typeof error.message === 'string';
  return hasMessage ? String(error.message) : String(error);
}
