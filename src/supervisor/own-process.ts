// No file of this process's memory when it dies: it holds contents of clients and keys.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { isatty } from 'node:tty';
import { inspect } from 'node:util';
import { messageOfError } from '../error-text.js';
import type { Log } from '../log.js';
import { processAddon } from '../process-addon.js';
import { systemProgram } from '../store/embedded/account.js';

/** For good, and with what the process starts; nor a debugger. Where it can't be had the log says so, and the start goes on. */
export function setCoreDumps(wanted: 'on' | 'off', log: Log): void {
  if (wanted === 'on') return;
  // Node's own listener would open one, on a port that every user of the machine reaches.
  process.on('SIGUSR1', () => log.warn('SIGUSR1 does nothing: by itself Node would open a debugger (CORE_DUMPS)'));
  try {
    const addon = processAddon();
    if (addon === null) log.warn('core dumps are as the system has them: the addon that forbids them is not built');
    else addon.forbidCoreDumps();
  } catch (error) {
    log.warn({ reason: messageOfError(error) }, 'core dumps could not be forbidden');
  }
}

/** Frames of each error: ten are used up inside a library before the line of ours that called it. */
const STACK_FRAMES = 30;

/** Logs it and calls `end` for what can't go on: nobody knows what state it leaves. */
export function sayLastWords(log: Pick<Log, 'fatal'>, end: () => void): void {
  Error.stackTraceLimit = STACK_FRAMES;
  const die = (event: string) => (thrown: unknown) => {
    // Anything can be thrown, and only an error says where; of another value at least what it is.
    const isError = thrown instanceof Error;
    log.fatal(
      { err: isError ? thrown : new Error(`Not an error was thrown: ${inspect(thrown, { depth: 2 })}`) },
      event,
    );
    end();
  };
  process.on('uncaughtException', die('uncaught exception'));
  process.on('unhandledRejection', die('unhandled rejection'));
}

const STANDARD_STREAMS = [0, 1, 2];

/** Call at the start. Returns what says whether there was a terminal that is gone: it is none any more when its SIGHUP arrives. */
export function watchTerminal(): () => boolean {
  const onTerminal = STANDARD_STREAMS.filter((descriptor) => isatty(descriptor));
  return () => onTerminal.some((descriptor) => !isatty(descriptor));
}

/** linux/capability.h: the bit of each that may be left. */
const BITS = {
  dac_override: 1,
  /** Signatures may be readable for their owner alone, and the socket of the embedded database lies in a folder of its account. */
  dac_read_search: 2,
  fowner: 3,
  net_bind_service: 10,
  /** A scan thread that was made to wait comes back to the others. */
  sys_nice: 23,
} as const;
type Capability = keyof typeof BITS;
const SETPCAP = 8;
const ALWAYS: readonly Capability[] = ['dac_read_search', 'sys_nice'];
/** Ports below are for who may bind them. */
const FIRST_FREE_PORT = 1024;

export interface NeededRights {
  readonly dataDirectory: string;
  /** Ports that it opens by itself; 0: any. */
  readonly ports: readonly number[];
}

/** What a server process is started by; empty: it has no rights that it could lose. `problem`: why it keeps root's. */
export interface FewRights {
  readonly prefix: readonly string[];
  readonly problem: string | null;
}

/** How a process that scans is started without the capabilities that this one has. */
export function fewRights(needs: NeededRights): FewRights {
  if (process.getuid?.() !== 0 || !hasMoreThan(ALWAYS)) return { prefix: [], problem: null };
  if (!has('CapEff', SETPCAP))
    return { prefix: [], problem: 'CAP_SETPCAP is missing, without which none can be given up' };
  const setpriv = systemProgram('setpriv');
  if (setpriv === null)
    return { prefix: [], problem: 'setpriv (of util-linux), which would take them away, is not installed' };
  const kept = neededOf(needs).filter((name) => has('CapBnd', BITS[name]));
  const bound = ['-all', ...kept.map((name) => `+${name}`)].join(',');
  const prefix = [setpriv, `--bounding-set=${bound}`, '--inh-caps=-all', '--no-new-privs', '--'];
  const [program = '', ...args] = [...prefix, systemProgram('true') ?? 'true'];
  const tried = spawnSync(program, args, { encoding: 'utf8' });
  if (tried.status === 0) return { prefix, problem: null };
  return { prefix: [], problem: tried.error === undefined ? tried.stderr.trim() : messageOfError(tried.error) };
}

/** Whether this process has capabilities of root's that a scan has no need of. */
export function hasRootsRights(): boolean {
  return process.getuid?.() === 0 && hasMoreThan(Object.keys(BITS).filter(isCapability));
}

const isCapability = (name: string): name is Capability => name in BITS;

function neededOf({ dataDirectory, ports }: NeededRights): readonly Capability[] {
  const bindsPort = ports.some((port) => port > 0 && port < FIRST_FREE_PORT);
  return [
    ...ALWAYS,
    ...(bindsPort ? (['net_bind_service'] as const) : []),
    // Where another user's files are written, only root's rights over all files will do.
    ...(foldersOf(dataDirectory).some(isForeign) ? (['dac_override', 'fowner'] as const) : []),
  ];
}

/** Where a server process writes; the database's own folder is for the database alone. */
function foldersOf(dataDirectory: string): string[] {
  let folder = dataDirectory;
  while (!existsSync(folder)) folder = dirname(folder);
  if (folder !== dataDirectory) return [folder, tmpdir()];
  const entries = readdirSync(folder, { withFileTypes: true }).filter(
    (entry) => entry.isDirectory() && entry.name !== 'postgres',
  );
  return [folder, tmpdir(), ...entries.map(({ name }) => join(folder, name))];
}

/** Of another user, and not open for all. */
function isForeign(folder: string): boolean {
  const stats = statSync(folder, { throwIfNoEntry: false });
  return stats !== undefined && stats.uid !== 0 && (stats.mode & 0o003) !== 0o003;
}

function hasMoreThan(names: readonly Capability[]): boolean {
  const left = names.reduce((mask, name) => mask & ~(1n << BigInt(BITS[name])), maskOf('CapEff'));
  return left !== 0n;
}

const has = (set: 'CapEff' | 'CapBnd', bit: number): boolean => (maskOf(set) & (1n << BigInt(bit))) !== 0n;

function maskOf(set: 'CapEff' | 'CapBnd'): bigint {
  const lines = readFileSync('/proc/self/status', 'latin1').split('\n');
  const [, digits = '0'] = lines.find((line) => line.startsWith(`${set}:`))?.split('\t') ?? [];
  return BigInt(`0x${digits}`);
}
