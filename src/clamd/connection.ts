// One connection of a client that speaks clamd's protocol: its commands in order, its streams as scans, its answers as they come.
import { Failure } from '../errors.js';
import {
  CLAMD_CLOSE_MS,
  CLAMD_CLOSINGS,
  CLAMD_COMMAND_MS,
  CLAMD_OLD_COMMAND_MS,
  CLAMD_SCANS,
  CLAMD_UNREAD_BYTES,
} from '../limits.js';
import { Connection } from '../listening.js';
import type { Peer, PeerOwner } from '../peers.js';
import {
  type ClamdScanParts,
  errorText,
  FileWork,
  STREAM,
  StreamedScan,
  type StreamOwner,
  type WorkOwner,
} from './clamd-scan.js';
import type { FolderFiles, MachineFiles } from './open-below.js';
import {
  ClamdParser,
  type ClamdParserTarget,
  COMMAND_TIMED_OUT,
  type Command,
  INVALID_IN_SESSION,
  NO_DESCRIPTOR,
  NOT_AVAILABLE,
  OLD_IN_SESSION,
  type PoolFacts,
  STREAM_TOO_LARGE,
  statsOf,
  UNASKED_DESCRIPTOR,
  UNKNOWN,
  versionCommands,
} from './protocol.js';

/** What all connections have in common. `streamTimeoutMs`: for a stream, from its first chunk to its end; the time in which it waits for us doesn't count. */
export interface ClamdConnectionParts extends ClamdScanParts {
  readonly files: MachineFiles;
  readonly version: () => string;
  readonly pool: PoolFacts;
  readonly reload: () => void;
}

/** What a session may be asked that is answered at once. */
const IN_SESSION: ReadonlySet<Command['kind']> = new Set(['PING', 'VERSION', 'VERSIONCOMMANDS', 'STATS', 'END']);

/** What has its answer later: it hears when nobody waits for that any more. */
interface Pending {
  onGone(reason: Error): void;
}

export class ClamdConnection extends Connection implements ClamdParserTarget, StreamOwner, WorkOwner, PeerOwner {
  protected readonly parser = new ClamdParser(this);
  readonly #parts: ClamdConnectionParts;
  /** Open files that have come and are not asked for. */
  #descriptors: readonly number[] = [];
  /** Open files that are being closed. */
  #closings = 0;
  #isSession = false;
  /** Of the last command of the session. */
  #number = 0;
  #label = '';
  /** Of the last command with `n` or `z`: an old one in a session is answered so. */
  #delimiter = '\n';
  /** INSTREAM was said, and nothing of the content has come. */
  #opening: Command | null = null;
  #stream: StreamedScan | null = null;
  /** Why the stream that is arriving is no scan. Nothing of it is looked at; it is answered at its end, so that a session goes on. */
  #refusal: Failure | null = null;
  #streamBytes = 0;
  /** It waits for its admission or for memory. */
  #isStreamHeld = false;
  /** No Set: see `Line`. */
  readonly #unanswered: Pending[] = [];
  readonly #waitForReading: (() => void)[] = [];

  constructor(parts: ClamdConnectionParts, peer: Peer) {
    super(peer, CLAMD_COMMAND_MS);
    this.#parts = parts;
  }

  /** It has one command, or is a session, which ends when nothing was said for CLAMD_COMMAND_MS. */
  retire(): void {
    // Nothing is left to be done for that.
  }

