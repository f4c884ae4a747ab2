// The folder of the embedded database: made whole or not at all, named by the version of PostgreSQL that made it, and moved to a newer one.
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { StoreError } from '../store-error.js';
import { type DatabaseAccount, giveTo } from './account.js';
import { SUPERUSER } from './connection.js';
import { MAJOR, programs } from './programs.js';
import { endOf, reasonIn, run, type StoreLog } from './server.js';

export interface DatabaseFolders {
  /** Holds the two others, and is closed to others. */
  readonly root: string;
  readonly socket: string;
  readonly current: string;
}

export function databaseFolders(dataDirectory: string): DatabaseFolders {
  const root = join(dataDirectory, 'postgres');
  return { root, socket: join(root, 'socket'), current: join(root, String(MAJOR)) };
}

/** Where what is there lies: its owner is whom the server must run as. */
export function presentFolder({ root, current }: DatabaseFolders): string {
  const [newest] = versionsIn(root);
  return newest === undefined ? current : join(root, String(newest));
}

type FolderMove = (from: number, folder: string) => Promise<void>;

/** `move`: fills a folder of ours with what one of an older version holds. Throws a StoreError. */
export async function prepareDatabaseFolder(
  folders: DatabaseFolders,
  account: DatabaseAccount,
  log: StoreLog,
  move: FolderMove,
): Promise<void> {
  const { root, socket, current } = folders;
  if (existsSync(join(root, 'PG_VERSION'))) {
    throw new StoreError(
      `${root} was made by an early version of Sluice, with another database (PGlite), and can't be read by this one: move it away`,
    );
  }
  mkdirSync(socket, { recursive: true, mode: 0o700 });
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
  const unfinished = `${current}.new`;
  rmSync(unfinished, { recursive: true, force: true });
  await make(unfinished, account);
  if (newest === undefined) {
    renameSync(unfinished, current);
    return;
  }
  log.warn({ from: newest, to: MAJOR }, 'the embedded database is of an older PostgreSQL: moving it to this one');
  await move(newest, unfinished);
  renameSync(unfinished, current);
  rmSync(join(root, String(newest)), { recursive: true });
  log.warn({ from: newest, to: MAJOR }, 'the embedded database was moved');
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
  let output = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  const end = await endOf(child);
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
