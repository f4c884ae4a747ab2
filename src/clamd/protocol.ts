// clamd's protocol: which commands there are, how they and the chunks of a stream are read, as pure functions of bytes, and what is answered without a scan. Lines are Latin-1, so that every byte of a path comes back.
import type { Engine } from '../engine/engine.js';
import { CLAMD_COMMAND_BYTES, PARSED_AT_ONCE } from '../limits.js';

/** What may begin with `n` or `z` only. */
const NEW_ONLY = ['VERSIONCOMMANDS', 'STATS', 'IDSESSION', 'INSTREAM', 'END'] as const;
const EITHER = ['PING', 'VERSION', 'RELOAD', 'SHUTDOWN', 'QUIT', 'FILDES', 'DETSTATS', 'DETSTATSCLEAR'] as const;
const WITH_PATH = ['SCAN', 'CONTSCAN', 'MULTISCAN', 'ALLMATCHSCAN'] as const;
/** Of these, what may begin with `n` or `z` only. */
const NEW_ONLY_WITH_PATH: string = 'ALLMATCHSCAN';

type Word = (typeof NEW_ONLY)[number] | (typeof EITHER)[number];
type Delimiter = '\n' | '\0';

interface Framed {
  readonly delimiter: Delimiter;
  /** Without `n` or `z`. */
  readonly isOld: boolean;
}

export type PathWord = (typeof WITH_PATH)[number];

export type Command = Framed &
  (
    | { readonly kind: Word }
    | { readonly kind: 'path'; readonly word: PathWord; readonly path: string }
    | { readonly kind: 'unknown' }
  );

const inAnyFraming = new Map<string, Word>(EITHER.map((word) => [word, word]));
const inNewFraming = new Map<string, Word>([...EITHER, ...NEW_ONLY].map((word) => [word, word]));

/** `line`: without framing and delimiter. */
function commandOf(line: string, delimiter: Delimiter, isOld: boolean): Command {
  const kind = (isOld ? inAnyFraming : inNewFraming).get(line);
  if (kind !== undefined) return { kind, delimiter, isOld };
  const word = WITH_PATH.find((each) => line.length > each.length && line.startsWith(each));
  // As clamd: whatever stands behind the word counts as its blank.
  const isKnown = word !== undefined && !(isOld && word === NEW_ONLY_WITH_PATH);
  if (isKnown) return { kind: 'path', word, path: line.slice(word.length + 1), delimiter, isOld };
  return { kind: 'unknown', delimiter, isOld };
}

export const UNKNOWN = 'UNKNOWN COMMAND';
export const INVALID_IN_SESSION = 'Command invalid inside IDSESSION. ERROR';
export const OLD_IN_SESSION = [
  'Only nCMDS\\n and zCMDS\\0 are accepted inside IDSESSION. ERROR',
  'Error processing command. ERROR',
] as const;
export const COMMAND_TIMED_OUT = 'COMMAND READ TIMED OUT';
export const STREAM_TOO_LARGE = 'INSTREAM size limit exceeded. ERROR';
/** For what nobody may ask for here. */
export const NOT_AVAILABLE = 'COMMAND UNAVAILABLE';
export const NO_DESCRIPTOR = 'No file descriptor received. ERROR';
export const UNASKED_DESCRIPTOR = [
  'PROTOCOL ERROR: ancillary data sent without FILDES. ERROR',
  'Error processing command. ERROR',
] as const;

/** Why no file is looked at there. */
export function pathRefused(path: string, reason: string): string {
  return `${path}: File path check failure: ${reason}. ERROR`;
}

/** What clients read the supported commands from: those of clamd, without what isn't there. */
const SUPPORTED =
  'SCAN RELOAD PING CONTSCAN VERSIONCOMMANDS VERSION END MULTISCAN FILDES STATS IDSESSION INSTREAM DETSTATSCLEAR DETSTATS ALLMATCHSCAN';

export const versionCommands = (version: string): string => `${version.split('/', 1)[0]}| COMMANDS: ${SUPPORTED}`;

