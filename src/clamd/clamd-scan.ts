// Scans that come by clamd's protocol: the chunks of a stream, or of a file that is read from its first byte to its last one, whatever its offset was; one line out. And
// what one command has done with files of the machine.
import { v7 as uuidv7 } from 'uuid';
import { codeOf } from '../error-text.js';
import { Failure } from '../errors.js';
import { shownPath } from '../filename.js';
import { CLAMD_COMMAND_MS, CLAMD_FOLDER_DEPTH, CLAMD_MULTISCAN_FILES } from '../limits.js';
import type { ScanParts } from '../scan/scan.js';
import { HeldReading, type Stream, type StreamAccount, StreamScan } from '../scan/stream-scan.js';
import { startCoarseTimer } from '../waiting/coarse-timer.js';
import { within } from '../waiting/within.js';
import { type FolderFiles, type Opened, withoutSlashes } from './open-below.js';
import { type PathWord, pathRefused } from './protocol.js';

export interface ClamdScanParts {
  readonly scans: ScanParts;
  readonly account: StreamAccount;
  readonly streamLimitBytes: number;
  /** For one read of a file: a share of the network may hang. */
  readonly streamTimeoutMs: number;
  readonly onSurprise: (requestId: string, error: unknown) => void;
  /** A path, in Latin-1, whose place can't be looked at. */
  readonly onRefusedPath: (path: string, reason: string) => void;
}

/** As clamd calls what has no name. */
export const STREAM = 'stream';

abstract class ClamdScan extends StreamScan {
  override readonly protocol = 'clamd';
  protected readonly limitBytes: number;
  /** As its answer calls the content, in Latin-1, byte by byte. */
  readonly name: string;
  protected readonly shared: ClamdScanParts;

  constructor(shared: ClamdScanParts, name: string) {
    super(shared.scans, uuidv7());
    this.limitBytes = shared.streamLimitBytes;
    this.name = name;
    this.shared = shared;
    this.filename = shownPath(Buffer.from(name, 'latin1').toString('utf8'));
  }

  protected receive(): void {
    this.openContent(null);
    this.goOn();
  }

  protected answer(): void {
    const { problem, verdict } = this;
    if (verdict === null && !(problem instanceof Failure)) this.shared.onSurprise(this.requestId, problem);
    this.say(textOf(this));
  }

  protected abstract say(text: string): void;
}

/** Where the bytes of a stream come from, and its answer goes. */
export interface StreamOwner extends Stream<StreamedScan> {
  answer(scan: StreamedScan, text: string): void;
}

export interface AnswerFraming {
  /** In front of the answer: the number of the command in its session, or nothing. */
  readonly label: string;
  readonly delimiter: string;
}

export class StreamedScan extends ClamdScan {
  readonly framing: AnswerFraming;
  protected readonly stream: StreamOwner;

  constructor(shared: ClamdScanParts, owner: StreamOwner, framing: AnswerFraming) {
    super(shared, STREAM);
    this.framing = framing;
    this.stream = owner;
  }

  protected say(text: string): void {
    this.stream.answer(this, text);
  }
}

/** Only what was looked at as a whole and has nothing in it is OK. */
function textOf({ name, verdict, problem, requestId }: ClamdScan): string {
  if (verdict?.kind === 'clean') return `${name}: OK`;
  if (verdict?.kind === 'infected') return `${name}: ${oneLine(verdict.virusName)} FOUND`;
  return errorText(name, problem, requestId);
}

/** `requestId`: what is said of an error that nobody foresaw. */
export function errorText(name: string, problem: unknown, requestId: string): string {
  return `${name}: ${problem instanceof Failure ? oneLine(problem.message) : `Internal error ${requestId}`} ERROR`;
}

/** Its bytes as Latin-1 characters, and none that ends an answer. */
const oneLine = (text: string): string => Buffer.from(text.replace(/[\r\n\0]/g, ' '), 'utf8').toString('latin1');

