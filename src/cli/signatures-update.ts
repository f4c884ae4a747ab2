// `sluice signatures update`: newer databases from a mirror or a folder, tried as a whole, then put in place file by file.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { copyFile, mkdtemp, readdir, rename, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, extname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { type Config, readConfig } from '../config/config.js';
import { databaseFiles, isDatabase, isRuleFile } from '../engine/databases.js';
import { presentFolders, ruleProblems } from '../engine/folders.js';
import { messageOfError } from '../error-text.js';
import { freshclamSetupPath, makeFolder, ownSignaturesDirectory } from '../paths.js';
import type { FolderOwner } from '../store/embedded/account.js';
import { parseUrl } from '../wire-text.js';
import { EXIT_CLEAN, EXIT_FAILED, untilSignal } from './output.js';
import { giveFile, giveToOwner, otherOwner } from './service-owner.js';
import { byTheProgram, findServiceIfAny } from './service-place.js';
import { describeLoad, tryToLoad } from './signatures.js';

export interface UpdateOptions {
  readonly from?: string;
  readonly into?: string;
  readonly yes: boolean;
}

/** Here freshclam keeps its own id, and until when it must not ask a mirror again. */
const FRESHCLAM_STATE = 'freshclam.dat';
const CONTAINERS = ['.cvd', '.cld', '.cud'];

const STAGING = '.update-';
/** No update takes so long: what is older was left by one that was killed, with all that it had fetched. */
const LEFT_MS = 24 * 3_600_000;

/** Resolves with the exit code. Whatever goes wrong before everything has been tried leaves the target as it is. */
export async function signaturesUpdate(options: UpdateOptions, env: NodeJS.ProcessEnv): Promise<number> {
  const service = findServiceIfAny(env);
  const config = readConfig(service ?? byTheProgram(env));
  const target = options.into === undefined ? targetOf(config) : resolve(options.into);
  if (target === null) {
    process.stderr.write("sluice: SIGNATURES_DIR names none but Sluice's own folder: add one, or say --into\n");
    return EXIT_FAILED;
  }
  try {
    makeFolder(target, 0o777);
    await removeLeft(target);
    // Inside the target, so that a rename is all it takes; libclamav passes over folders.
    const staging = await mkdtemp(join(target, STAGING));
    try {
      return await untilSignal(async ({ signal }) => {
        const problem = await updateIn({ staging, target, options, config, signal });
        if (signal.aborted) return EXIT_FAILED;
        if (problem !== null) {
          process.stderr.write(`sluice: nothing was changed: ${problem}\n`);
          return EXIT_FAILED;
        }
        if (options.into === undefined) process.stdout.write(`${whoHasThem(service !== null, config.dataDirectory)}\n`);
        return EXIT_CLEAN;
      });
    } finally {
      await rm(staging, { recursive: true, force: true });
      if (target === config.signatureDownloads) giveToOwner(config.dataDirectory, basename(target));
    }
  } catch (error) {
    process.stderr.write(`sluice: nothing was changed: ${messageOfError(error)}\n`);
    return EXIT_FAILED;
  }
}

