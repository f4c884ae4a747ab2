// The embedded PostgreSQL: who has its folders, how they are made and moved to another version of PostgreSQL, and in which order it is opened, started
// and ended.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { codeOf, messageOfError } from '../../error-text.js';
import { makeFolder } from '../../paths.js';
import { LOCK_FOLDER, lockDataDirectory, makeDataDirectory } from '../data-lock.js';
import { StoreError, StoreInUse } from '../store-error.js';
import { type DatabaseAccount, databaseAccount, giveTo } from './account.js';
import {
  clearLeftServer,
  DATABASE,
  type DatabaseServer,
  endOf,
  MAJOR,
  olderPrograms,
  POOL_CONNECTIONS,
  prepareRole,
  programs,
  ROLE,
  reasonIn,
  run,
  SOCKET_PORT,
  type StoreLog,
  SUPERUSER,
  startServer,
} from './server.js';

/** The sticky bit: a folder like /tmp, where many have files. */
const SHARED = 0o1000;
const SILENT: StoreLog = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

export interface EmbeddedOptions {
  readonly dataDirectory: string;
  /** As whom PostgreSQL runs when this process is root's; null: as nobody, or as the owner of what is there. */
  readonly user?: string | null;
  /** Server processes that use it; default 1. */
  readonly processes?: number;
  /** For `sluice restore`: until `restored` is called nobody else may open it, however this process ends. Default false. */
  readonly restores?: boolean;
  readonly log?: StoreLog;
}

/** Where the database of a process that runs is reached. */
export const embeddedSocketDirectory = (dataDirectory: string): string => databaseFolders(dataDirectory).socket;

/** Takes DATA_DIR/postgres for this process alone, or throws a StoreError. What takes longer is left to the first start. */
export async function openEmbedded(options: EmbeddedOptions) {
  const { user = null, processes = 1, restores = false, log = SILENT } = options;
  prepareDataDirectory(options.dataDirectory);
  const folders = databaseFolders(realpathSync(options.dataDirectory));
  const restoring = join(options.dataDirectory, RESTORING);
  const refuseUnfinished = (): void => {
    if (restores || !existsSync(restoring)) return;
    throw new StoreError(
      `A restore into ${options.dataDirectory} has not come to its end: give it again, or, for a service without what the backup has, remove ${restoring} and ${folders.root}`,
    );
  };
  const release = await lockDataDirectory(options.dataDirectory, log).catch((error: unknown) => {
    // What root's restore has made is root's until it ends: the service's user can't even lock it.
    if (!(error instanceof StoreInUse)) refuseUnfinished();
    throw error;
  });
  let account: DatabaseAccount;
  try {
    refuseUnfinished();
    account = databaseAccount(user, presentFolder(folders));
  } catch (error) {
    await release();
    throw error;
  }
  let isPrepared = false;

  return {
    /** Of the socket, wherever a server runs; only its account and root can enter it. */
    socketDirectory: folders.socket,
    /** Starts PostgreSQL over it, made or moved to this version before if need be, or throws a StoreError. One at a time. */
    async start(): Promise<DatabaseServer> {
      if (!isPrepared) {
        await clearLeftServer(presentFolder(folders), folders.socket, log);
        if (restores) beginRestore(folders.root, restoring);
        await prepareDatabaseFolder({ folders, account, log });
      }
      isPrepared = true;
      // Of one that was killed beside its supervisor, or by somebody else.
      await clearLeftServer(folders.current, folders.socket, log);
      // Two processes are there while one replaces another, and three for moments.
      const connections = (2 * processes + 1) * POOL_CONNECTIONS;
      const place = { folder: folders.current, port: SOCKET_PORT, programs: programs(), major: MAJOR };
      const server = await startServer({ ...place, account, connections, leavesCore: processes === 1, log });
      try {
        await prepareRole(folders.socket);
      } catch (error) {
        await server.stop();
        throw new StoreError(`The embedded database can't be used: ${messageOfError(error)}`);
      }
      return server;
    },
    restored: (): void => rmSync(restoring, { force: true }),
    /** Gives the folder free. No server may run. */
    release,
  };
}

/** The same, started: for a command, a test, and a server without a supervisor. */
export async function startEmbedded(options: EmbeddedOptions) {
  const folder = await openEmbedded(options);
  try {
    const { pid, ended, stop } = await folder.start();
    let stopping: Promise<void> | null = null;
    return {
      socketDirectory: folder.socketDirectory,
      pid,
      ended,
      restored: folder.restored,
      /** Ends it with everything on disk. Close the connections before. Acts once. */
      stop(): Promise<void> {
        stopping ??= stop().finally(() => folder.release());
        return stopping;
      },
    };
  } catch (error) {
    await folder.release();
    throw error;
  }
}