  /** Takes no further command, and ends when those that are there are answered. */
  finish(): void {
    if (this.#stream === null && this.#opening === null && this.#refusal === null) this.#endWhenAnswered();
    else this.isEnding = true;
  }

  destroy(): void {
    this.peer.destroy();
  }

  // Bytes in.

  onBytes(bytes: Buffer, descriptors: readonly number[]): void {
    if (descriptors.length > 0) this.#parts.files.onAlong(descriptors.length);
    // As clamd: of several that come at once none is taken.
    if (descriptors.length === 1 && !this.isEnding) this.#descriptors = [...this.#descriptors, ...descriptors];
    else this.#close(descriptors);
    this.take(bytes);
  }

  protected override pump(): void {
    super.pump();
    if (this.hasTakenAll && this.#descriptors.length > 0) {
      this.#dropDescriptors();
      this.#refuseWith(UNASKED_DESCRIPTOR);
    }
    if (this.parser.isOldOpen) this.timer.start(CLAMD_OLD_COMMAND_MS);
    if (this.#closings > CLAMD_CLOSINGS) this.peer.pause();
  }

  protected mustWait(): boolean {
    return this.#isStreamHeld || this.#unanswered.length > CLAMD_SCANS || this.peer.unsentBytes > CLAMD_UNREAD_BYTES;
  }

  onDrain(): void {
    for (const goOn of this.#waitForReading.splice(0)) goOn();
    this.pump();
  }

  protected onCut(): void {
    this.parser.endOld();
    // A content that was cut has no verdict, and clamd no word for it.
    if (this.#stream !== null) this.destroy();
    else this.#endWhenAnswered();
  }

  override onClose(): void {
    super.onClose();
    for (const pending of this.#unanswered.splice(0)) pending.onGone(new Error('The client has left'));
    this.#stream = null;
    this.#dropDescriptors();
    this.onDrain();
  }

  // Commands.

  onCommand(command: Command): void {
    this.timer.start(CLAMD_COMMAND_MS);
    if (this.#isSession) {
      this.#number += 1;
      this.#label = `${this.#number}: `;
    }
    if (this.#isSession && command.isOld) {
      this.#refuseWith(OLD_IN_SESSION);
      return;
    }
    this.#delimiter = command.delimiter;
    if (command.kind === 'IDSESSION' && !this.#isSession) this.#isSession = true;
    else if (command.kind === 'INSTREAM') {
      this.#opening = command;
      this.#streamBytes = 0;
      this.parser.beginStream();
    } else if (command.kind === 'FILDES') this.parser.expectDescriptor();
    else if (command.kind === 'path' && !(this.#isSession && command.word !== 'SCAN')) {
      const { word, path } = command;
      this.#begin(this.#parts.files.at(path), (work) => work.scanPath(word, path));
    } else this.#answerNow(command);
  }

  #answerNow(command: Command): void {
    const text = this.#isSession && !IN_SESSION.has(command.kind) ? INVALID_IN_SESSION : this.#textFor(command);
    const isLast = !this.#isSession || text === null || text === INVALID_IN_SESSION;
    if (text !== null) this.write(this.#label + text + command.delimiter);
    if (isLast) this.#endWhenAnswered();
  }

  /** Each with the number of its command; nothing is answered after them. */
  #refuseWith(texts: readonly string[]): void {
    for (const text of texts) this.write(this.#label + text + this.#delimiter);
    this.#endWhenAnswered();
  }

  /** Null: the end, without a word. */
  #textFor({ kind }: Command): string | null {
    switch (kind) {
      case 'END':
        return this.#isSession ? null : UNKNOWN;
      case 'PING':
        return 'PONG';
      case 'VERSION':
        return this.#parts.version();
      case 'VERSIONCOMMANDS':
        return versionCommands(this.#parts.version());
      case 'STATS':
        return statsOf(this.#parts.pool);
      case 'DETSTATS':
      case 'DETSTATSCLEAR':
        return null;
      case 'SHUTDOWN':
      case 'QUIT':
        return NOT_AVAILABLE;
      case 'RELOAD':
        // Signatures are loaded again for the machine's own clients alone.
        if (this.peer.way !== 'unix') return NOT_AVAILABLE;
        this.#parts.reload();
        return 'RELOADING';
      default:
        return UNKNOWN;
    }
  }

  onTooLong(): void {
    this.#endWhenAnswered();
  }

  // Files of the machine.

  onDescriptorByte(): void {
    const [first, ...others] = this.#descriptors;
    this.#descriptors = others;
    if (first === undefined) this.#refuseWith([NO_DESCRIPTOR]);
    else this.#begin(this.#parts.files.holding(first), (work) => work.scanDescriptor(first));
  }

  #begin(files: FolderFiles, run: (work: FileWork) => Promise<void>): void {
    const work = new FileWork(this.#parts, files, this, { label: this.#label, delimiter: this.#delimiter });
    this.#unanswered.push(work);
    this.timer.stop();
    void run(work);
    if (!this.#isSession) this.#endWhenAnswered();
  }

  onWorkEnded(work: FileWork): void {
    if (this.#takeOut(work)) this.#onAnswered();
  }

  async whenRead(): Promise<void> {
    if (this.peer.isClosed || this.peer.unsentBytes <= CLAMD_UNREAD_BYTES) return;
    await new Promise<void>((resolve) => this.#waitForReading.push(resolve));
  }

  #dropDescriptors(): void {
    this.#close(this.#descriptors);
    this.#descriptors = [];
  }

  #close(descriptors: readonly number[]): void {
    for (const descriptor of descriptors) this.closeAlong(descriptor);
  }

  closeAlong(descriptor: number, files?: FolderFiles): void {
    this.#closings += 1;
    void this.#parts.files.closeAlong(descriptor, files).finally(() => {
      this.#closings -= 1;
      if (this.#closings === CLAMD_CLOSINGS && !this.peer.isClosed) this.pump();
    });
  }

  // Streams.

  onChunk(sizeBytes: number): void {
    this.#streamBytes += sizeBytes;
    const isTooLarge = this.#streamBytes > this.#parts.streamLimitBytes;
    if (isTooLarge) this.#refuseSize();
    else if (this.#opening !== null) this.#openStream(this.#opening, sizeBytes);
  }

  #refuseSize(): void {
    const stream = this.#stream;
    this.#opening = null;
    this.#stream = null;
    this.write(`${this.#label}${STREAM_TOO_LARGE}${this.#delimiter}`);
    if (stream !== null) {
      this.#takeOut(stream);
      stream.refuse(new Failure('scanIncomplete', 'stream is over its limit'));
    }
    this.#endWhenAnswered();
  }

  #openStream({ delimiter }: Command, firstChunkBytes: number): void {
    const { account, streamTimeoutMs } = this.#parts;
    this.#opening = null;
    this.timer.start(streamTimeoutMs);
    this.#refusal = account.refusal(firstChunkBytes);
    if (this.#refusal !== null) return;
    const scan = new StreamedScan(this.#parts, this, { label: this.#label, delimiter });
    this.#stream = scan;
    this.#unanswered.push(scan);
    this.hold(scan);
    void scan.admitBy(account.admit);
  }

  onStreamBytes(bytes: Uint8Array): void {
    this.#stream?.chunk(bytes);
  }

  onStreamEnd(): void {
    const stream = this.#stream;
    this.#stream = null;
    this.timer.stop();
    if (this.#opening !== null) {
      // Nothing of nothing is left to be looked at: no scan is begun for it.
      this.write(`${this.#label}${STREAM}: OK${this.#opening.delimiter}`);
      this.#opening = null;
    }
    this.#tellRefusal();
    stream?.end();
    if (this.#isSession && !this.isEnding) this.#afterStream();
    else this.#endWhenAnswered();
  }

  #tellRefusal(): void {
    if (this.#refusal !== null) this.write(`${this.#label}${errorText(STREAM, this.#refusal, '')}${this.#delimiter}`);
    this.#refusal = null;
  }

  #afterStream(): void {
    if (this.#unanswered.length === 0) this.timer.start(CLAMD_COMMAND_MS);
    if (this.mustWait()) this.parser.isHeld = true;
  }

  hold(scan: StreamedScan): void {
    if (scan !== this.#stream) return;
    this.timer.pause();
    this.#isStreamHeld = true;
    this.parser.isHeld = true;
  }

  goOn(scan: StreamedScan): void {
    if (scan !== this.#stream || !this.#isStreamHeld) return;
    this.#isStreamHeld = false;
    this.timer.goOn();
    this.pump();
  }

  // Answers out.

  answer(scan: StreamedScan, text: string): void {
    if (!this.#takeOut(scan)) return;
    this.write(scan.framing.label + text + scan.framing.delimiter);
    if (scan === this.#stream) {
      // The rest of a content that has its answer is nobody's.
      this.#stream = null;
      this.#endWhenAnswered();
      return;
    }
    this.#onAnswered();
  }

  /** False: it is answered already, or nobody waits for it. */
  #takeOut(pending: Pending): boolean {
    const at = this.#unanswered.indexOf(pending);
    if (at >= 0) this.#unanswered.splice(at, 1);
    return at >= 0;
  }

  #onAnswered(): void {
    if (this.isEnding) this.#endWhenAnswered();
    else {
      if (this.#unanswered.length === 0 && this.#stream === null) this.timer.start(CLAMD_COMMAND_MS);
      this.pump();
    }
  }

  write(text: string): void {
    if (!this.isEnded) this.peer.write(Buffer.from(text, 'latin1'));
  }

  #endWhenAnswered(): void {
    this.isEnding = true;
    this.parser.stop();
    this.#isStreamHeld = false;
    if (this.#unanswered.length > 0) return;
    this.end(CLAMD_CLOSE_MS);
    this.#dropDescriptors();
  }

  onDue(): void {
    const stream = this.#stream;
    if (this.isEnded || this.peer.unsentBytes > CLAMD_UNREAD_BYTES) this.destroy();
    else if (stream !== null) stream.refuse(new Failure('uploadTooSlow', `${this.#parts.streamTimeoutMs} ms`));
    else if (this.#refusal !== null) {
      this.#tellRefusal();
      this.#endWhenAnswered();
    } else if (this.parser.isOldOpen) this.parser.endOld();
    else if (this.#unanswered.length === 0) {
      this.write(`${COMMAND_TIMED_OUT}\n`);
      this.#endWhenAnswered();
    }
  }
}
