// YARA rules on their way from files to scan threads: tried on a thread of their own, handed over as text that all threads share.
import { basename } from 'node:path';
import { Worker } from 'node:worker_threads';
import { ownRulesDirectory, ownSignaturesDirectory, rulesWorkerPath } from '../paths.js';
import { databaseFiles, describeDatabases, fingerprint, isRuleFile } from './databases.js';
import type { RuleFile, RulesAnswer, RulesTask } from './rules-worker.js';
import type { RuleSet } from './task.js';
import type { RuleProblem } from './yara.js';

export type { RuleFile } from './rules-worker.js';

export interface LoadedRules {
  readonly engineVersion: string;
  readonly files: readonly RuleFile[];
  /** Rules that serve. */
  readonly ruleCount: number;
  readonly set: RuleSet;
}

const OWN_MARKS = 'marks.yar';
/** Tens of thousands of rules compile in a minute; a rule that loops on the samples never ends, and can't be stopped. */
const TRY_LIMIT_MS = 300_000;

let lastId = 0;

/** The rules beside ClamAV; null where there is no rule file. Rejects when YARA-X is not there, or fails on itself. */
export async function loadRules(directories: readonly string[]): Promise<LoadedRules | null> {
  const rulePaths = await ruleFiles(directories);
  if (rulePaths.length === 0) return null;
  return await prepare({ rulePaths, markPath: null, findsTestFile: false });
}

/** What a stand-in for ClamAV is made of. */
export interface StandInRules extends LoadedRules {
  readonly signatureVersion: string;
  /** Seconds since the epoch. */
  readonly signaturesBuiltAt: number;
}

/** The rules in place of ClamAV: those of the folders, and our own where our folder is among them. */
export async function loadStandIn(directories: readonly string[]): Promise<StandInRules> {
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

/** Tries rule files and leaves what serves alone. */
export async function tryRules(rulePaths: readonly string[]): Promise<readonly RuleFile[]> {
  if (rulePaths.length === 0) return [];
  return (await ask({ rulePaths, markPath: null, findsTestFile: false })).files;
}

/** What is wrong with rule files, one line each: `/rules/a.yar:5:13: unknown pattern`. */
export function problemsOf(files: readonly RuleFile[]): string[] {
  return files.flatMap(({ path, errors }) =>
    errors.map((problem) => `${describeProblem(path, problem)} (YARA-X leaves this file out)`),
  );
}

/** What is not well about those that serve. */
export function warningsOf(files: readonly RuleFile[]): string[] {
  return files.flatMap(({ path, warnings }) => warnings.map((problem) => describeProblem(path, problem)));
}

function describeProblem(path: string, { line, column, message }: RuleProblem): string {
  return `${path}${line === null ? '' : `:${line}:${column}`}: ${message}`;
}

/** A folder that can't be read has none: whoever loads the rest of it says so. */
async function ruleFiles(directories: readonly string[]): Promise<string[]> {
  const lists = await Promise.all(directories.map((directory) => databaseFiles(directory).catch(() => [])));
  return lists.flat().filter(isRuleFile);
}

async function prepare(task: RulesTask): Promise<LoadedRules> {
  const { engineVersion, files, units } = await ask(task);
  lastId += 1;
  const ruleCount = files.reduce((sum, { rules, errors }) => sum + (errors.length === 0 ? rules : 0), 0);
  const bytes = Buffer.from(JSON.stringify(units));
  const text = new SharedArrayBuffer(bytes.length);
  new Uint8Array(text).set(bytes);
  return { engineVersion, files, ruleCount, set: { id: lastId, text } };
}

function ask(task: RulesTask): Promise<RulesAnswer> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(rulesWorkerPath, { workerData: task, name: basename(rulesWorkerPath) });
    const timer = setTimeout(() => {
      // It goes on until the process ends; it must not keep the process from ending.
      worker.unref();
      reject(new Error(`Trying the YARA rules took more than ${TRY_LIMIT_MS / 1000} s`));
    }, TRY_LIMIT_MS);
    worker.once('exit', () => clearTimeout(timer));
    worker.once('message', (answer: RulesAnswer) => resolve(answer));
    worker.once('error', reject);
    worker.once('exit', (code) => reject(new Error(`The thread that tries rules ended with ${code}`)));
  });
}