/**
 * What we put into it is closed to others in any case. The folder itself is closed too when it is ours alone. An
 * operator who names /tmp or /srv must not lose it, and we can't change a volume that belongs to root and is lent to our group.
 */
function prepareDataDirectory(dataDirectory: string): void {
  try {
    makeFolder(dataDirectory);
    const entries = readdirSync(dataDirectory);
    const isOurs = entries.length === 0 || entries.includes('postgres');
    if (isOurs && (statSync(dataDirectory).mode & SHARED) === 0) closeToOthers(dataDirectory);
  } catch (error) {
    throw new StoreError(`The data directory ${dataDirectory} can't be written: ${messageOfError(error)}`);
  }
  makeDataDirectory(dataDirectory, LOCK_FOLDER);
}

function closeToOthers(folder: string): void {
  try {
    chmodSync(folder, 0o700);
  } catch (error) {
    if (codeOf(error) !== 'EPERM') throw error;
  }
}

/** In the data folder, while `sluice restore` fills a store that it makes. */
const RESTORING = 'restoring';

/** A store that was there before stays, and has a mark of its own when its tables are found to be empty. */
function beginRestore(root: string, restoring: string): void {
  const versions = versionsIn(root);
  if (existsSync(restoring)) {
    // Of one that was stopped: no service has ever used it.
    for (const version of versions) rmSync(join(root, String(version)), { recursive: true });
  } else if (versions.length === 0) {
    writeFileSync(restoring, '', { mode: 0o600 });
  }
}

type DatabaseFolders = ReturnType<typeof databaseFolders>;

/** `root` holds the two others, and is closed to others. */
function databaseFolders(dataDirectory: string) {
  const root = join(dataDirectory, 'postgres');
  return { root, socket: join(root, 'socket'), current: join(root, String(MAJOR)) };
}

/** Where what is there lies: its owner is whom the server must run as. */
function presentFolder({ root, current }: DatabaseFolders): string {
  const [newest] = versionsIn(root);
  return newest === undefined ? current : join(root, String(newest));
}

interface Prepared {
  readonly folders: DatabaseFolders;
  readonly account: DatabaseAccount;
  readonly log: StoreLog;
}

/** Makes the folder, or moves what one of an older version holds. Throws a StoreError. */
async function prepareDatabaseFolder(prepared: Prepared): Promise<void> {
  const { folders, account, log } = prepared;
  const { root, socket, current } = folders;
  if (existsSync(join(root, 'PG_VERSION'))) {
    throw new StoreError(
      `${root} was made by an early version of Sluice, with another database (PGlite), and can't be read by this one: move it away`,
    );
  }
  makeFolder(socket);
  // Also what a backup has brought back.
  for (const path of [root, socket]) chmodSync(path, 0o700);
  giveTo(account, socket);
  const [newest, ...older] = versionsIn(root);
  if (newest !== undefined && newest > MAJOR) {
    throw new StoreError(`${root} is of PostgreSQL ${newest}, and this Sluice brings ${MAJOR}: upgrade Sluice`);
  }
  if (newest === MAJOR) {
    giveTo(account, current);
    chmodSync(current, 0o700);
    // What was moved here was whole, and the end of the move was cut off.
    for (const version of older) rmSync(join(root, String(version)), { recursive: true });
    return;
  }
  removeUnfinished(root);
  const unfinished = `${current}.${randomBytes(8).toString('hex')}${UNFINISHED}`;
  await make(unfinished, account);
  if (newest === undefined) {
    renameSync(unfinished, current);
    return;
  }
  log.warn({ from: newest, to: MAJOR }, 'the embedded database is of an older PostgreSQL: moving it to this one');
  await moveDatabase(newest, unfinished, prepared);
  renameSync(unfinished, current);
  rmSync(join(root, String(newest)), { recursive: true });
  log.warn({ from: newest, to: MAJOR }, 'the embedded database was moved');
}

/** A folder that is not whole yet. */
const UNFINISHED = '.new';

/** What starts that were killed have left. Their initdb may be at it for a moment yet: that folder stays until the next start that makes one, and no other start has its name. */
function removeUnfinished(root: string): void {
  for (const name of readdirSync(root)) {
    if (!name.endsWith(UNFINISHED)) continue;
    try {
      rmSync(join(root, name), { recursive: true, force: true });
    } catch (error) {
      if (codeOf(error) !== 'ENOTEMPTY') throw error;
    }
  }
}

