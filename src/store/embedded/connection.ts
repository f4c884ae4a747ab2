// Connections to the embedded PostgreSQL: through its socket, as an account of the database that owns our tables and nothing else.
import { closeSync, openSync } from 'node:fs';
import postgres from 'postgres';

/** Of one server process: each is a process of the database as well, of some megabytes. */
export const POOL_CONNECTIONS = 4;
export const SOCKET_PORT = 5432;
export const DATABASE = 'postgres';
/** What a query can do, an injected one too, is bounded by it: no programs, no files. */
export const ROLE = 'sluice';
export const SUPERUSER = 'postgres';

export interface SocketPlace {
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
