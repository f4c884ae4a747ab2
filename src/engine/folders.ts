// Folders of signatures: which of them count, what lies in one, file by file, read without loading an engine, what they are worth, and what is learned for them from
// clean files.
import { readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import type { SignatureFolders } from '../config/config.js';
import { codeOf, messageOfError } from '../error-text.js';
import { ownSignaturesDirectory } from '../paths.js';
import { defaultEngineLimits, prepareEngine, scanBuffer, windowCounts } from './clamav/addon.js';
import { prepareGatesApart, windowsForGatesApart } from './clamav/gates/prepare.js';
import { commonWindows, keepLearned } from './clamav/gates/prior.js';
import {
  countLines,
  type DatabaseFile,
  databaseFiles,
  describeDatabases,
  isDatabase,
  isRuleFile,
} from './databases.js';
import type { Engine } from './engine.js';
import { makeScratch } from './scratch.js';
import { problemsOf, type RuleFile, validateRules } from './yara/engine.js';

/** The folders that count now, those that are always loaded and those with a database in them, in the order in which they are loaded. */
export function presentFolders({ directories, optionalDirectories }: SignatureFolders): string[] {
  return [...optionalDirectories.filter(hasDatabase), ...directories];
}

function hasDatabase(directory: string): boolean {
  try {
    return readdirSync(directory).some(isDatabase);
  } catch {
    return false;
  }
}

/** Of the folders that count only with a database in them, why it isn't known whether there is one: a sentence for each. */
export function unreadableFolders({ optionalDirectories }: Pick<SignatureFolders, 'optionalDirectories'>): string[] {
  return optionalDirectories.flatMap((directory) => {
    try {
      readdirSync(directory);
      return [];
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return [];
      return [`The signatures in ${directory} are left out: ${messageOfError(error)}`];
    }
  });
}

/** Of the folders as they are now, with that of gates; null: no gates have been made of them yet. */
export { type GateFacts, preparedFacts as gateStatus } from './clamav/gates/prepare.js';

export type FileStatus = Awaited<ReturnType<typeof fileStatus>>;

/** Rejects when the folder or a file in it can't be read. */
export async function folderStatus(folder: string): Promise<readonly FileStatus[]> {
  const { files } = await describeDatabases(await databaseFiles(folder));
  // Without YARA-X nothing is known of rule files but their size.
  const tried = await validateRules(files.map(({ path }) => path).filter(isRuleFile)).catch(() => []);
  const rules = new Map(tried.map((file) => [file.path, file]));
  return await Promise.all(files.map((file) => fileStatus(file, rules.get(file.path))));
}

/** What YARA-X finds wrong in a file of rules, one line each; none where there is no YARA-X. */
export async function ruleProblems(path: string): Promise<string[]> {
  return problemsOf(await validateRules([path]).catch(() => []));
}

async function fileStatus({ path, container, builtAt }: DatabaseFile, rules: RuleFile | undefined) {
  return {
    path,
    /** Of a container (`.cvd`, `.cld`); null for all other files, which carry none. */
    version: container?.version ?? null,
    /** Of a container what it says, of a rule file its rules; otherwise its lines. */
    signatureCount: rules?.rules ?? container?.signatureCount ?? (await countLines(path)),
    builtAt,
    /** Of a rule file: why it is not loaded, with lines. */
    problems: rules === undefined ? [] : problemsOf([rules]),
  };
}

export const standings = ['starter', 'current', 'old', 'other'] as const;
export type Standing = (typeof standings)[number];

export const MEANINGS: Readonly<Record<Standing, string>> = {
  starter: 'only those that ship with Sluice: they find test files and a few shells, and call nearly all malware clean',
  old: "with ClamAV's, which are more than a day old: the newest malware is not among them",
  current: "with ClamAV's, less than a day old",
  other: "without ClamAV's daily database",
};

/** Seconds: ClamAV makes a daily database every day. */
const OLD_FROM_S = 24 * 60 * 60;

/** Which folders count is looked up once for each load: what is put into them later does not serve yet. */
export function createStandings(
  folders: SignatureFolders,
  now: () => number,
): (engine: Pick<Engine, 'epoch' | 'dailyBuiltAt'>) => Standing {
  let seen = { epoch: 0, isStarter: false };
  return ({ epoch, dailyBuiltAt }) => {
    if (dailyBuiltAt !== null) return now() / 1000 - dailyBuiltAt < OLD_FROM_S ? 'current' : 'old';
    if (seen.epoch !== epoch) {
      seen = { epoch, isStarter: presentFolders(folders).every((folder) => folder === ownSignaturesDirectory) };
    }
    return seen.isStarter ? 'starter' : 'other';
  };
}

export interface TuneOptions {
  readonly directories: readonly string[];
  /** Where the files of gates are kept, and what is learned. */
  readonly gatesDirectory: string;
  /** Clean; each is opened once. */
  readonly contents: () => AsyncIterable<Uint8Array>;
  /** Before the contents: how far it is with all that gates could be made of, 0 to 1. */
  readonly onListing: (fraction: number) => void;
  /** Behind them, when gates are made anew. */
  readonly onMaking: () => void;
}

/** Rejects when the signatures can't be read, or what was learned can't be kept. */
export async function tune({ directories, gatesDirectory, ...options }: TuneOptions) {
  for (const directory of directories) {
    if ((await databaseFiles(directory)).length === 0)
      throw new Error(`There is no signature database in ${directory}`);
  }
  const scratch = makeScratch();
  try {
    // Few signatures: what takes the time is opening the files.
    const engine = await prepareEngine({
      directories: [ownSignaturesDirectory],
      temporaryDirectory: scratch.directory,
      limits: defaultEngineLimits,
      windows: await windowsForGatesApart(
        { directories, directory: gatesDirectory, isBackground: false },
        options.onListing,
      ),
    });
    engine.serve();
    let count = 0;
    for await (const content of options.contents()) {
      scanBuffer(content);
      count += 1;
    }
    const common = commonWindows(windowCounts() ?? new Float64Array(), count);
    const learned = await keepLearned(gatesDirectory, common);
    options.onMaking();
    const { facts } = await prepareGatesApart({
      directories,
      directory: gatesDirectory,
      threads: availableParallelism(),
    });
    /** `learned`: windows that were not known before to be in clean content; `facts`: of the gates that the next load has. */
    return { contents: count, learned, facts };
  } finally {
    scratch.remove();
  }
}
