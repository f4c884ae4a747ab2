// An embedded database that an older PostgreSQL made, put into a folder of ours: dumped by the programs of that version, and loaded.

import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { messageOfError } from '../../error-text.js';
import { StoreError } from '../store-error.js';
import type { DatabaseAccount } from './account.js';
import { DATABASE, prepareRole, ROLE, SOCKET_PORT, SUPERUSER } from './connection.js';
import type { DatabaseFolders } from './folder.js';
import { MAJOR, olderPrograms, programs } from './programs.js';
import { type DatabaseServer, endOf, type StoreLog, startServer } from './server.js';

/** Both serve at one time, in one folder of sockets. */
const OLD_PORT = SOCKET_PORT - 1;
const CONNECTIONS = 2;

export interface MoveOptions {
  readonly folders: DatabaseFolders;
  readonly account: DatabaseAccount;
  readonly log: StoreLog;
}

/** Fills the new folder, or throws a StoreError; the old one stays as it is. */
export async function moveDatabase(from: number, into: string, options: MoveOptions): Promise<void> {
  const { folders, account, log } = options;
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
  // For a socket's path, as in embedded-connection.ts; under our process id it is there for our children too.
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
      problemOf('pg_dump', dump),
      problemOf('psql', load),
      // When one of them ends early, the message of the other one is of no use.
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

/** Null: it did what it was started for. */
async function problemOf(name: string, child: ChildProcess): Promise<string | null> {
  let output = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  const end = await endOf(child);
  return end === 'exit code 0' ? null : `${name}: ${output === '' ? end : output.trim().replace(/\s+/g, ' ')}`;
}
