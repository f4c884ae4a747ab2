// One run of PostgreSQL as a child of this process: started, listened to, and ended in order.

import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOfError } from '../../error-text.js';
import type { Log } from '../../log.js';
import { endsWithin } from '../../waiting/within.js';
import { StoreError } from '../store-error.js';
import { type DatabaseAccount, SYSTEM_PATH } from './account.js';
import { MAJOR } from './programs.js';

export type StoreLog = Pick<Log, 'debug' | 'info' | 'warn' | 'error'>;

export interface ServerOptions {
  readonly account: DatabaseAccount;
  /** Of the `postgres` program, and of which version it is. */
  readonly programs: string;
  readonly major: number;
  /** Its data folder; its socket is in `../socket`. */
  readonly folder: string;
  readonly port: number;
  readonly connections: number;
  readonly log: StoreLog;
}

export interface DatabaseServer {
  readonly pid: number;
  /** Resolves with how it has ended, in words. */
  readonly ended: Promise<string>;
  /** Ends it with everything in its files; resolves when it is gone. */
  stop(): Promise<void>;
}

/** Beside the connection pools: for commands, and for us. */
const SPARE_CONNECTIONS = 10;
/** Each takes so long at the most: a checkpoint of the small memory it has, an end at once, the kernel. */
const FAST_STOP_MS = 30_000;
const IMMEDIATE_STOP_MS = 5_000;
/** Processes of a database server that was killed notice it at the end of their statement. */
const LEFT_PROCESSES_MS = 15_000;
const RETRY_MS = 100;
const LINES_KEPT = 20;

/** What it is given beside its defaults, of which fsync is one. */
function settingsOf({ port, connections, major }: ServerOptions): string[] {
  return [
    'listen_addresses=',
    'unix_socket_directories=../socket',
    'unix_socket_permissions=0700',
    `port=${port}`,
    `max_connections=${connections + SPARE_CONNECTIONS}`,
    // Small: the kernel's page cache holds the rest, and one machine's scans are all that it serves.
    'shared_buffers=16MB',
    'maintenance_work_mem=16MB',
    'max_wal_size=256MB',
    // No replicas, no parallel queries: their processes would only wait.
    'wal_level=minimal',
    'max_wal_senders=0',
    'max_worker_processes=0',
    'max_parallel_workers=0',
    'max_logical_replication_workers=0',
    'autovacuum_max_workers=1',
    ...(major >= MAJOR ? ['io_method=sync', 'autovacuum_worker_slots=1'] : []),
    // Statements and what they contain stay out of the log: the service says what failed for it.
    'log_min_messages=log',
    'log_min_error_statement=panic',
    'log_checkpoints=off',
    'log_line_prefix=',
    'logging_collector=off',
    'log_destination=stderr',
  ];
}

/** Resolves when it takes connections, or rejects with a StoreError that says what it said. */
export async function startServer(options: ServerOptions): Promise<DatabaseServer> {
  const deadlineMs = performance.now() + LEFT_PROCESSES_MS;
  for (;;) {
    const start = await tryStart(options);
    if (start.started) return start.server;
    const isHeld = start.lines.some((line) => line.includes('pre-existing shared memory block'));
    if (!isHeld || performance.now() > deadlineMs) {
      throw new StoreError(`The embedded database can't be started: ${reasonIn(start.lines, options.account)}`);
    }
    await delay(RETRY_MS);
  }
}

type Start =
  | { readonly started: true; readonly server: DatabaseServer }
  | { readonly started: false; readonly lines: readonly string[] };

async function tryStart(options: ServerOptions): Promise<Start> {
  const { account, folder, programs, log } = options;
  const args = ['-D', folder, ...settingsOf(options).flatMap((setting) => ['-c', setting])];
  const child = run([...account.prefix, join(programs, 'postgres'), ...args]);
  const lines: string[] = [];
  let serves: () => void = () => undefined;
  const ready = new Promise<true>((resolve) => {
    serves = () => resolve(true);
  });
  const tell = teller(log);
  if (child.stderr !== null) {
    createInterface({ input: child.stderr }).on('line', (line) => {
      lines.push(line);
      if (lines.length > LINES_KEPT) lines.shift();
      tell(line);
      if (line.includes('database system is ready to accept connections')) serves();
    });
  }
  const ended = endOf(child);
  const first = await Promise.race([ready, ended]);
  if (first !== true || child.pid === undefined) return { started: false, lines: [...lines, String(first)] };
  return { started: true, server: { pid: child.pid, ended, stop: () => stop(child, ended, log) } };
}

/** A group of its own: what a terminal sends to all is not for it, since the servers need it to the end. */
export function run([program = '', ...args]: readonly string[]): ChildProcess {
  return spawn(program, args, {
    cwd: '/',
    // Nothing of ours: passwords are in there.
    env: { PATH: SYSTEM_PATH, LC_ALL: 'C', TZ: 'UTC' },
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
  });
}

/** Resolves when its output has been read as well. */
export function endOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', (error) => {
      if (child.pid === undefined) resolve(messageOfError(error));
    });
    child.once('close', (code, signal) => resolve(signal === null ? `exit code ${code}` : signal));
  });
}

async function stop(child: ChildProcess, ended: Promise<string>, log: StoreLog): Promise<void> {
  child.kill('SIGINT');
  if (await endsWithin(ended, FAST_STOP_MS)) return;
  log.error('the embedded database does not stop in order: ending it at once, the next start repairs what that leaves');
  child.kill('SIGQUIT');
  if (await endsWithin(ended, IMMEDIATE_STOP_MS)) return;
  child.kill('SIGKILL');
  await ended;
}

/** Lines about a crash and the recovery from it. */
const NOTABLE = /interrupted|not properly shut down|recovery|redo |terminated by|reinitializing|exited with exit code/;
/** The logical order is the server's own: the lines behind one belong to it. */
const LEVEL = /^(DEBUG\d?|INFO|NOTICE|LOG|WARNING|ERROR|FATAL|PANIC): {2}/;

/** Passes its log on, a line at a time. */
function teller(log: StoreLog): (line: string) => void {
  let level: 'debug' | 'warn' | 'error' = 'debug';
  return (line) => {
    const severity = LEVEL.exec(line)?.[1];
    if (severity === 'LOG') level = NOTABLE.test(line) ? 'warn' : 'debug';
    else if (severity === 'PANIC') level = 'error';
    else if (severity !== undefined) level = 'warn';
    log[level]({ line }, 'embedded database');
  };
}

/** In one line, what a program of PostgreSQL said before it ended. */
export function reasonIn(lines: readonly string[], account: DatabaseAccount): string {
  const relevant = lines.filter((line) => /(FATAL|PANIC|HINT|DETAIL|[a-z]+: (error|fatal|hint)): /i.test(line));
  const own = lines.find((line) => /^(setpriv|unshare): /.test(line));
  if (own !== undefined) {
    return `PostgreSQL can't run as ${account.name} (${own}): start Sluice as another user, or set DATABASE_URL`;
  }
  return (relevant.length > 0 ? relevant : lines).join(' ').replace(/\s+/g, ' ');
}
