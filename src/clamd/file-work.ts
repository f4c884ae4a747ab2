// What one command has done with files of the machine: SCAN and its like below the folders that are allowed, and FILDES.
import { Failure } from '../errors.js';
import { CLAMD_COMMAND_MS, CLAMD_FOLDER_DEPTH, CLAMD_MULTISCAN_FILES } from '../limits.js';
import { startCoarseTimer } from '../waiting/coarse-timer.js';
import { type ClamdScanParts, type FileAnswer, FileScan, type Framing } from './clamd-scan.js';
import { type FolderFiles, type Opened, withoutSlashes } from './open-below.js';
import { type PathWord, pathRefused } from './protocol.js';

/** The connection that it is for. */
export interface WorkOwner {
  write(text: string): void;
  /** Resolves when the client has read what it has. */
  whenRead(): Promise<void>;
  destroy(): void;
  onWorkEnded(work: FileWork): void;
}

export class FileWork {
  readonly #parts: ClamdScanParts;
  readonly #files: FolderFiles;
  readonly #owner: WorkOwner;
  readonly #framing: Framing;
  readonly #running = new Set<FileScan>();
  #isGone = false;
  #hasFound = false;
  #hasFailed = false;

  constructor(parts: ClamdScanParts, files: FolderFiles, owner: WorkOwner, framing: Framing) {
    this.#parts = parts;
    this.#files = files;
    this.#owner = owner;
    this.#framing = framing;
  }

  /** SCAN and its like. A trailing slash is left out, as by clamd. */
  async scanPath(word: PathWord, wanted: string): Promise<void> {
    const path = withoutSlashes(wanted);
    await this.#run(path, async () => {
      const opened = await this.#files.openBelow(path);
      await this.#look(word, path, opened);
    });
  }

  /** FILDES. The descriptor is closed here. */
  async scanDescriptor(descriptor: number): Promise<void> {
    const name = `fd[${descriptor}]`;
    await this.#run(name, async () => await this.#tell(await this.#scan(name, descriptor)));
    await this.#files.close(descriptor);
  }

  onGone(reason: Error): void {
    this.#isGone = true;
    for (const scan of this.#running) scan.onGone(reason);
  }

  async #run(name: string, work: () => Promise<void>): Promise<void> {
    try {
      await this.#files.run(work);
    } catch (error) {
      if (!(error instanceof Failure)) this.#parts.onSurprise('', error);
      await this.#line(`${name}: ${error instanceof Failure ? error.message : 'Internal error'} ERROR`);
    }
    this.#owner.onWorkEnded(this);
  }

  async #look(word: PathWord, path: string, opened: Opened): Promise<void> {
    switch (opened.kind) {
      case 'refused':
        return await this.#line(pathRefused(path, opened.reason));
      case 'special':
        return await this.#line(`${path}: Not supported file type ERROR`);
      case 'file':
        return await this.#closing(opened.descriptor, async () =>
          this.#tell(await this.#scan(path, opened.descriptor)),
        );
      case 'folder':
        await this.#closing(opened.descriptor, async () => await this.#walk(word, path, opened.descriptor, 1));
        if (!this.#hasFound && !this.#hasFailed) await this.#line(`${path}: OK`);
    }
  }

  async #walk(word: PathWord, path: string, folder: number, depth: number): Promise<void> {
    if (depth > CLAMD_FOLDER_DEPTH)
      return await this.#tell({ kind: 'failed', text: `${path}: Folders too deep ERROR` });
    const most = word === 'MULTISCAN' ? CLAMD_MULTISCAN_FILES : 1;
    const files = this.#files;
    const under = new Set<Promise<void>>();
    for await (const name of files.entriesOf(folder)) {
      if (this.#isOver(word)) break;
      const opened = await files.openEntry(folder, name);
      const place = path === '/' ? `/${name}` : `${path}/${name}`;
      if (opened?.kind === 'folder') {
        await this.#closing(opened.descriptor, async () => await this.#walk(word, place, opened.descriptor, depth + 1));
      } else if (opened?.kind === 'refused') {
        await this.#tell({ kind: 'failed', text: `${place}: Access denied. ERROR` });
      } else if (opened?.kind === 'file') {
        const one = this.#entry(place, opened.descriptor).finally(() => under.delete(one));
        under.add(one);
        if (under.size >= most) await Promise.race(under);
      }
    }
    await Promise.all(under);
  }

  /** Nobody hears more, or SCAN has found what it stops at. */
  #isOver(word: PathWord): boolean {
    return this.#isGone || (this.#hasFound && (word === 'SCAN' || word === 'ALLMATCHSCAN'));
  }

  /** A clean file in a folder is not spoken of. */
  async #entry(path: string, descriptor: number): Promise<void> {
    try {
      await this.#closing(descriptor, async () => {
        const answer = await this.#scan(path, descriptor);
        if (answer.kind !== 'clean') await this.#tell(answer);
      });
    } catch (error) {
      // Others are read beside it.
      this.#parts.onSurprise('', error);
      await this.#tell({ kind: 'failed', text: `${path}: Internal error ERROR` });
    }
  }

  async #scan(name: string, descriptor: number): Promise<FileAnswer> {
    const scan = new FileScan(this.#parts, this.#files, name, descriptor);
    this.#running.add(scan);
    try {
      return await scan.run();
    } finally {
      this.#running.delete(scan);
    }
  }

  async #tell({ kind, text }: FileAnswer): Promise<void> {
    if (kind === 'found') this.#hasFound = true;
    if (kind === 'failed') this.#hasFailed = true;
    await this.#line(text);
  }

  /** A client that reads nothing has as long as for a command. */
  async #line(text: string): Promise<void> {
    this.#owner.write(this.#framing.label + text + this.#framing.delimiter);
    const timer = startCoarseTimer(CLAMD_COMMAND_MS, () => this.#owner.destroy());
    await this.#owner.whenRead();
    timer.stop();
  }

  async #closing(descriptor: number, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } finally {
      await this.#files.close(descriptor);
    }
  }
}