/** The newest first. */
function versionsIn(root: string): number[] {
  if (!existsSync(root)) return [];
  return readdirSync(root)
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .sort((a, b) => b - a);
}

/** In the C locale: text is ordered by its bytes, on every machine. */
async function make(folder: string, account: DatabaseAccount): Promise<void> {
  mkdirSync(folder, { mode: 0o700 });
  giveTo(account, folder);
  const options = ['-U', SUPERUSER, '-A', 'trust', '-E', 'UTF8', '--no-locale', '--wal-segsize=4', '--no-instructions'];
  const child = run([...account.initdbPrefix, join(programs(), 'initdb'), '-D', folder, ...options]);
  const { end, output } = await endAndOutput(child);
  if (end === 'exit code 0') return;
  rmSync(folder, { recursive: true, force: true });
  const lines = output.split('\n').filter((line) => line !== '');
  if (output.includes('could not look up effective user ID') || output.includes('unshare: ')) {
    throw new StoreError(
      `The embedded database can't be made by ${account.name}, who has no name: add one to /etc/passwd, or set DATABASE_URL`,
    );
  }
  throw new StoreError(`The embedded database can't be made: ${reasonIn(lines.length > 0 ? lines : [end], account)}`);
}

/** Both serve at one time, in one folder of sockets. */
const OLD_PORT = SOCKET_PORT - 1;
const CONNECTIONS = 2;

/** Fills the new folder, or throws a StoreError; the old one stays as it is. */
async function moveDatabase(from: number, into: string, { folders, account, log }: Prepared): Promise<void> {
  const older = olderPrograms(from);
  if (older === null) {
    throw new StoreError(
      `${folders.root} is of PostgreSQL ${from}, and this Sluice brings ${MAJOR}: install PostgreSQL ${from} (Debian: postgresql-${from}), ` +
        'whose programs read it, and start again: that moves it',
    );
  }
  const common = { account, connections: CONNECTIONS, log };
  const servers: DatabaseServer[] = [];
  try {
    const folder = join(folders.root, String(from));
    servers.push(await startServer({ ...common, programs: older, major: from, folder, port: OLD_PORT }));
    const place = { programs: programs(), major: MAJOR, folder: into, port: SOCKET_PORT };
    servers.push(await startServer({ ...common, ...place }));
    await prepareRole(folders.socket);
    await pour(older, folders.socket);
  } finally {
    for (const server of servers) await server.stop();
  }
}

async function pour(older: string, socketDirectory: string): Promise<void> {
  // For a socket's path, as in server.ts; under our process id it is there for our children too.
  const descriptor = openSync(socketDirectory, 'r');
  try {
    const at = (port: number, user: string): string[] => {
      const host = `/proc/${process.pid}/fd/${descriptor}`;
      return ['-h', host, '-p', String(port), '-U', user, '-d', DATABASE];
    };
    const env = { LC_ALL: 'C' };
    const dumps = [...at(OLD_PORT, SUPERUSER), '--no-owner', '--no-privileges'];
    const dump = spawn(join(older, 'pg_dump'), dumps, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    // All or nothing, as the account that is to own it.
    const loads = [...at(SOCKET_PORT, ROLE), '-X', '-q', '-1', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null'];
    const load = spawn(join(older, 'psql'), loads, { env, stdio: ['pipe', 'ignore', 'pipe'] });
    const problems = await Promise.all([
      // Of its end the other two die; their own end is an end of the input for it.
      problemOf('psql', load),
      problemOf('pg_dump', dump),
      pipeline(dump.stdout, load.stdin).then(
        () => null,
        (error: unknown) => messageOfError(error),
      ),
    ]);
    const problem = problems.find((each) => each !== null);
    if (typeof problem === 'string') {
      throw new StoreError(`The embedded database can't be moved to PostgreSQL ${MAJOR}: ${problem}`);
    }
  } finally {
    closeSync(descriptor);
  }
}

async function endAndOutput(child: ChildProcess): Promise<{ readonly end: string; readonly output: string }> {
  let output = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  const end = await endOf(child);
  return { end, output };
}

/** Null: it did what it was started for. */
async function problemOf(name: string, child: ChildProcess): Promise<string | null> {
  const { end, output } = await endAndOutput(child);
  return end === 'exit code 0' ? null : `${name}: ${output === '' ? end : output.trim().replace(/\s+/g, ' ')}`;
}
