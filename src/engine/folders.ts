// Folders of signatures: which of them count, and what lies in one, file by file, read without loading an engine.
import { readdirSync } from 'node:fs';
import type { SignatureFolders } from '../config/config.js';
import { type GateFacts, preparedFacts } from './clamav/gates/prepare.js';
import {
  countLines,
  type DatabaseFile,
  databaseFiles,
  describeDatabases,
  isDatabase,
  isRuleFile,
} from './databases.js';
import { problemsOf, type RuleFile, validateRules } from './yara/rules.js';

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

export type { GateFacts } from './clamav/gates/prepare.js';

export interface FileStatus {
  readonly path: string;
  /** Of a container (`.cvd`, `.cld`); null for all other files, which carry none. */
  readonly version: number | null;
  /** Of a container what it says, of a rule file its rules; otherwise its lines. */
  readonly signatureCount: number;
  /** Epoch seconds; null: the file doesn't say it. */
  readonly builtAt: number | null;
  /** Of a rule file: why it is not loaded, with lines. */
  readonly problems: readonly string[];
}

/** Rejects when the folder or a file in it can't be read. */
export async function folderStatus(folder: string): Promise<readonly FileStatus[]> {
  const { files } = await describeDatabases(await databaseFiles(folder));
  const rules = await validatedRules(files.map(({ path }) => path));
  return await Promise.all(files.map((file) => fileStatus(file, rules.get(file.path))));
}

/** Of the folders as they are now; null: no gates have been made of them yet. */
export async function gateStatus(directories: readonly string[], gatesDirectory: string): Promise<GateFacts | null> {
  return await preparedFacts(directories, gatesDirectory);
}

/** Without YARA-X nothing is known of rule files but their size. */
async function validatedRules(paths: readonly string[]): Promise<Map<string, RuleFile>> {
  const tried = await validateRules(paths.filter(isRuleFile)).catch(() => []);
  return new Map(tried.map((file) => [file.path, file]));
}

async function fileStatus(
  { path, container, builtAt }: DatabaseFile,
  rules: RuleFile | undefined,
): Promise<FileStatus> {
  return {
    path,
    version: container?.version ?? null,
    signatureCount: rules?.rules ?? container?.signatureCount ?? (await countLines(path)),
    builtAt,
    problems: rules === undefined ? [] : problemsOf([rules]),
  };
}
