// One connection of a client that speaks clamd's protocol: its commands in order, its streams as scans, its answers as they come.
import type { Socket } from 'node:net';
import { v7 as uuidv7 } from 'uuid';
import type { Access } from '../admission/access.js';
import { Failure } from '../errors.js';
import { CLAMD_CLOSE_MS, CLAMD_COMMAND_MS, CLAMD_OLD_COMMAND_MS, CLAMD_SCANS, CLAMD_UNREAD_BYTES } from '../limits.js';
import type { ScanParts } from '../scan/scan.js';
import { CoarseTimer, type TimerOwner } from '../waiting/coarse-timer.js';
import { ClamdScan, errorText, type StreamOwner } from './clamd-scan.js';
import {
  COMMAND_TIMED_OUT,
  type Command,
  INVALID_IN_SESSION,
  NO_DESCRIPTORS,
  NOT_AVAILABLE,
  type PoolFacts,
  pathRefused,
  STREAM_TOO_LARGE,
  statsOf,
  UNKNOWN,
  versionCommands,
} from './commands.js';
import { ClamdParser, type ParserTarget } from './parser.js';

/** What all connections have in common. */
export interface ConnectionParts {
  readonly scans: ScanParts;
  readonly streamLimitBytes: number;
  /** For a stream, from its first chunk to its end; the time in which it waits for us doesn't count. */
  readonly streamTimeoutMs: number;
  /** Takes a unit of the account that the scans are of. Throws a Failure. */
  readonly admit: () => Promise<Access>;
  readonly version: () => string;
  readonly pool: PoolFacts;
  readonly reload: () => void;
  readonly onSurprise: (requestId: string, error: unknown) => void;
}

/** By what way it has come: signatures are reloaded for the machine's own clients alone. */
export type Way = 'unix' | 'tcp';

export class Connection implements ParserTarget, StreamOwner, TimerOwner {
  readonly #parts: ConnectionParts;
  readonly #socket: Socket;
  readonly #way: Way;
  readonly #parser: ClamdParser;
  readonly #timer: CoarseTimer;
  /** What has arrived and isn't taken. */
  #rest: Buffer | null;
  #isPumping: boolean;
  /** The client sends nothing more. */
  #hasAll: boolean;
  #isSession: boolean;
  /** Of the last command of the session. */
  #number: number;
  #label: string;
  /** INSTREAM was said, and nothing of the content has come. */
  #opening: Command | null;
  /** The stream that is arriving. */
  #stream: ClamdScan | null;
  #streamBytes: number;
  #streamLeftMs: number;
  /** It waits for its admission or for memory. */
  #isStreamHeld: boolean;
  readonly #unanswered: Set<ClamdScan>;
  /** No command is taken any more: it ends when all is answered. */
  #isEnding: boolean;
  #isEnded: boolean;

