// `sluice clamd-config FILE`: our variables for a clamd.conf, and what of it has no counterpart.
import { readFileSync } from 'node:fs';
import { table } from '../config/variables.js';
import { messageOfError } from '../error-text.js';
import { EXIT_CLEAN, EXIT_FAILED } from './output.js';

type ClamdSetting = keyof typeof table;

interface Counterpart {
  readonly setting: ClamdSetting;
  /** Of its text; null: it can't be said so. */
  readonly read: (value: string) => string | null;
}

const asIs = (value: string): string => value;
const MIB = 1024 * 1024;
const UNITS: Readonly<Record<string, number>> = { '': 1, K: 1024, M: MIB, G: 1024 * MIB };

/** Sizes of clamd.conf, such as 25M; in whole MB, no less. */
function megabytes(value: string): string | null {
  const [, count = '', unit = ''] = /^(\d{1,12})([KMG]?)$/i.exec(value) ?? [];
  const bytes = Number(count) * (UNITS[unit.toUpperCase()] ?? 0);
  return bytes === 0 ? null : String(Math.ceil(bytes / MIB));
}

/** Nobody may execute a socket, or sets bits on it. */
const mode = (value: string): string | null => (/^0?[0-7]{3}$/.test(value) ? value.slice(-3) : null);

const unlessZero = (value: string): string | null => (value === '0' ? null : value);

const counterparts: Readonly<Record<string, Counterpart>> = {
  LocalSocket: { setting: 'clamdSocket', read: asIs },
  LocalSocketMode: { setting: 'clamdSocketMode', read: mode },
  LocalSocketGroup: { setting: 'clamdSocketGroup', read: asIs },
  TCPSocket: { setting: 'clamdPort', read: asIs },
  StreamMaxLength: { setting: 'streamMaxBytes', read: megabytes },
  DatabaseDirectory: { setting: 'signaturesDir', read: asIs },
  SelfCheck: { setting: 'signaturesPollMs', read: asIs },
  MaxScanTime: { setting: 'scanTimeoutMs', read: unlessZero },
  MaxScanSize: { setting: 'maxScanSizeBytes', read: megabytes },
  MaxFiles: { setting: 'maxFiles', read: unlessZero },
  MaxQueue: { setting: 'scanQueue', read: asIs },
};

const ENCRYPTED = 'ENCRYPTED_ARCHIVES=reject makes an ERROR of it';

/** What is known of those without a variable. */
const reasons: Readonly<Record<string, string>> = {
  TCPAddr: 'the port is that of 127.0.0.1; CLAMD_ALLOW_NETWORKS opens it for networks that you name',
  MaxThreads: 'there are as many threads as cores; SCAN_THREADS is another number',
  MaxConnectionQueueLength: 'it is that of the system',
  MaxFileSize: 'what is over STREAM_MAX_MB or SCAN_MAX_SIZE_MB is an ERROR, never OK',
  AlertExceedsMax: 'what is over a limit is an ERROR, never OK',
  AlertEncrypted: ENCRYPTED,
  AlertEncryptedArchive: ENCRYPTED,
  AlertEncryptedDoc: ENCRYPTED,
  ArchiveBlockEncrypted: ENCRYPTED,
  ExcludePath: 'CLAMD_PATHS says what may be looked at',
  MaxDirectoryRecursion: 'folders are looked at 15 deep',
  VirusEvent: 'a webhook says what was found',
  User: 'it runs as the user that starts it',
  LogFile: 'the log goes to standard output',
  LogSyslog: 'the log goes to standard output',
  PidFile: 'what starts it knows its process',
  Foreground: 'it always runs in the foreground',
  FixStaleSocket: 'a socket that nobody serves is always replaced',
  DisableCache: 'VERDICT_CACHE_MB=0 says the same',
  IdleTimeout: 'a connection has 30 s for its next command',
  ReadTimeout: 'a stream has UPLOAD_TIMEOUT_MS',
  CommandReadTimeout: 'a connection has 30 s for its next command',
  Example: 'clamd does not start with it',
};

export function configFromClamd(path: string): number {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    process.stderr.write(`${messageOfError(error)}\n`);
    return EXIT_FAILED;
  }
  process.stdout.write(translated(text));
  return EXIT_CLEAN;
}

/** A file of environment variables; what is not one is a comment in it. */
export function translated(text: string): string {
  const known: string[] = [];
  const unknown: string[] = [];
  for (const line of text.split('\n')) {
    const [, option = '', quoted = ''] = /^\s*([A-Za-z0-9]{1,64})(?:[ \t]+(\S.*))?$/.exec(line.trimEnd()) ?? [];
    if (option === '') continue;
    const value = quoted.replace(/^"(.*)"$/, '$1');
    const variable = variableOf(option, value);
    if (variable === null) unknown.push(`# ${option} ${value}: ${whyNone(option)}`);
    else known.push(variable);
  }
  const saysAddress = unknown.some((line) => line.startsWith('# TCPAddr '));
  if (!saysAddress && known.some((line) => line.startsWith('CLAMD_PORT='))) {
    unknown.push(`# TCPAddr is not there, which is every address for clamd: ${reasons['TCPAddr']}`);
  }
  const account =
    '# CLAMD_ACCOUNT=   the e-mail address of the account that scans are counted and recorded for: needed';
  return `${[...known, account, ...unknown].join('\n')}\n`;
}

const counterpartOf = (option: string): Counterpart | undefined =>
  Object.hasOwn(counterparts, option) ? counterparts[option] : undefined;

function whyNone(option: string): string {
  const reason = Object.hasOwn(reasons, option) ? reasons[option] : undefined;
  if (reason !== undefined) return reason;
  const counterpart = counterpartOf(option);
  return counterpart === undefined ? 'no counterpart' : `${table[counterpart.setting].name} does not take it`;
}

/** Null: there is no such variable, or it doesn't take that value. */
function variableOf(option: string, value: string): string | null {
  const counterpart = counterpartOf(option);
  const text = counterpart?.read(value) ?? null;
  if (counterpart === undefined || text === null) return null;
  const { name, schema } = table[counterpart.setting];
  return schema.safeParse(text).success ? `${name}=${text}` : null;
}