const READ_BYTES = 256 * 1024;

export interface FileAnswer {
  readonly kind: 'clean' | 'found' | 'failed';
  readonly text: string;
}

export class FileScan extends ClamdScan {
  /** Until it is admitted, and while there is no room. */
  protected readonly stream = new HeldReading(true);
  readonly #files: FolderFiles;
  readonly #descriptor: number;
  readonly #answered: Promise<string>;
  #answer: (text: string) => void = () => undefined;

  /** The descriptor stays the caller's. */
  constructor(shared: ClamdScanParts, files: FolderFiles, name: string, descriptor: number) {
    super(shared, name);
    this.#files = files;
    this.#descriptor = descriptor;
    this.#answered = new Promise((resolve) => {
      this.#answer = resolve;
    });
  }

  /** Resolves with its line. An empty file is no scan, as an empty stream is none. */
  async run(): Promise<FileAnswer> {
    const { account } = this.shared;
    const buffer = Buffer.allocUnsafe(READ_BYTES);
    let count: number;
    try {
      const file = await this.#files.stat(this.#descriptor);
      if (!file.isFile()) return this.#failed('Not a regular file');
      const refusal = file.size === 0 ? null : account.refusal(file.size);
      if (refusal !== null) return this.#failed(refusal.message);
      count = await this.#read(buffer, 0);
    } catch (error) {
      return this.#failed(`File can't be read: ${codeOf(error) ?? 'timeout'}`);
    }
    if (count === 0) return { kind: 'clean', text: `${this.name}: OK` };
    void this.admitBy(account.admit);
    await this.#handOn(buffer, count);
    const text = await this.#answered;
    if (this.verdict?.kind === 'infected') return { kind: 'found', text };
    return { kind: this.verdict?.kind === 'clean' ? 'clean' : 'failed', text };
  }

  override onGone(reason: Error): void {
    super.onGone(reason);
    this.stream.goOn();
    // Nobody hears an answer, and the scan has none.
    this.#answer('');
  }

  async #handOn(buffer: Buffer, first: number): Promise<void> {
    let position = 0;
    for (let count = first; count > 0; ) {
      await this.stream.untilRoom();
      if (this.isDecided) return;
      position += count;
      if (position > this.limitBytes) {
        this.fail(new Failure('scanIncomplete', 'file is over STREAM_MAX_MB'));
        return;
      }
      this.chunk(buffer.subarray(0, count));
      try {
        count = await this.#read(buffer, position);
      } catch (error) {
        this.fail(new Failure('scanIncomplete', `file can't be read: ${codeOf(error) ?? 'timeout'}`));
        return;
      }
    }
    this.end();
  }

  async #read(buffer: Buffer, position: number): Promise<number> {
    return await within(this.#files.read(this.#descriptor, buffer, position), this.shared.streamTimeoutMs);
  }

  #failed(reason: string): FileAnswer {
    return { kind: 'failed', text: `${this.name}: ${reason} ERROR` };
  }

  protected say(text: string): void {
    this.#answer(text);
    this.stream.goOn();
  }
}

export interface WorkOwner {
  write(text: string): void;
  whenRead(): Promise<void>;
  destroy(): void;
  onWorkEnded(work: FileWork): void;
  closeAlong(descriptor: number, files: FolderFiles): void;
}

export class FileWork {
  readonly #parts: ClamdScanParts;
  readonly #files: FolderFiles;
  readonly #owner: WorkOwner;
  readonly #framing: AnswerFraming;
  readonly #running = new Set<FileScan>();
  #isGone = false;
  #hasFound = false;
  #hasFailed = false;

  constructor(parts: ClamdScanParts, files: FolderFiles, owner: WorkOwner, framing: AnswerFraming) {
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
    this.#owner.closeAlong(descriptor, this.#files);
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
        this.#parts.onRefusedPath(path, opened.reason);
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
