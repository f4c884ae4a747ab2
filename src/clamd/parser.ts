// The bytes of one connection as commands and streams. It is pure, and takes any split of the bytes.
import { CLAMD_COMMAND_BYTES } from '../limits.js';
import { type Command, commandOf, type Delimiter } from './commands.js';

/** Who hears what the bytes say. */
export interface ParserTarget {
  onCommand(command: Command): void;
  /** A chunk of a stream begins; `sizeBytes` is above 0. */
  onChunk(sizeBytes: number): void;
  /** The caller's memory, ours only until this returns. */
  onStreamBytes(bytes: Uint8Array): void;
  onStreamEnd(): void;
  /** The byte behind FILDES, which an open file comes with. */
  onDescriptorByte(): void;
  /** A command is longer than any may be. */
  onTooLong(): void;
}

type State = 'begin' | 'new' | 'old' | 'size' | 'chunk' | 'descriptor' | 'over';

const NEWLINE = 0x0a;
const N = 0x6e;
const Z = 0x7a;
const SIZE_BYTES = 4;

export class ClamdParser {
  /** Nothing more is taken until it is false again. */
  isHeld: boolean;
  readonly #target: ParserTarget;
  #state: State;
  #delimiter: Delimiter;
  /** Of the command that isn't whole. */
  #line: Buffer | null;
  #lineBytes: number;
  #size: number;
  #sizeBytes: number;
  /** Of the chunk. */
  #leftBytes: number;

  constructor(target: ParserTarget) {
    this.isHeld = false;
    this.#target = target;
    this.#state = 'begin';
    this.#delimiter = '\n';
    this.#line = null;
    this.#lineBytes = 0;
    this.#size = 0;
    this.#sizeBytes = 0;
    this.#leftBytes = 0;
  }

  /** An old command without its newline. */
  get isOldOpen(): boolean {
    return this.#state === 'old';
  }

  /** Returns how many bytes were taken: fewer than there are when it is held. */
  write(bytes: Uint8Array): number {
    let at = 0;
    while (at < bytes.length && !this.isHeld) at += this.#take(bytes.subarray(at));
    return at;
  }

  /** The old command is over without its newline: nothing more has come. */
  endOld(): void {
    if (this.#state === 'old') this.#endLine(this.#lineSoFar(), true);
  }

  /** A stream begins; to be called from `onCommand`. */
  beginStream(): void {
    this.#state = 'size';
    this.#size = 0;
    this.#sizeBytes = 0;
  }

  /** One byte with an open file comes next; to be called from `onCommand`. */
  expectDescriptor(): void {
    this.#state = 'descriptor';
  }

  /** What comes from now on is dropped. */
  stop(): void {
    this.#state = 'over';
  }

  #take(bytes: Uint8Array): number {
    switch (this.#state) {
      case 'begin':
        return this.#begin(bytes);
      case 'new':
        return this.#takeLine(bytes, this.#delimiter === '\0' ? 0 : NEWLINE, false);
      case 'old':
        return this.#takeLine(bytes, NEWLINE, true);
      case 'size':
        return this.#takeSize(bytes);
      case 'chunk':
        return this.#takeChunk(bytes);
      case 'descriptor':
        this.#state = 'begin';
        this.#target.onDescriptorByte();
        return 1;
      case 'over':
        return bytes.length;
    }
  }

  #begin([first]: Uint8Array): number {
    this.#lineBytes = 0;
    const isNew = first === N || first === Z;
    this.#state = isNew ? 'new' : 'old';
    this.#delimiter = first === Z ? '\0' : '\n';
    return isNew ? 1 : 0;
  }

  #takeLine(bytes: Uint8Array, delimiter: number, isOld: boolean): number {
    const end = bytes.indexOf(delimiter);
    const part = end === -1 ? bytes : bytes.subarray(0, end);
    if (this.#lineBytes + part.length > CLAMD_COMMAND_BYTES) {
      this.stop();
      this.#target.onTooLong();
      return bytes.length;
    }
    if (end !== -1 && this.#line === null) {
      this.#endLine(asLatin1(part), isOld);
      return part.length + 1;
    }
    // A connection without an open command has no buffer for one: most of many do nothing.
    this.#line ??= Buffer.allocUnsafe(CLAMD_COMMAND_BYTES);
    this.#line.set(part, this.#lineBytes);
    this.#lineBytes += part.length;
    if (end === -1) return part.length;
    this.#endLine(this.#lineSoFar(), isOld);
    return part.length + 1;
  }

  #lineSoFar(): string {
    return this.#line === null ? '' : this.#line.toString('latin1', 0, this.#lineBytes);
  }

  #endLine(text: string, isOld: boolean): void {
    this.#line = null;
    const line = this.#delimiter === '\n' && text.endsWith('\r') ? text.slice(0, -1) : text;
    this.#state = 'begin';
    this.#target.onCommand(commandOf(line, this.#delimiter, isOld));
  }

  #takeSize(bytes: Uint8Array): number {
    let at = 0;
    for (; at < bytes.length && this.#sizeBytes < SIZE_BYTES; at += 1) {
      this.#size = this.#size * 256 + (bytes[at] ?? 0);
      this.#sizeBytes += 1;
    }
    if (this.#sizeBytes < SIZE_BYTES) return at;
    const size = this.#size;
    this.#size = 0;
    this.#sizeBytes = 0;
    if (size === 0) {
      this.#state = 'begin';
      this.#target.onStreamEnd();
    } else {
      this.#state = 'chunk';
      this.#leftBytes = size;
      this.#target.onChunk(size);
    }
    return at;
  }

  #takeChunk(bytes: Uint8Array): number {
    const part = bytes.subarray(0, this.#leftBytes);
    this.#leftBytes -= part.length;
    if (this.#leftBytes === 0) this.#state = 'size';
    this.#target.onStreamBytes(part);
    return part.length;
  }
}

function asLatin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}