/** `ClamAV 1.4.6/27000/Fri Nov 20 08:00:00 2026`, or without signatures of a daily database only the beginning. */
export function versionOf({ engineVersion, signatureVersion, dailyBuiltAt }: VersionFacts): string {
  const daily = /\bdaily:(\d+)/.exec(signatureVersion)?.[1];
  const engine = `ClamAV ${engineVersion}`;
  return daily === undefined || dailyBuiltAt === null ? engine : `${engine}/${daily}/${timeOf(dailyBuiltAt)}`;
}

type VersionFacts = Pick<Engine, 'engineVersion' | 'signatureVersion' | 'dailyBuiltAt'>;

/** As ctime(3) writes it, in local time. */
function timeOf(epochSeconds: number): string {
  const date = new Date(epochSeconds * 1000);
  const [day = '', month = ''] = date.toDateString().split(' ');
  const two = (value: number): string => String(value).padStart(2, '0');
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':');
  return `${day} ${month} ${String(date.getDate()).padStart(2, ' ')} ${time} ${date.getFullYear()}`;
}

export interface PoolFacts {
  readonly running: number;
  readonly threads: number;
  readonly waiting: number;
}

/** What clamdtop draws. Memory of the engine isn't counted by clamd's pools here: N/A, as clamd says where it can't tell. */
export function statsOf({ running, threads, waiting }: PoolFacts): string {
  // As clamd counts: those that live are those that scan and those that are idle.
  const live = Math.max(threads, running);
  return [
    'POOLS: 1',
    '',
    'STATE: VALID PRIMARY',
    `THREADS: live ${live}  idle ${live - running} max ${live} idle-timeout 30`,
    `QUEUE: ${waiting} items`,
    '',
    'MEMSTATS: heap N/A mmap N/A used N/A free N/A releasable N/A pools 1 pools_used 0.000M pools_total 0.000M',
    'END',
  ].join('\n');
}

/** Who hears what the bytes say. */
export interface ClamdParserTarget {
  onCommand(command: Command): void;
  /** A chunk of a stream begins; `sizeBytes` is above 0. */
  onChunk(sizeBytes: number): void;
  /** The caller's memory, ours only until this returns. */
  onStreamBytes(bytes: Uint8Array): void;
  onStreamEnd(): void;
  /** The byte behind FILDES, which an open file comes with. */
  onDescriptorByte(): void;
  onTooLong(): void;
}

type ClamdState = 'begin' | 'new' | 'old' | 'size' | 'chunk' | 'descriptor' | 'over';

const NEWLINE = 0x0a;
const N = 0x6e;
const Z = 0x7a;
const SIZE_BYTES = 4;

export class ClamdParser {
  /** Nothing more is taken until it is false again: so it is behind each command. */
  isHeld = false;
  readonly #target: ClamdParserTarget;
  #state: ClamdState = 'begin';
  #delimiter: Delimiter = '\n';
  /** Of the command that isn't whole. */
  #line: Buffer | null = null;
  #lineBytes = 0;
  #size = 0;
  #sizeBytes = 0;
  /** Of the chunk. */
  #leftBytes = 0;

  constructor(target: ClamdParserTarget) {
    this.#target = target;
  }

  /** An old command without its newline. */
  get isOldOpen(): boolean {
    return this.#state === 'old';
  }

  /** Returns how many bytes were taken: fewer than there are when it is held, or has taken PARSED_AT_ONCE things. */
  write(bytes: Uint8Array): number {
    let at = 0;
    for (let count = 0; at < bytes.length && !this.isHeld && count < PARSED_AT_ONCE; count += 1) {
      at += this.#take(bytes.subarray(at));
    }
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
    // As clamd, where it is a text of C; one with `z` ends with its NUL.
    const [whole = ''] = text.split('\0', 1);
    const line = this.#delimiter === '\n' && whole.endsWith('\r') ? whole.slice(0, -1) : whole;
    this.#state = 'begin';
    this.isHeld = true;
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
