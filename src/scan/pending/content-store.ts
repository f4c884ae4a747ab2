// The contents of accepted scans on this node's disk, encrypted: within a budget that accounts share, a folder for each process, and what a dead process left is taken over.
import { randomBytes, randomUUID } from 'node:crypto';
import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { open, rename, rm, rmdir, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { codeOf } from '../../error-text.js';
import { Unavailable } from '../../errors.js';
import { ARRIVING_CONTENTS, ARRIVING_WAITING } from '../../limits.js';
import { isGone, makeFolder } from '../../paths.js';
import { type Release, tryLock } from '../../store/data-lock.js';
import { FairTurns, Shares } from '../../waiting/turns.js';
import { NoAnswer, within } from '../../waiting/within.js';
import { openSealed, SealedFile, type SealedOwner } from './sealed-file.js';

interface ContentStoreOptions {
  /** DATA_DIR/async; other processes may have folders of their own in it. */
  readonly directory: string;
  readonly key: Buffer;
  /** Of all contents of this process. */
  readonly limitBytes: number;
  /** For each step of the disk with a content that arrives or is read. */
  readonly answerMs: number;
  /** How long a content waits for a place among those that arrive. */
  readonly placeWaitMs: number;
}

/** Contents that processes have left behind: by id, how many bytes they are. */
export type LeftContents = Map<string, number>;

/** A file takes whole blocks of the disk, and some bytes of its own. */
const BLOCK_BYTES = 4096;
/** What one account leaves to others. */
const RESERVE_SHARE = 1 / 4;
const OWNER = /^[0-9a-f]{16}$/;
const FILE = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Whole blocks: also for a content that is empty. */
const onDisk = (bytes: number): number => BLOCK_BYTES * Math.ceil((bytes + 1) / BLOCK_BYTES);

interface Kept {
  readonly account: string;
  bytes: number;
}

/** With a folder of this process's own. */
export async function openContentStore(options: ContentStoreOptions): Promise<ContentStore> {
  const { directory } = options;
  makeFolder(directory);
  return new ContentStore(options, nodeIdIn(directory, randomUUID()), await claimFolder(directory));
}

interface OwnFolder {
  readonly name: string;
  readonly path: string;
  readonly release: Release;
}

async function claimFolder(directory: string): Promise<OwnFolder> {
  const name = randomBytes(8).toString('hex');
  const path = join(directory, name);
  mkdirSync(path, { mode: 0o700 });
  const lock = await tryLock(path, name);
  if (!lock.locked) throw new Error(`${path} belongs to the process ${lock.owner}`);
  await syncFolder(directory);
  return { name, path, release: lock.release };
}

export class ContentStore {
  readonly nodeId: string;
  readonly #directory: string;
  readonly #key: Buffer;
  #own: OwnFolder;
  readonly #disk: Shares;
  readonly #arriving: FairTurns;
  readonly #kept = new Map<string, Kept>();
  readonly #answerMs: number;
  /** Contents on their way for which the disk hasn't answered in time, and still has something to do. */
  readonly #stuck = new Set<string>();
  /** Steps of reading for which the same holds. */
  #lateReads = 0;

  constructor(
    { directory, key, limitBytes, answerMs, placeWaitMs }: ContentStoreOptions,
    nodeId: string,
    own: OwnFolder,
  ) {
    this.nodeId = nodeId;
    this.#own = own;
    this.#directory = directory;
    this.#key = key;
    this.#disk = new Shares(limitBytes * (1 - RESERVE_SHARE), limitBytes);
    this.#answerMs = answerMs;
    const tooMany = (): Unavailable => new Unavailable('uploadsBusy');
    this.#arriving = new FairTurns({
      running: ARRIVING_CONTENTS,
      runningEach: ARRIVING_CONTENTS * (1 - RESERVE_SHARE),
      waiting: ARRIVING_WAITING,
      waitingEach: ARRIVING_WAITING * (1 - RESERVE_SHARE),
      waitMs: placeWaitMs,
      full: tooMany,
      late: tooMany,
    });
  }

  /** On the disk. */
  get bytes(): number {
    return this.#disk.all;
  }

  /** A content may arrive while the work goes on, which begins when there is a place. Rejects with Failure `unavailable`. */
  async inTurn(account: string, work: () => Promise<void>): Promise<void> {
    this.#assertAnswers();
    await this.#arriving.run([account], work);
  }

  /** What hangs has a thread of this process and a descriptor: one wait for it is enough. */
  #assertAnswers(): void {
    if (this.#stuck.size + this.#lateReads > 0) throw new Unavailable('contentNotKept');
  }

  /** Throws Failure `unavailable`. */
  begin(id: string, account: string, owner: SealedOwner): ArrivingContent {
    this.#assertAnswers();
    if (!this.#disk.take(account, BLOCK_BYTES)) throw new Unavailable('asyncStoreFull');
    const kept = { account, bytes: BLOCK_BYTES };
    this.#kept.set(id, kept);
    const { path } = this.#own;
    const place = { path: join(path, id), name: id, key: this.#key, answerMs: this.#answerMs };
    const file = new SealedFile(place, {
      onWritten: () => owner.onWritten(),
      onUnwritable: (error) => {
        this.#lookAt(id, error);
        owner.onUnwritable(error);
      },
    });
    return new ArrivingContent(file, {
      grow: (bytes) => this.#grow(kept, bytes),
      entered: () => within(syncFolder(path), this.#answerMs),
      failed: (error) => this.#lookAt(id, error),
      remove: () => this.remove(id),
    });
  }

  #lookAt(id: string, error: unknown): void {
    if (error instanceof NoAnswer && this.#kept.has(id)) this.#stuck.add(id);
  }

  #grow(kept: Kept, bytes: number): void {
    const more = onDisk(bytes) - kept.bytes;
    if (more <= 0) return;
    if (!this.#disk.take(kept.account, more)) throw new Unavailable('asyncStoreFull');
    kept.bytes += more;
  }

  /** Rejects with BrokenSeal, NoAnswer, Failure `unavailable`, and with what the disk says. */
  async *read(id: string): AsyncGenerator<Buffer> {
    this.#assertAnswers();
    yield* openSealed(join(this.#own.path, id), id, this.#key, (work) => this.#step(work));
  }

  async #step<T>(work: Promise<T>): Promise<T> {
    try {
      return await within(work, this.#answerMs);
    } catch (error) {
      if (error instanceof NoAnswer) {
        this.#lateReads += 1;
        const answered = (): void => {
          this.#lateReads -= 1;
        };
        work.then(answered, answered);
      }
      throw error;
    }
  }

  async remove(id: string): Promise<void> {
    const kept = this.#kept.get(id);
    this.#kept.delete(id);
    try {
      await unlink(join(this.#own.path, id)).catch(ignoreMissing);
    } catch (error) {
      // It still takes its room, until somebody tries again.
      if (kept !== undefined) this.#kept.set(id, kept);
      throw error;
    } finally {
      this.#stuck.delete(id);
    }
    if (kept !== undefined) this.#disk.giveBack(kept.account, kept.bytes);
  }

  /** Whose a content is that was taken over. */
  keep(id: string, account: string, bytes: number): void {
    this.#kept.set(id, { account, bytes: onDisk(bytes) });
    this.#disk.count(account, onDisk(bytes));
  }

  /** Here, or with another process of this node. */
  isAnywhere(id: string): boolean {
    return readdirSync(this.#directory).some((folder) => existsSync(join(this.#directory, folder, id)));
  }

  /** Moves here what processes have left that are dead, and adds it to `found`, also where it fails on the way. Their accounts are not known: `keep` says them, or `remove` ends them. */
  async adopt(found: LeftContents): Promise<void> {
    await this.#settle();
    for (const other of readdirSync(this.#directory)) {
      if (!OWNER.test(other) || other === this.#own.name) continue;
      await adoptFolder(join(this.#directory, other), this.#own.path, found).catch(ignoreMissing);
    }
    if (found.size > 0) await syncFolder(this.#own.path);
  }

  /** In another folder where somebody has removed it. */
  async #settle(): Promise<void> {
    if (!isGone(this.#own.path)) return;
    makeFolder(this.#directory);
    nodeIdIn(this.#directory, this.nodeId);
    const next = await claimFolder(this.#directory);
    await this.#own.release().catch(() => undefined);
    this.#own = next;
  }

  /** What is there stays for the next process. */
  async close(): Promise<void> {
    const { path, release } = this.#own;
    await release();
    // What can't be removed is one of the dead, which the next process takes over.
    await rm(join(path, 'open'), { recursive: true, force: true }).catch(() => undefined);
    await rmdir(path).catch(() => undefined);
  }
}

interface FilePlace {
  /** Throws Failure `unavailable` when there is no room for so many. */
  grow(bytes: number): void;
  entered(): Promise<void>;
  failed(error: unknown): void;
  remove(): Promise<void>;
}

/** A content on its way to the disk. It is kept or dropped. */
export class ArrivingContent {
  readonly #file: SealedFile;
  readonly #place: FilePlace;

  constructor(file: SealedFile, place: FilePlace) {
    this.#file = file;
    this.#place = place;
  }

  get sizeBytes(): number {
    return this.#file.sizeBytes;
  }

  get isFull(): boolean {
    return this.#file.isFull;
  }

  /** Throws Failure `unavailable`. */
  append(bytes: Uint8Array): void {
    this.#place.grow(this.#file.sizeBytes + bytes.length);
    this.#file.append(bytes);
  }

  /** Resolves with its SHA-256 when neither a kill nor a power cut can take it any more. Rejects with Failure `unavailable`. */
  async keep(): Promise<string> {
    try {
      const sha256 = await this.#file.finish();
      await this.#place.entered();
      return sha256;
    } catch (error) {
      this.#place.failed(error);
      throw new Unavailable('contentNotKept', { cause: error });
    }
  }

  /** Resolves when the disk has nothing to do with it any more. */
  async drop(): Promise<void> {
    await this.#file.close().catch(() => undefined);
    await this.#place.remove();
  }
}

/** Which node this data folder is; `otherwise` where nothing says it yet. */
function nodeIdIn(directory: string, otherwise: string): string {
  const path = join(directory, 'node');
  const unfinished = `${path}.${randomBytes(8).toString('hex')}`;
  for (;;) {
    try {
      return z.uuid().parse(readFileSync(path, 'utf8'));
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error;
    }
    writeFileSync(unfinished, otherwise, { mode: 0o600 });
    try {
      // Of processes that start at once the first one says it.
      linkSync(unfinished, path);
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error;
    } finally {
      unlinkSync(unfinished);
    }
  }
}

/** Adds to `found`, also where it fails on the way. Rejects with ENOENT where another process was quicker. */
async function adoptFolder(from: string, own: string, found: LeftContents): Promise<void> {
  const lock = await tryLock(from, randomBytes(8).toString('hex'));
  if (!lock.locked) return;
  try {
    for (const id of readdirSync(from)) {
      if (!FILE.test(id)) continue;
      // Before it is here: from then on it can go at any time, with its row from the journal.
      const { size } = await stat(join(from, id));
      await rename(join(from, id), join(own, id));
      found.set(id, size);
    }
  } finally {
    // Otherwise this process would take itself for the living owner of the folder.
    await lock.release();
  }
  await rm(from, { recursive: true, force: true });
}

function ignoreMissing(error: unknown): void {
  if (codeOf(error) !== 'ENOENT') throw error;
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
