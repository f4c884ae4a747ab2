// The commands of clamd's protocol: which there are, how a line is read, and what is answered without a scan. Lines are Latin-1, so that every byte of a path comes back.
import type { Engine } from '../engine/engine.js';

/** What may begin with `n` or `z` only. */
const NEW_ONLY = ['VERSIONCOMMANDS', 'STATS', 'IDSESSION', 'INSTREAM', 'END'] as const;
const EITHER = ['PING', 'VERSION', 'RELOAD', 'SHUTDOWN', 'QUIT', 'FILDES', 'DETSTATS', 'DETSTATSCLEAR'] as const;
const WITH_PATH = ['SCAN', 'CONTSCAN', 'MULTISCAN', 'ALLMATCHSCAN'] as const;

export type Word = (typeof NEW_ONLY)[number] | (typeof EITHER)[number];
export type Delimiter = '\n' | '\0';

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
export function commandOf(line: string, delimiter: Delimiter, isOld: boolean): Command {
  const kind = (isOld ? inAnyFraming : inNewFraming).get(line);
  if (kind !== undefined) return { kind, delimiter, isOld };
  const word = WITH_PATH.find((each) => line.length > each.length && line.startsWith(each));
  // As clamd: whatever stands behind the word counts as its blank.
  if (word !== undefined) return { kind: 'path', word, path: line.slice(word.length + 1), delimiter, isOld };
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

export function versionCommands(version: string): string {
  return `${version.split('/', 1)[0]}| COMMANDS: ${SUPPORTED}`;
}

/** `ClamAV 1.4.6/27000/Fri Nov 20 08:00:00 2026`, or without signatures of a daily database only the beginning. */
export function versionOf({ engineVersion, signatureVersion, dailyBuiltAt }: VersionFacts): string {
  const daily = /\bdaily:(\d+)/.exec(signatureVersion)?.[1];
  const engine = `ClamAV ${engineVersion}`;
  return daily === undefined || dailyBuiltAt === null ? engine : `${engine}/${daily}/${timeOf(dailyBuiltAt)}`;
}

export type VersionFacts = Pick<Engine, 'engineVersion' | 'signatureVersion' | 'dailyBuiltAt'>;

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
  const idle = Math.max(0, threads - running);
  return [
    'POOLS: 1',
    '',
    'STATE: VALID PRIMARY',
    `THREADS: live ${running}  idle ${idle} max ${threads} idle-timeout 30`,
    `QUEUE: ${waiting} items`,
    '',
    'MEMSTATS: heap N/A mmap N/A used N/A free N/A releasable N/A pools 1 pools_used 0.000M pools_total 0.000M',
    'END',
  ].join('\n');
}
