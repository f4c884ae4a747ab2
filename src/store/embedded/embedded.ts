// The embedded PostgreSQL: who has its folder, and in which order it is opened, started and ended.

import { accessSync, chmodSync, constants, mkdirSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { messageOfError } from '../../error-text.js';
import { lockDataDirectory, type Release } from '../data-lock.js';
import { codeOf, StoreError } from '../store-error.js';
import { databaseAccount } from './account.js';
import { MAJOR, POOL_CONNECTIONS, prepareRole, programs, SOCKET_PORT } from './connection.js';
import { type DatabaseFolders, databaseFolders, moveDatabase, prepareDatabaseFolder, presentFolder } from './folder.js';
import { clearLeftServer, type DatabaseServer, type StoreLog, startServer } from './server.js';

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
  readonly log?: StoreLog;
}

export interface EmbeddedFolder {
  /** Of the socket, wherever a server runs; only its account and root can enter it. */
  readonly socketDirectory: string;
  /** Starts PostgreSQL over it, made or moved to this version before if need be, or throws a StoreError. One at a time. */
  start(): Promise<DatabaseServer>;
  /** Gives the folder free. No server may run. */
  release(): Promise<void>;
}

export interface Embedded {
  readonly socketDirectory: string;
  readonly pid: number;
  readonly ended: Promise<string>;
  /** Ends it with everything on disk. Close the connections before. Acts once. */
  stop(): Promise<void>;
}

/** Where the database of a process that runs is reached. */
export function embeddedSocketDirectory(dataDirectory: string): string {
  return databaseFolders(dataDirectory).socket;
}

/** Takes DATA_DIR/postgres for this process alone, or throws a StoreError. What takes longer is left to the first start. */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedFolder> {
  const { user = null, processes = 1, log = SILENT } = options;
  prepareDataDirectory(options.dataDirectory);
  const folders = databaseFolders(realpathSync(options.dataDirectory));
  const release = await lockDataDirectory(options.dataDirectory);
  const account = await accountOrRelease(user, folders, release);
  let isPrepared = false;

  /** Makes the folder, or moves what is there to this version, if need be. */
  async function prepare(): Promise<void> {
    await clearLeftServer(presentFolder(folders), folders.socket, log);
    await prepareDatabaseFolder(folders, account, log, (from, into) =>
      moveDatabase(from, into, { folders, account, log }),
    );
    isPrepared = true;
  }

  return {
    socketDirectory: folders.socket,
    async start() {
      if (!isPrepared) await prepare();
      // Of one that was killed beside its supervisor, or by somebody else.
      await clearLeftServer(folders.current, folders.socket, log);
      // Two processes are there while one replaces another, and three for moments.
      const connections = (2 * processes + 1) * POOL_CONNECTIONS;
      const place = { folder: folders.current, port: SOCKET_PORT, programs: programs(), major: MAJOR };
      const server = await startServer({ ...place, account, connections, log });
      try {
        await prepareRole(folders.socket);
      } catch (error) {
        await server.stop();
        throw new StoreError(`The embedded database can't be used: ${messageOfError(error)}`);
      }
      return server;
    },
    release,
  };
}

async function accountOrRelease(user: string | null, folders: DatabaseFolders, release: Release) {
  try {
    return databaseAccount(user, presentFolder(folders));
  } catch (error) {
    await release();
    throw error;
  }
}

/** The same, started: for a command, a test, and a server without a supervisor. */
export async function startEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const folder = await openEmbedded(options);
  try {
    const { pid, ended, stop } = await folder.start();
    let stopping: Promise<void> | null = null;
    return {
      socketDirectory: folder.socketDirectory,
      pid,
      ended,
      stop() {
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
    mkdirSync(dataDirectory, { recursive: true, mode: 0o700 });
    const entries = readdirSync(dataDirectory);
    const isOurs = entries.length === 0 || entries.includes('postgres');
    if (isOurs && (statSync(dataDirectory).mode & SHARED) === 0) closeToOthers(dataDirectory);
    accessSync(dataDirectory, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new StoreError(`The data directory ${dataDirectory} can't be written: ${messageOfError(error)}`);
  }
}

function closeToOthers(folder: string): void {
  try {
    chmodSync(folder, 0o700);
  } catch (error) {
    if (codeOf(error) !== 'EPERM') throw error;
  }
}
