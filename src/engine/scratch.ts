// The engine's temporary folder: in memory where the machine has room for it, and of this process alone. Its name says of which one, so that others know when
// that is gone. They remove it then, if it belongs to our user, by descriptor and never through a link.
import { hash, randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  lutimesSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmdirSync,
  rmSync,
  type Stats,
  statfsSync,
  unlinkSync,
} from 'node:fs';
import { lstat, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { codeOf, messageOfError } from '../error-text.js';

/** In a container the next process has the pid of the last one. They differ in when they started. */
const STARTED = Math.floor(performance.timeOrigin);
/** The namespace in which our pids are valid. In another container, or on another machine, they are those of others. */
const NAMESPACE = pidNamespace();
/** The part of a name behind the prefix. What follows it is different for each folder of the process. */
const OWNER = /^(\d+)-(\d+)-(?:([0-9a-f]{12})-)?/;
/** How often an owner shows that it lives: processes in other namespaces can't see its process. */
export const SIGN_OF_LIFE_MS = 60_000;
/** Long enough for an owner that is held up. Until then its folder takes room. */
const ABANDONED_MS = 15 * SIGN_OF_LIFE_MS;
/** Of folders: the last sign of life, and when we saw it first. */
type SignsOfLife = Map<string, { readonly mtimeMs: number; readonly seenMs: number }>;
/** Of folders of other processes. */
const signsOfLife: SignsOfLife = new Map();

/** The beginning of the name of a folder of this process. */
export const processFolderName = (prefix: string): string => `${prefix}${process.pid}-${STARTED}-${NAMESPACE}-`;

/** To be called every SIGN_OF_LIFE_MS. */
export function showLife(directory: string): void {
  try {
    const now = new Date();
    lutimesSync(directory, now, now);
  } catch {
    // There is no folder yet, or its disk fails. In the second case its use fails as well, and that is reported.
  }
}

/**
 * Removes the folders of processes that are gone. Returns what couldn't be removed: that must not keep the service from
 * starting. Any user may put a folder or a link of such a name there, so what doesn't belong to our user is left alone.
 */
export function removeOrphans(parent: string, prefix: string): string[] {
  const warnings: string[] = [];
  for (const name of namesIn(parent, warnings)) {
    if (!name.startsWith(prefix)) continue;
    const path = join(parent, name);
    const facts = factsOf(path);
    if (facts === null || !isOrphan(path, name.slice(prefix.length), facts)) continue;
    try {
      removeOwnFolder(parent, name);
    } catch (error) {
      // Another process is removing it as well.
      if (codeOf(error) === 'ENOENT') continue;
      warnings.push(`the leftover folder ${name} cannot be removed: ${messageOfError(error)}`);
    }
  }
  return warnings;
}

/** Where no descriptor is left nothing is found now. The next look finds it. */
function namesIn(parent: string, warnings: string[]): string[] {
  try {
    return readdirSync(parent);
  } catch (error) {
    warnings.push(`leftover folders cannot be looked for in ${parent}: ${messageOfError(error)}`);
    return [];
  }
}

/** Null: it has just gone, or it is no folder of our user. */
function factsOf(path: string): Stats | null {
  try {
    const facts = lstatSync(path);
    if (facts.isDirectory() && isOurs(facts)) return facts;
  } catch {
    // It has just gone.
  }
  signsOfLife.delete(path);
  return null;
}

function isOrphan(path: string, name: string, facts: Stats): boolean {
  const [, pid, started, namespace] = OWNER.exec(name) ?? [];
  if (pid === undefined) return false;
  if (namespace !== NAMESPACE) return isSilent(signsOfLife, path, facts, ABANDONED_MS);
  return Number(pid) === process.pid ? Number(started) !== STARTED : !isAlive(Number(pid));
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it lives and belongs to another user.
    return codeOf(error) === 'EPERM';
  }
}

/**
 * Measured by our own monotonic clock, which stands still while the machine sleeps. So a folder doesn't look old because
 * two clocks differ, or because the machine has slept.
 */
function isSilent(signs: SignsOfLife, path: string, { mtimeMs }: Stats, silenceMs: number): boolean {
  const seen = signs.get(path);
  if (seen?.mtimeMs !== mtimeMs) {
    signs.set(path, { mtimeMs, seenMs: performance.now() });
    return false;
  }
  if (performance.now() - seen.seenMs < silenceMs) return false;
  signs.delete(path);
  return true;
}

/**
 * Names this boot and this PID namespace. Two namespaces that live have different names. Where the kernel doesn't say it,
 * the name is random, and no pid is valid but our own.
 */