  constructor(parts: ConnectionParts, socket: Socket, way: Way) {
    this.#parts = parts;
    this.#socket = socket;
    this.#way = way;
    this.#parser = new ClamdParser(this);
    this.#timer = new CoarseTimer(this);
    this.#rest = null;
    this.#isPumping = false;
    this.#hasAll = false;
    this.#isSession = false;
    this.#number = 0;
    this.#label = '';
    this.#opening = null;
    this.#stream = null;
    this.#streamBytes = 0;
    this.#streamLeftMs = 0;
    this.#isStreamHeld = false;
    this.#unanswered = new Set();
    this.#isEnding = false;
    this.#isEnded = false;
    socket.on('data', (bytes) => this.#onData(bytes));
    socket.on('end', () => this.#onEnd());
    socket.on('drain', () => this.#pump());
    // Its 'close' follows.
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#onClose());
    this.#timer.start(CLAMD_COMMAND_MS);
  }

  /** Takes no further command, and ends when those that are there are answered. */
  finish(): void {
    if (this.#stream === null && this.#opening === null) this.#endWhenAnswered();
    else this.#isEnding = true;
  }

  destroy(): void {
    this.#socket.destroy();
  }

  // Bytes in.

  #onData(bytes: Buffer): void {
    this.#rest = this.#rest === null ? bytes : Buffer.concat([this.#rest, bytes]);
    this.#pump();
  }

  #pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    while (this.#rest !== null && !this.#mustWait()) {
      const rest = this.#rest;
      this.#parser.isHeld = false;
      const taken = this.#parser.write(rest);
      this.#rest = taken === rest.length ? null : rest.subarray(taken);
    }
    this.#isPumping = false;
    if (this.#mustWait()) this.#socket.pause();
    else this.#socket.resume();
    if (this.#hasAll && this.#rest === null && !this.#isEnded) this.#cut();
    else if (this.#parser.isOldOpen) this.#timer.start(CLAMD_OLD_COMMAND_MS);
  }

  /** For our part or for the client's reading: nothing more is taken meanwhile. */
  #mustWait(): boolean {
    if (this.#isEnded) return false;
    return (
      this.#isStreamHeld || this.#unanswered.size > CLAMD_SCANS || this.#socket.writableLength > CLAMD_UNREAD_BYTES
    );
  }

  /** The client may still read. */
  #onEnd(): void {
    this.#hasAll = true;
    this.#pump();
  }

  #cut(): void {
    this.#parser.endOld();
    // A content that was cut has no verdict, and clamd no word for it.
    if (this.#stream !== null) this.destroy();
    else this.#endWhenAnswered();
  }

  #onClose(): void {
    this.#timer.stop();
    this.#isEnded = true;
    this.#rest = null;
    this.#parser.stop();
    const gone = new Error('The client has left');
    for (const scan of this.#unanswered) scan.onGone(gone);
    this.#unanswered.clear();
    this.#stream = null;
  }

  // Commands.

  onCommand(command: Command): void {
    this.#timer.start(CLAMD_COMMAND_MS);
    if (this.#isSession) this.#label = this.#nextLabel(command);
    if (command.kind === 'IDSESSION' && !this.#isSession) {
      this.#isSession = true;
      return;
    }
    if (command.kind === 'INSTREAM') {
      this.#opening = command;
      this.#streamBytes = 0;
      this.#parser.beginStream();
      return;
    }
    const text = this.#isSession ? this.#inSession(command) : this.#alone(command);
    const isLast = !this.#isSession || text === null || text === INVALID_IN_SESSION || text === NO_DESCRIPTORS;
    if (text !== null) this.#write(this.#label + text + command.delimiter);
    if (isLast) this.#endWhenAnswered();
    else if (this.#mustWait()) this.#parser.isHeld = true;
  }

  #nextLabel({ kind }: Command): string {
    if (kind === 'END') return '';
    this.#number += 1;
    return `${this.#number}: `;
  }

  /** Null: the end, without a word. */
  #inSession(command: Command): string | null {
    switch (command.kind) {
      case 'END':
        return null;
      case 'PING':
      case 'VERSION':
      case 'VERSIONCOMMANDS':
      case 'STATS':
      case 'FILDES':
      case 'path':
        return this.#alone(command);
      default:
        return INVALID_IN_SESSION;
    }
  }

  #alone(command: Command): string | null {
    switch (command.kind) {
      case 'PING':
        return 'PONG';
      case 'VERSION':
        return this.#parts.version();
      case 'VERSIONCOMMANDS':
        return versionCommands(this.#parts.version());
      case 'STATS':
        return statsOf(this.#parts.pool);
      case 'path':
        return pathRefused(command.path);
      case 'FILDES':
        return NO_DESCRIPTORS;
      case 'DETSTATS':
      case 'DETSTATSCLEAR':
        return null;
      case 'SHUTDOWN':
      case 'QUIT':
        return NOT_AVAILABLE;
      case 'RELOAD':
        if (this.#way !== 'unix') return NOT_AVAILABLE;
        this.#parts.reload();
        return 'RELOADING';
      default:
        return UNKNOWN;
    }
  }

  onTooLong(): void {
    this.#endWhenAnswered();
  }

  // Streams.

  onChunk(sizeBytes: number): void {
    this.#streamBytes += sizeBytes;
    const isTooLarge = this.#streamBytes > this.#parts.streamLimitBytes;
    if (isTooLarge) this.#refuseSize();
    else if (this.#opening !== null) this.#openStream(this.#opening);
  }

  #refuseSize(): void {
    const delimiter = this.#opening?.delimiter ?? this.#stream?.delimiter ?? '\n';
    const stream = this.#stream;
    this.#opening = null;
    this.#stream = null;
    this.#write(`${this.#label}${STREAM_TOO_LARGE}${delimiter}`);
    if (stream !== null) {
      this.#unanswered.delete(stream);
      stream.refuse(new Failure('scanIncomplete', 'stream is over its limit'));
    }
    this.#endWhenAnswered();
  }

  #openStream({ delimiter }: Command): void {
    const { scans, streamLimitBytes: limitBytes, streamTimeoutMs } = this.#parts;
    const scan = new ClamdScan(scans, this, { requestId: uuidv7(), limitBytes, label: this.#label, delimiter });
    this.#opening = null;
    this.#stream = scan;
    this.#unanswered.add(scan);
    this.#streamLeftMs = streamTimeoutMs;
    this.#timer.start(streamTimeoutMs);
    this.hold(scan);
    void this.#admit(scan);
  }

  async #admit(scan: ClamdScan): Promise<void> {
    try {
      const access = await this.#parts.admit();
      if (access.outcome === 'admitted') scan.onAdmission(access);
      else this.#refuse(scan, new Failure(access.outcome === 'exhausted' ? 'quotaExhausted' : access.outcome));
    } catch (error) {
      this.#refuse(scan, error);
    }
  }

  #refuse(scan: ClamdScan, problem: unknown): void {
    scan.drop();
    if (!(problem instanceof Failure)) this.onSurprise(scan, problem);
    this.answer(scan, errorText(problem, scan.requestId));
  }

  onStreamBytes(bytes: Uint8Array): void {
    this.#stream?.chunk(bytes);
  }

  onStreamEnd(): void {
    const stream = this.#stream;
    this.#stream = null;
    this.#timer.stop();
    if (this.#opening !== null) {
      // Nothing of nothing is left to be looked at: no scan is begun for it.
      this.#write(`${this.#label}stream: OK${this.#opening.delimiter}`);
      this.#opening = null;
    }
    stream?.end();
    if (this.#isSession && !this.#isEnding) this.#afterStream();
    else this.#endWhenAnswered();
  }

  #afterStream(): void {
    if (this.#unanswered.size === 0) this.#timer.start(CLAMD_COMMAND_MS);
    if (this.#mustWait()) this.#parser.isHeld = true;
  }

  hold(scan: ClamdScan): void {
    if (scan !== this.#stream) return;
    this.#streamLeftMs = this.#timer.leftMs();
    this.#timer.stop();
    this.#isStreamHeld = true;
    this.#parser.isHeld = true;
  }

  goOn(scan: ClamdScan): void {
    if (scan !== this.#stream || !this.#isStreamHeld) return;
    this.#isStreamHeld = false;
    this.#timer.start(this.#streamLeftMs);
    this.#pump();
  }

  // Answers out.

  answer(scan: ClamdScan, text: string): void {
    if (!this.#unanswered.delete(scan)) return;
    this.#write(scan.label + text + scan.delimiter);
    if (scan === this.#stream) {
      // The rest of a content that has its answer is nobody's.
      this.#stream = null;
      this.#endWhenAnswered();
      return;
    }
    if (this.#isEnding) this.#endWhenAnswered();
    else {
      if (this.#unanswered.size === 0 && this.#stream === null) this.#timer.start(CLAMD_COMMAND_MS);
      this.#pump();
    }
  }

  onSurprise(scan: ClamdScan, error: unknown): void {
    this.#parts.onSurprise(scan.requestId, error);
  }

  #write(text: string): void {
    if (!this.#isEnded) this.#socket.write(text, 'latin1');
  }

  #endWhenAnswered(): void {
    this.#isEnding = true;
    this.#parser.stop();
    this.#isStreamHeld = false;
    if (this.#isEnded || this.#unanswered.size > 0) return;
    this.#isEnded = true;
    this.#socket.end();
    // What still comes is dropped, so that the client reads the answer before it hears of the end.
    this.#rest = null;
    this.#socket.resume();
    this.#timer.start(CLAMD_CLOSE_MS);
  }

  onDue(): void {
    const stream = this.#stream;
    if (this.#isEnded || this.#socket.writableLength > CLAMD_UNREAD_BYTES) this.destroy();
    else if (stream !== null) stream.refuse(new Failure('uploadTooSlow', `${this.#parts.streamTimeoutMs} ms`));
    else if (this.#parser.isOldOpen) this.#parser.endOld();
    else if (this.#unanswered.size === 0) {
      this.#write(`${COMMAND_TIMED_OUT}\n`);
      this.#endWhenAnswered();
    }
  }
}
