// Files of the machine, opened once and only below the folders that may be looked at. A path is followed to what it leads to, without a read
// of it; the kernel says where that is, and only then is it opened. Paths are Latin-1, byte by byte. A file system that hangs keeps the threads that ask it, so each
// folder has some of its own, and so has each file system of files that come along.
import { close, constants, fstat, lstat, open, opendir, read, readFileSync, readlink, type Stats } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { codeOf } from '../error-text.js';
import { Unavailable } from '../errors.js';
import {
  CLAMD_FILE_CALLS,
  CLAMD_FILE_COMMANDS,
  CLAMD_FILE_COMMANDS_WAITING,
  CLAMD_FILE_SYSTEMS,
  CLAMD_FILES_ALONG,
  CLAMD_FOLDER_MS,
} from '../limits.js';
import { createLimiter, type Limiter } from '../waiting/limiter.js';
import { oneAtATime, withinOr } from '../waiting/within.js';

const opens = promisify(open);
const closes = promisify(close);
const stats = promisify(fstat);
const linkStats = promisify(lstat);
const links = promisify(readlink);
const folders = promisify(opendir);
const reads = promisify(read);

/** open(2): a descriptor of the place alone, whatever is there; nothing is opened, and no FIFO waited for. Node has no name for it. */
const PLACE_ONLY = 0o10000000;

export type Opened =
  | { readonly kind: 'file'; readonly descriptor: number }
  /** Of the place: its entries are read with `entriesOf`. */
  | { readonly kind: 'folder'; readonly descriptor: number }
  | { readonly kind: 'special' }
  | { readonly kind: 'refused'; readonly reason: string };

const DENIED: Opened = { kind: 'refused', reason: 'Permission denied' };
/** As strerror(3) calls it. */
const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'No such file or directory',
  ENOTDIR: 'Not a directory',
  EACCES: 'Permission denied',
  ELOOP: 'Too many levels of symbolic links',
  ENAMETOOLONG: 'File name too long',
  EMFILE: 'Too many open files',
  ENFILE: 'Too many open files in system',
};

const bytesOf = (path: string): Buffer => Buffer.from(path, 'latin1');

const placeOf = (descriptor: number): string => `/proc/self/fd/${descriptor}`;

const noPlace = (): Error => new Error('More calls wait than there can be commands');

/** A folder whose files may be looked at by their path. */
interface Folder {
  readonly path: string;
  readonly files: FolderFiles;
  /** What it leads to; null: it isn't there. It may be mounted later. */
  readonly real: () => Promise<string | null>;
}

export class MachineFiles {
  readonly #folders: readonly Folder[];
  /** Paths that are in none of the folders as they are written. */
  readonly #others: FolderFiles;
  /** Files that come along: each is for one file system, until nothing of that is looked at. */
  readonly #along: readonly FolderFiles[];
  #alongCount = 0;

  constructor(allowed: readonly string[]) {
    this.#folders = allowed.map(withoutSlashes).map((path) => ({
      path,
      files: new FolderFiles(this),
      real: oneAtATime(() => realpath(path, 'latin1').catch(() => null)),
    }));
    this.#others = new FolderFiles(this);
    this.#along = Array.from({ length: CLAMD_FILE_SYSTEMS }, () => new FolderFiles(this));
  }

  at(path: string): FolderFiles {
    const folder = this.#folders.find((each) => isBelow(path, each.path));
    return folder?.files ?? this.#others;
  }

  /** For more files that come along. */
  get hasRoom(): boolean {
    return this.#alongCount < CLAMD_FILES_ALONG;
  }

  /** So many files have come along: each is to be closed by `closeAlong`. */
  onAlong(count: number): void {
    this.#alongCount += count;
  }

  async closeAlong(descriptor: number, files = this.holding(descriptor)): Promise<void> {
    await files.close(descriptor);
    this.#alongCount -= 1;
  }

  /** For a file that has come along. */
  holding(descriptor: number): FolderFiles {
    const mount = mountOf(descriptor);
    if (mount === null) return this.#others;
    const own = this.#along.find((files) => files.mount === mount) ?? this.#along.find((files) => files.isIdle);
    if (own === undefined) return this.#others;
    own.mount = mount;
    return own;
  }

  get allowsNone(): boolean {
    return this.#folders.length === 0;
  }

  /** Whether what is really there may be looked at. Of the folders other than that of the files only those count that answer soon. */
  async allows(real: string, files: FolderFiles): Promise<boolean> {
    const own = this.#folders.find((folder) => folder.files === files);
    const root = await own?.real();
    if (typeof root === 'string' && isBelow(real, root)) return true;
    const roots = await Promise.all(this.#folders.map((folder) => withinOr(folder.real(), CLAMD_FOLDER_MS, null)));
    return roots.some((other) => other !== null && isBelow(real, other));
  }
}

export function withoutSlashes(path: string): string {
  let end = path.length;
  while (end > 1 && path[end - 1] === '/') end -= 1;
  return path.slice(0, end);
}

function isBelow(path: string, folder: string): boolean {
  return folder === '/' || path === folder || path.startsWith(`${folder}/`);
}

/** proc(5). The file system itself isn't asked for that. Null: no descriptor is left to ask with. */
function mountOf(descriptor: number): string | null {
  try {
    return /^mnt_id:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'latin1'))?.[1] ?? null;
  } catch {
    return null;
  }
}