function pidNamespace(): string {
  try {
    const facts = [readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'), readlinkSync('/proc/self/ns/pid')];
    return hash('sha256', facts.join(' ')).slice(0, 12);
  } catch {
    return randomBytes(6).toString('hex');
  }
}

/** A tmpfs on every Linux; libclamav makes a folder for each scan, which costs four times the scan of 1 KB on a disk. */
const MEMORY_DIRECTORY = '/dev/shm';
/** Room that unpacking may need at once. Docker gives containers 64 MB by default. */
const ROOM_BYTES = 256 * 1024 * 1024;
const PREFIX = 'sluice-engine-';

export type Scratch = ReturnType<typeof makeScratch>;

/** Makes the folder, after removing those of processes that are gone. */
export function makeScratch() {
  const inMemory = roomBytes(MEMORY_DIRECTORY) >= ROOM_BYTES ? makeIn(MEMORY_DIRECTORY) : null;
  const { parent, directory, problem } = inMemory?.directory ? inMemory : makeIn(tmpdir());
  if (directory === null)
    throw new Error(`${parent}, where the engine unpacks, ${problem}: set TMPDIR to a folder that can`);
  const warnings = removeOrphans(parent, PREFIX);
  if (parent !== MEMORY_DIRECTORY) {
    const reason = inMemory?.problem ?? `has less than ${ROOM_BYTES >> 20} MB free`;
    warnings.push(`${MEMORY_DIRECTORY} ${reason}: the engine unpacks into ${parent}, which is slower`);
  }
  const signs: SignsOfLife = new Map();
  return {
    directory,
    /** What the operator should know, or null. */
    warning: warnings.length === 0 ? null : warnings.join('; '),
    /**
     * To be called every SIGN_OF_LIFE_MS. Removes what has not been written to since a call so long ago: a scan removes its own folder, so
     * a parser has left it behind. Also removes the folders of processes that are gone. Resolves with what went wrong, or null.
     */
    sweep(silenceMs: number): Promise<string | null> {
      showLife(directory);
      // The warning at the start has said what can't be removed.
      removeOrphans(parent, PREFIX);
      return sweep(directory, signs, silenceMs);
    },
    isGone: (): boolean => !existsSync(directory),
    remove: (): void => rmSync(directory, { recursive: true, force: true }),
  };
}

/** Read-only, or another user's, it can be both. */
function makeIn(parent: string) {
  try {
    return { parent, directory: mkdtempSync(join(parent, processFolderName(PREFIX))), problem: null };
  } catch (error) {
    return { parent, directory: null, problem: `can't be written (${messageOfError(error)})` };
  }
}

async function sweep(directory: string, signs: SignsOfLife, silenceMs: number): Promise<string | null> {
  try {
    const paths = (await readdir(directory)).map((name) => join(directory, name));
    for (const path of signs.keys()) if (!paths.includes(path)) signs.delete(path);
    for (const path of paths) {
      // A scan that ends meanwhile removes its folder itself.
      const facts = await lstat(path).catch(() => null);
      if (facts !== null && isSilent(signs, path, facts, silenceMs)) await rm(path, { recursive: true, force: true });
    }
    return null;
  } catch (error) {
    return `The engine's temporary folder can't be swept: ${messageOfError(error)}`;
  }
}

function roomBytes(directory: string): number {
  try {
    const { bavail, bsize } = statfsSync(directory);
    return bavail * bsize;
  } catch {
    return 0;
  }
}

const FOLDER_ITSELF = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** A link or a file can't be opened as a folder. A folder may have gone meanwhile. */
const NO_FOLDER = new Set(['ELOOP', 'ENOTDIR', 'ENOENT']);

export const isOurs = ({ uid }: Pick<Stats, 'uid'>): boolean => uid === process.geteuid?.();

const OTHERS_MAY_WRITE = 0o022;
const STICKY = 0o1000;

/**
 * Whether nobody but our user and root can write to it, or put something else in its place: this and all folders above it are theirs and closed to others.
 * In a sticky one of root's, such as /tmp, others can't. Throws the system's error when it is not there.
 */
export function isClosedToOthers(folder: string): boolean {
  const real = realpathSync(folder);
  return wayTo(real).every((one) => {
    const found = lstatSync(one);
    const isSticky = found.uid === 0 && (found.mode & STICKY) !== 0;
    return isOursOrRoots(found) && ((found.mode & OTHERS_MAY_WRITE) === 0 || isSticky);
  });
}

export const isOursOrRoots = (stats: Pick<Stats, 'uid'>): boolean => stats.uid === 0 || isOurs(stats);

function wayTo(folder: string): readonly string[] {
  const above = dirname(folder);
  return above === folder ? [folder] : [folder, ...wayTo(above)];
}

/**
 * Removes the folder of that name with all that is in it. False: there is none, or it belongs to another user, and is left
 * alone. Throws the system's error when it is ours and can't be removed.
 */
export function removeOwnFolder(parent: string, name: string): boolean {
  const descriptor = openSync(parent, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    return removeBelow(descriptor, name);
  } finally {
    closeSync(descriptor);
  }
}

function removeBelow(parent: number, name: string): boolean {
  return withOwn(parent, name, (descriptor) => {
    for (const entry of readdirSync(below(descriptor), { withFileTypes: true })) {
      if (!entry.isDirectory()) unlinkSync(below(descriptor, entry.name));
      else removeBelow(descriptor, entry.name);
    }
  });
}

/** Empties the folder by `empty` and removes it, if it is ours. */
function withOwn(parent: number, name: string, empty: (descriptor: number) => void): boolean {
  const descriptor = openFolder(below(parent, name));
  if (descriptor === null) return false;
  try {
    const opened = fstatSync(descriptor);
    if (!isOurs(opened)) return false;
    empty(descriptor);
    const named = lstatSync(below(parent, name));
    if (named.dev !== opened.dev || named.ino !== opened.ino) return false;
    rmdirSync(below(parent, name));
    return true;
  } finally {
    closeSync(descriptor);
  }
}

function openFolder(path: string): number | null {
  try {
    return openSync(path, FOLDER_ITSELF);
  } catch (error) {
    if (NO_FOLDER.has(codeOf(error) ?? '')) return null;
    throw error;
  }
}

/** Proc(5): a link to the folder of the descriptor, also when the folder's name leads elsewhere by now. */
const below = (descriptor: number, name = ''): string => `/proc/self/fd/${descriptor}/${name}`;
