// `sluice signatures update`: newer databases from a mirror or a folder, tried as a whole, then put in place file by file.
import { copyFile, link, mkdir, mkdtemp, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { basename, extname, join, resolve } from 'node:path';
import { type Config, readConfig } from '../config/config.js';
import { databaseFiles, isDatabase } from '../engine/databases.js';
import { presentFolders } from '../engine/folders.js';
import { messageOfError } from '../error-text.js';
import { EXIT_CLEAN, EXIT_FAILED, EXIT_SIGNAL_BASE } from '../exit-codes.js';
import { ownSignaturesDirectory } from '../paths.js';
import { parseUrl } from '../wire-text.js';
import { type DownloadOptions, download, provideFreshclam } from './freshclam.js';
import { findServiceIfAny } from './service-place.js';
import { describeLoad, tryToLoad } from './signatures-status.js';

export interface UpdateOptions {
  readonly from?: string;
  readonly into?: string;
  /** Installs freshclam without asking, where it is missing. */
  readonly yes: boolean;
}

/** Here freshclam keeps its own id, and until when it must not ask a mirror again. */
const FRESHCLAM_STATE = 'freshclam.dat';
const CONTAINERS = ['.cvd', '.cld', '.cud'];
const SIGINT = 2;

/** Resolves with the exit code. Whatever goes wrong before everything has been tried leaves the target as it is. */
export async function signaturesUpdate(options: UpdateOptions, env: NodeJS.ProcessEnv): Promise<number> {
  const service = findServiceIfAny(env);
  const config = readConfig(service ?? env);
  const target = options.into === undefined ? targetOf(config) : resolve(options.into);
  if (target === null) {
    process.stderr.write("sluice: SIGNATURES_DIR names none but Sluice's own folder: add one, or say --into\n");
    return EXIT_FAILED;
  }
  const stop = new AbortController();
  const onSignal = (): void => stop.abort();
  // Once: a second Ctrl-C ends the process as it does without us.
  process.once('SIGINT', onSignal);
  process.once('SIGTERM', onSignal);
  try {
    await mkdir(target, { recursive: true });
    // Inside the target, so that a rename is all it takes; libclamav passes over folders.
    const staging = await mkdtemp(join(target, '.update-'));
    try {
      const problem = await updateIn({ staging, target, options, config, signal: stop.signal });
      if (stop.signal.aborted) return EXIT_SIGNAL_BASE + SIGINT;
      if (problem === null) {
        if (options.into === undefined) process.stdout.write(`${whoHasThem(service !== null, config.dataDirectory)}\n`);
        return EXIT_CLEAN;
      }
      process.stderr.write(`sluice: nothing was changed: ${problem}\n`);
      return EXIT_FAILED;
    } finally {
      await rm(staging, { recursive: true, force: true });
    }
  } catch (error) {
    process.stderr.write(`sluice: ${messageOfError(error)}\n`);
    return EXIT_FAILED;
  } finally {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
}

function whoHasThem(isServiceThere: boolean, dataDirectory: string): string {
  if (isServiceThere) return 'A running service takes them over by itself.';
  return `No service has its data in ${dataDirectory} yet: one that is started with this DATA_DIR has them.`;
}

/** The first folder in use that isn't ours; without one the folder that the service looks into by itself. */
function targetOf({ signatureFolders, signatureDownloads }: Config): string | null {
  const inUse = presentFolders(signatureFolders).find((directory) => directory !== ownSignaturesDirectory);
  return inUse ?? (signatureFolders.optionalDirectories.includes(signatureDownloads) ? signatureDownloads : null);
}

interface Update {
  readonly staging: string;
  readonly target: string;
  readonly options: UpdateOptions;
  readonly config: Config;
  readonly signal: AbortSignal;
}

/** Resolves with null, or with what went wrong. */
async function updateIn({ staging, target, options, config, signal }: Update): Promise<string | null> {
  const { from = null, yes } = options;
  const present = await linkPresent(target, staging);
  const source = sourceOf(from, config);
  const problem =
    source === null
      ? await importFolder(resolve(from ?? ''), staging)
      : ((await provideFreshclam(yes, signal)) ?? (await download({ folder: staging, ...source, signal })));
  if (problem !== null || signal.aborted) return problem ?? 'interrupted';
  const changes = await changesOf(staging, target, present);
  if (changes.renamed.length + changes.removed.length === 0) {
    process.stdout.write(`${target} has the newest signatures already\n`);
    return null;
  }
  // A stand-in would serve whatever the new databases are like.
  const tried = await tryToLoad([staging], { engine: config.engine, mayStandIn: false });
  if (tried.kind === 'failed') return tried.message.replaceAll(staging, from ?? 'the download');
  if (signal.aborted) return 'interrupted';
  await putInPlace(staging, target, changes);
  process.stdout.write(`${describeLoad(tried.engine)}\n`);
  for (const name of changes.renamed) process.stdout.write(`${join(target, name)} is new\n`);
  for (const name of changes.removed) process.stdout.write(`${join(target, name)} is gone\n`);
  return null;
}

/** What is fetched: as configured, one file that `from` is the URL of, or all of the mirror there. Null: `from` is a folder. */
function sourceOf(from: string | null, config: Config): Pick<DownloadOptions, 'mirror' | 'urls'> | null {
  if (from === null) return { mirror: config.signaturesMirror, urls: config.signatureUrls };
  const url = /^https?:\/\//.test(from) ? parseUrl(from) : null;
  if (url === null) return null;
  return isDatabase(url.pathname) ? { mirror: 'none', urls: [from] } : { mirror: from, urls: [] };
}

/** Names of what the target has. Its files are linked and not copied: a link that is replaced leaves the original as it is. */
async function linkPresent(target: string, staging: string): Promise<readonly string[]> {
  const names = (await databaseFiles(target)).map((path) => basename(path));
  const state = (await readdir(target)).filter((name) => name === FRESHCLAM_STATE);
  for (const name of [...names, ...state]) {
    await link(join(target, name), join(staging, name)).catch(() =>
      copyWithTimes(join(target, name), join(staging, name)),
    );
  }
  return names;
}

async function copyWithTimes(from: string, to: string): Promise<void> {
  await copyFile(from, to);
  const { atime, mtime } = await stat(from);
  await utimes(to, atime, mtime);
}

async function importFolder(from: string, staging: string): Promise<string | null> {
  const paths = await databaseFiles(from);
  if (paths.length === 0) return `there is no signature database in ${from}`;
  for (const path of paths) {
    const name = basename(path);
    // A database has one file: a newer `daily.cld` takes the place of `daily.cvd`.
    const stem = name.slice(0, -extname(name).length);
    const others = CONTAINERS.includes(extname(name)) ? CONTAINERS.map((extension) => `${stem}${extension}`) : [name];
    for (const other of others) await rm(join(staging, other), { force: true });
    await copyWithTimes(path, join(staging, name));
  }
  return null;
}

interface Changes {
  readonly renamed: readonly string[];
  readonly removed: readonly string[];
}

async function changesOf(staging: string, target: string, present: readonly string[]): Promise<Changes> {
  const staged = (await databaseFiles(staging)).map((path) => basename(path));
  const renamed: string[] = [];
  for (const name of staged) {
    if (!present.includes(name) || !(await isSame(join(staging, name), join(target, name)))) renamed.push(name);
  }
  return { renamed, removed: present.filter((name) => !staged.includes(name)) };
}

async function isSame(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([stat(one), stat(other)]);
  return a.ino === b.ino || (a.size === b.size && Math.floor(a.mtimeMs) === Math.floor(b.mtimeMs));
}

async function putInPlace(staging: string, target: string, { renamed, removed }: Changes): Promise<void> {
  for (const name of renamed) await rename(join(staging, name), join(target, name));
  for (const name of removed) await rm(join(target, name), { force: true });
  await rename(join(staging, FRESHCLAM_STATE), join(target, FRESHCLAM_STATE)).catch(() => undefined);
}