async function removeLeft(target: string): Promise<void> {
  for (const name of (await readdir(target)).filter((one) => one.startsWith(STAGING))) {
    const path = join(target, name);
    // Another update ends beside this one.
    const changedMs = await stat(path).then(({ mtimeMs }) => mtimeMs, Date.now);
    if (Date.now() - changedMs > LEFT_MS) await rm(path, { recursive: true, force: true });
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
  const refused = await keepRules(staging, target, present.filter(isRuleFile));
  const reasons = refused.map((one) => one.replaceAll(staging, from ?? 'the download')).join('; ');
  const changes = await changesOf(staging, target, present);
  if (changes.renamed.length + changes.removed.length === 0) {
    if (refused.length > 0) return reasons;
    process.stdout.write(`${target} has the newest signatures already\n`);
    return null;
  }
  // A stand-in would serve whatever the new databases are like.
  const tried = await tryToLoad([staging], { engine: config.engine, mayStandIn: false });
  if (tried.kind === 'failed') return tried.message.replaceAll(staging, from ?? 'the download');
  if (signal.aborted) return 'interrupted';
  const owner = otherOwner(target === config.signatureDownloads ? config.dataDirectory : target);
  await putInPlace({ staging, target, owner }, changes);
  process.stdout.write(`${describeLoad(tried.engine)}\n`);
  if (refused.length > 0) process.stderr.write(`sluice: ${reasons}; the one that is there stays\n`);
  for (const name of changes.renamed) process.stdout.write(`${join(target, name)} is new\n`);
  for (const name of changes.removed) process.stdout.write(`${join(target, name)} is gone\n`);
  return null;
}

/** What is fetched: as configured, one file that `from` is the URL of, or all of the mirror there. Null: `from` is a folder. */
function sourceOf(from: string | null, config: Config): Pick<DatabaseDownloadOptions, 'mirror' | 'urls'> | null {
  if (from === null) return { mirror: config.signaturesMirror, urls: config.signatureUrls };
  const url = /^https?:\/\//.test(from) ? parseUrl(from) : null;
  if (url === null) return null;
  return isDatabase(url.pathname) ? { mirror: 'none', urls: [from] } : { mirror: from, urls: [] };
}

/**
 * Names of what the target has. Its files are linked and not copied: a link that is replaced leaves the original as it is. By their names, since a hard link,
 * and its end, is a change of the file, which servers would load anew.
 */
async function linkPresent(target: string, staging: string): Promise<readonly string[]> {
  const names = (await databaseFiles(target)).map((path) => basename(path));
  const state = (await readdir(target)).filter((name) => name === FRESHCLAM_STATE);
  for (const name of [...names, ...state]) await link(join(target, name), join(staging, name));
  return names;
}

async function link(from: string, to: string): Promise<void> {
  await symlink(from, to).catch(() => copyWithTimes(from, to));
}

/**
 * Resolves with what is wrong in newer rule files whose older ones are good. Those stay: a mistake of who publishes rules takes none away, and keeps no
 * databases back.
 */
async function keepRules(staging: string, target: string, names: readonly string[]): Promise<string[]> {
  const refused: string[] = [];
  for (const name of names) {
    const [newer, older] = [join(staging, name), join(target, name)];
    if (await isSame(newer, older)) continue;
    const problems = await ruleProblems(newer);
    if (problems.length === 0 || (await ruleProblems(older)).length > 0) continue;
    refused.push(...problems);
    await rm(newer);
    await link(older, newer);
  }
  return refused;
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

type Changes = Awaited<ReturnType<typeof changesOf>>;

async function changesOf(staging: string, target: string, present: readonly string[]) {
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

interface UpdatePlaces {
  readonly staging: string;
  readonly target: string;
  /** Whose the files are to be; null: this process's. */
  readonly owner: FolderOwner | null;
}

async function putInPlace({ staging, target, owner }: UpdatePlaces, { renamed, removed }: Changes): Promise<void> {
  // Before they are seen: servers would find them changed once more.
  if (owner !== null) for (const name of renamed) giveFile(join(staging, name), owner);
  for (const name of renamed) await rename(join(staging, name), join(target, name));
  for (const name of removed) await rm(join(target, name), { force: true });
  const state = join(staging, FRESHCLAM_STATE);
  if (owner !== null && existsSync(state)) giveFile(state, owner);
  await rename(state, join(target, FRESHCLAM_STATE)).catch(() => undefined);
}

interface DatabaseDownloadOptions {
  /** Has the databases that are there already, so that only what is newer is fetched. */
  readonly folder: string;
  /** Null: ClamAV's own servers; `none`: only the URLs. */
  readonly mirror: string | null;
  readonly urls: readonly string[];
  readonly signal: AbortSignal;
}

const CLAMAV = 'database.clamav.net';
/** Seconds: a mirror that takes longer to begin, or that stalls for so long, is given up. */
const CONNECT_SECONDS = 30;
const STALL_SECONDS = 60;

/** Resolves with null, or with what went wrong. freshclam's own words go to stderr. */
async function download(options: DatabaseDownloadOptions): Promise<string | null> {
  const own = await mkdtemp(join(tmpdir(), 'sluice-freshclam-'));
  try {
    const path = join(own, 'freshclam.conf');
    await writeFile(path, configuration(options));
    const only = options.mirror === 'none' ? ['--update-db=custom'] : [];
    const progress = process.stderr.isTTY ? ['--show-progress'] : [];
    const ended = await run('freshclam', [`--config-file=${path}`, '--stdout', ...only, ...progress], options.signal);
    return ended === 0 ? null : `freshclam ended with ${ended}`;
  } finally {
    await rm(own, { recursive: true, force: true });
  }
}

function configuration({ folder, mirror, urls }: DatabaseDownloadOptions): string {
  const isOfficial = mirror === null || mirror === 'none';
  return [
    `DatabaseDirectory ${folder}`,
    // Whom it becomes where root starts it. Others stay who they are: in a container they need not have a name.
    'DatabaseOwner root',
    // It is named even where nothing is asked of it: without one freshclam refuses to work.
    isOfficial ? `DatabaseMirror ${CLAMAV}` : `PrivateMirror ${mirror}`,
    ...(mirror === null ? [] : ['DNSDatabaseInfo no']),
    ...urls.map((url) => `DatabaseCustomURL ${url}`),
    // What it has fetched is loaded afterwards, all of it together.
    'TestDatabases no',
    `ConnectTimeout ${CONNECT_SECONDS}`,
    `ReceiveTimeout ${STALL_SECONDS}`,
    'MaxAttempts 3',
    '',
  ].join('\n');
}

const MISSING = 'freshclam is not installed (`--yes` installs it; on Debian it is `apt-get install clamav-freshclam`)';

/** Installs it where it is missing: after a question on a terminal, or because `isAgreed`. Resolves with null, or with why it is not there. */
async function provideFreshclam(isAgreed: boolean, signal: AbortSignal): Promise<string | null> {
  if ((await run('freshclam', ['--version'], signal, 'ignore')) === 0) return null;
  if (!isAgreed && !(await agreed(signal))) return MISSING;
  const ended = await run('sh', [freshclamSetupPath], signal);
  return ended === 0 ? null : 'freshclam could not be installed';
}

async function agreed(signal: AbortSignal): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return false;
  // Not as a terminal of its own: Ctrl-C stays a signal.
  const asking = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  try {
    const question = 'freshclam, which fetches the signatures, is not installed. Install it with apt-get? [y/N] ';
    const answer = asking.question(question, { signal }).catch(() => '');
    // The end of the input (Ctrl-D) is no answer.
    return /^y(es)?$/i.test((await Promise.race([answer, once(asking, 'close').then(() => '')])).trim());
  } finally {
    asking.close();
  }
}

/** Resolves with its exit code, or with the signal or the error that ended it. */
function run(
  program: string,
  args: readonly string[],
  signal: AbortSignal,
  output: NodeJS.WriteStream | 'ignore' = process.stderr,
): Promise<number | string | null> {
  return new Promise((resolve) => {
    // An installation may ask for a password.
    const child = spawn(program, args, { stdio: ['inherit', output, output], signal });
    child.on('error', (error) => resolve(error.message));
    child.on('exit', (code, ended) => resolve(code ?? ended));
  });
}
