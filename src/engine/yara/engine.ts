// YARA rules on their way from files to scan threads: validated in a process of their own, handed over as text that all threads share; and the engine of rules alone,
// which looks at raw content and calls containers incomplete.
import { spawn } from 'node:child_process';
import { performance } from 'node:perf_hooks';
import { startWaiting } from '../../cores.js';
import { ownRulesDirectory, ownSignaturesDirectory, ruleValidationPath } from '../../paths.js';
import { createClock } from '../../waiting/within.js';
import { databaseFiles, describeDatabases, fingerprint, isRuleFile } from '../databases.js';
import { type BuildOrder, type BuiltEngine, defineEngine, type RulesFacts } from '../engine.js';
import type { RuleFile, ValidationAnswer, ValidationMessage, ValidationTask } from './rule-validation.js';
import type { RuleProblem } from './yara-x.js';

export type { RuleFile } from './rule-validation.js';

export type LoadedRules = Awaited<ReturnType<typeof prepare>>;

const OWN_MARKS = 'marks.yar';
/** For all files together: tens of thousands of rules compile in a minute. */
const LIMIT_MS = 300_000;
/** For the one text that each file scans. It takes milliseconds, and more only on a machine that stalls. */
const SAMPLE_LIMIT_MS = 30_000;

let lastId = 0;

/** The rules beside ClamAV; null where there is no rule file. Rejects when YARA-X is not installed, or fails by itself. */
export async function loadRules(directories: readonly string[]): Promise<LoadedRules | null> {
  const rulePaths = await ruleFiles(directories);
  if (rulePaths.length === 0) return null;
  return await prepare({ rulePaths, markPath: null, findsTestFile: false });
}

/** The rules in place of ClamAV: those of the folders, and our own where our folder is among them. */
async function loadRulesAlone(directories: readonly string[]) {
  const hasOwn = directories.includes(ownSignaturesDirectory);
  const folders = hasOwn ? [...directories, ownRulesDirectory] : directories;
  const paths = (await ruleFiles(folders)).filter((path) => path !== `${ownRulesDirectory}/${OWN_MARKS}`);
  if (paths.length === 0) throw new Error(`there is no YARA rule in ${directories.join(', ')}`);
  const before = await fingerprint(folders).catch(() => null);
  const { signatureVersion, signaturesBuiltAt } = await describeDatabases(paths);
  const markPath = `${ownRulesDirectory}/${OWN_MARKS}`;
  const loaded = await prepare({ rulePaths: paths, markPath, findsTestFile: hasOwn });
  if (loaded.ruleCount === 0) throw new Error(`no YARA rule can be used: ${problemsOf(loaded.files)[0]}`);
  if ((await fingerprint(folders).catch(() => null)) !== before)
    throw new Error('the rules changed while they were read');
  return { ...loaded, signatureVersion, signaturesBuiltAt };
}

export function rulesFacts({ engineVersion, ruleCount, files }: LoadedRules): RulesFacts {
  const refusedFiles = files.filter(({ errors }) => errors.length > 0).length;
  return { engine: `yara-x/${engineVersion}`, count: ruleCount, refusedFiles };
}

/** Validates rule files; what serves isn't touched. `sampleLimitMs`: how long the sample may take each of them. */
export async function validateRules(
  rulePaths: readonly string[],
  sampleLimitMs?: number,
): Promise<readonly RuleFile[]> {
  if (rulePaths.length === 0) return [];
  return (await ask({ rulePaths, markPath: null, findsTestFile: false }, sampleLimitMs)).files;
}

/** What is wrong with rule files, one line each: `/rules/a.yar:5:13: unknown pattern`. */
export function problemsOf(files: readonly RuleFile[]): string[] {
  return files.flatMap(({ path, errors }) =>
    errors.map((problem) => `${describeProblem(path, problem)} (YARA-X leaves this file out)`),
  );
}

/** What the authors of the rules that serve should know. */
export function warningsOf(files: readonly RuleFile[]): string[] {
  return files.flatMap(({ path, warnings }) => warnings.map((problem) => describeProblem(path, problem)));
}

function describeProblem(path: string, { line, column, message }: RuleProblem): string {
  return `${path}${line === null ? '' : `:${line}:${column}`}: ${message}`;
}

/** A folder that can't be read has none. Loading the databases fails for the same reason, and says so. */
async function ruleFiles(directories: readonly string[]): Promise<string[]> {
  const lists = await Promise.all(directories.map((directory) => databaseFiles(directory).catch(() => [])));
  return lists.flat().filter(isRuleFile);
}