/** Those of one folder, or file system: they wait for each other, and for no other's. */
export class FolderFiles {
  mount = '';
  readonly #machine: MachineFiles;
  readonly #commands: Limiter;
  readonly #calls: Limiter;
  readonly #closes: Limiter;

  constructor(machine: MachineFiles) {
    this.#machine = machine;
    this.#commands = createLimiter({ running: CLAMD_FILE_COMMANDS, waiting: CLAMD_FILE_COMMANDS_WAITING });
    this.#calls = createLimiter({ running: CLAMD_FILE_CALLS, waiting: Number.POSITIVE_INFINITY });
    this.#closes = createLimiter({ running: 1, waiting: Number.POSITIVE_INFINITY });
  }

  get isIdle(): boolean {
    return this.#commands.isIdle && this.#closes.isIdle;
  }

  async run(command: () => Promise<void>): Promise<void> {
    await this.#commands.run(command, () => new Unavailable('clamdFilesBusy'));
  }

  #ask<Result>(call: () => Promise<Result>): Promise<Result> {
    return this.#calls.run(call, noPlace);
  }

  /** Resolves with a descriptor that the caller closes, or with what there is instead. */
  async openBelow(path: string): Promise<Opened> {
    if (this.#machine.allowsNone) return DENIED;
    // As for clamd: relative to nothing.
    if (!path.startsWith('/')) return { kind: 'refused', reason: reasonFor('ENOENT') };
    let place: number;
    try {
      place = await this.#open(bytesOf(path), PLACE_ONLY);
    } catch (error) {
      return await this.#refusal(path, error);
    }
    return await this.#handOver(place, async () =>
      (await this.#isAllowed(place)) ? await this.#openedAs(place) : DENIED,
    );
  }

  /** An entry of a folder that is open; a link is no entry: resolves with null. */
  async openEntry(folder: number, name: string): Promise<Opened | null> {
    let place: number;
    try {
      place = await this.#open(bytesOf(`${placeOf(folder)}/${name}`), PLACE_ONLY | constants.O_NOFOLLOW);
    } catch (error) {
      // It has gone meanwhile.
      return codeOf(error) === 'ENOENT' ? null : { kind: 'refused', reason: reasonOf(error) };
    }
    return await this.#handOver(place, async () => {
      if ((await this.stat(place)).isSymbolicLink()) return null;
      return await this.#openedAs(place);
    });
  }

  async *entriesOf(folder: number): AsyncGenerator<string> {
    const entries = await this.#ask(() => folders(placeOf(folder), { encoding: 'latin1' }));
    try {
      for (;;) {
        const entry = await this.#ask(() => entries.read());
        if (entry === null) return;
        yield entry.name;
      }
    } finally {
      await this.#closes.run(() => entries.close(), noPlace);
    }
  }

  stat(descriptor: number): Promise<Stats> {
    return this.#ask(() => stats(descriptor));
  }

  /** Resolves with how many bytes it has read. */
  async read(descriptor: number, buffer: Buffer, position: number): Promise<number> {
    return (await this.#ask(() => reads(descriptor, buffer, 0, buffer.length, position))).bytesRead;
  }

  async close(descriptor: number): Promise<void> {
    await this.#closes.run(() => closes(descriptor), noPlace);
  }

  #open(path: string | Buffer, flags: number): Promise<number> {
    return this.#ask(() => opens(path, flags));
  }

  async #isAllowed(descriptor: number): Promise<boolean> {
    const real = await this.#ask(() => links(placeOf(descriptor), 'latin1'));
    return await this.#machine.allows(real.toString(), this);
  }

  /** Closes the place, unless it is what is handed over. */
  async #handOver<Result extends Opened | null>(place: number, open: () => Promise<Result>): Promise<Result> {
    let result: Result | null = null;
    try {
      result = await open();
      return result;
    } finally {
      if (result?.kind !== 'folder') await this.close(place);
    }
  }

  /** The same inode as the place, whatever its path leads to by now. */
  async #openedAs(place: number): Promise<Opened> {
    const found = await this.stat(place);
    if (found.isDirectory()) return { kind: 'folder', descriptor: place };
    if (!found.isFile()) return { kind: 'special' };
    try {
      const flags = constants.O_RDONLY | constants.O_NOCTTY | constants.O_NONBLOCK;
      return { kind: 'file', descriptor: await this.#open(placeOf(place), flags) };
    } catch (error) {
      return { kind: 'refused', reason: reasonOf(error) };
    }
  }

  /** Only of what is missing in a folder that may be looked at, it is said that it is missing. */
  async #refusal(path: string, error: unknown): Promise<Opened> {
    const reason = { kind: 'refused', reason: reasonOf(error) } as const;
    if (codeOf(error) !== 'ENOENT') return DENIED;
    const isLink = await this.#ask(() => linkStats(bytesOf(path))).then(
      () => true,
      () => false,
    );
    if (isLink) return DENIED;
    try {
      const parent = await this.#open(bytesOf(dirname(path)), PLACE_ONLY);
      return await this.#handOver(parent, async () => ((await this.#isAllowed(parent)) ? reason : DENIED));
    } catch {
      return DENIED;
    }
  }
}

function reasonOf(error: unknown): string {
  const code = codeOf(error);
  if (code === null) throw error;
  return reasonFor(code);
}

const reasonFor = (code: string): string => REASONS[code] ?? code;