async function prepare(task: Question) {
  const { engineVersion, files, units } = await ask(task);
  lastId += 1;
  const ruleCount = files.reduce((sum, { rules, errors }) => sum + (errors.length === 0 ? rules : 0), 0);
  const bytes = Buffer.from(JSON.stringify(units));
  const text = new SharedArrayBuffer(bytes.length);
  new Uint8Array(text).set(bytes);
  return { engineVersion, files, ruleCount, set: { id: lastId, text } };
}

type Question = Omit<ValidationTask, 'fatal'>;

/** Rejects when YARA-X is not installed, or fails by itself. A file that ends the process is left out of the next one. */
async function ask(question: Question, sampleLimitMs = SAMPLE_LIMIT_MS): Promise<ValidationAnswer> {
  const fatal = new Map<string, string>();
  for (;;) {
    const result = await runValidation({ ...question, fatal }, sampleLimitMs);
    if (result.kind === 'answer') return result.answer;
    fatal.set(result.path, result.fate);
  }
}

type ValidationResult =
  | { readonly kind: 'answer'; readonly answer: ValidationAnswer }
  /** The process ended, or was ended, while a file was at its sample. */
  | { readonly kind: 'fatal'; readonly path: string; readonly fate: string };

/** One process that validates. Rejects when it fails, and no file is the reason. */
function runValidation(task: ValidationTask, sampleLimitMs: number): Promise<ValidationResult> {
  return new Promise((resolve, reject) => {
    // The kernel ends it where this process can't do it any more. Where the limit can't be set there is a lower one already.
    const program = `ulimit -t ${LIMIT_MS / 1000} 2>/dev/null; exec "$0" "$@"`;
    const child = startWaiting(() =>
      spawn('/bin/sh', ['-c', program, process.execPath, ruleValidationPath, String(process.pid)], {
        stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
        serialization: 'advanced',
      }),
    );
    let atSample: string | null = null;
    const kill = (): void => void child.kill('SIGKILL');
    const end = (): void => {
      whole.stop();
      sample.stop();
      process.off('exit', kill);
      kill();
    };
    const fail = (message: string): void => {
      end();
      reject(new Error(message));
    };
    const dropSample = (fate: string): void => {
      end();
      if (atSample !== null) resolve({ kind: 'fatal', path: atSample, fate });
    };
    const whole = createClock(LIMIT_MS, () => fail(`Validating the YARA rules took more than ${LIMIT_MS / 1000} s`));
    const sample = createClock(sampleLimitMs, () => dropSample('does not end on harmless text'));
    whole.start();
    process.once('exit', kill);
    child.on('error', (error) => fail(`The process that validates rules can't be started: ${error.message}`));
    child.on('exit', (code, signal) => {
      const how = `ended with ${signal ?? code}`;
      if (atSample === null) fail(`The process that validates rules ${how}`);
      else dropSample(`the process that validated it ${how}`);
    });
    child.on('message', (message: ValidationMessage) => {
      sample.stop();
      sample.renew();
      atSample = message.kind === 'sample' ? message.path : null;
      switch (message.kind) {
        case 'sample':
          sample.start();
          break;
        case 'failed':
          fail(message.message);
          break;
        case 'answer':
          end();
          resolve(message);
      }
    });
    // Without a descriptor there is no channel. The error event follows.
    if (child.connected) child.send(task);
  });
}

export async function buildYara({ directories, standsInFor = null }: BuildOrder): Promise<BuiltEngine> {
  const startedMs = performance.now();
  const rules = await loadRulesAlone(directories);
  const how = 'looks at raw content only';
  const warnings =
    standsInFor === null ? [] : [`YARA-X stands in for ${standsInFor.name} and ${how}, because: ${standsInFor.reason}`];
  const engine = defineEngine(
    {
      name: 'yara-x',
      engineVersion: rules.engineVersion,
      signatureCount: rules.ruleCount,
      signatureVersion: rules.signatureVersion,
      signaturesBuiltAt: rules.signaturesBuiltAt,
      dailyBuiltAt: null,
      contents: `${rules.ruleCount} YARA rules`,
      loadMillis: Math.round(performance.now() - startedMs),
      warnings: [...warnings, ...problemsOf(rules.files), ...warningsOf(rules.files)],
      rules: rulesFacts(rules),
      standsInFor,
      identity: null,
      notice: 'raw-content',
      // Rules need no confinement: YARA-X is memory-safe.
      isConfined: false,
      gates: null,
      work: { nativeEpoch: null, rules: rules.set },
    },
    null,
  );
  return { engine, takePlace: () => undefined };
}
