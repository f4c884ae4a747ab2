// The connection to Postgres: the same driver for DATABASE_URL and for the embedded store, migrated before it is handed out.
import postgres from 'postgres';
import { openSocketPlace } from './embedded-connection.js';
import { migrate } from './migrations.js';
import { messageOfError, StoreError } from './store-error.js';
import { within } from './within.js';

export type Sql = postgres.Sql;
/** What runs queries, inside a transaction or outside of one. */
export type Queries = postgres.ISql;
/** A part of a query, made by the same tagged template. */
export type Fragment = postgres.PendingQuery<postgres.Row[]>;

export type PostgresTarget =
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'embedded'; readonly socketDirectory: string };

export interface Postgres {
  readonly sql: Sql;
  /** Resolves when Postgres answers, rejects when it doesn't within two seconds. */
  ping(): Promise<void>;
  /** Lets running queries end for a moment, then closes every connection. */
  close(): Promise<void>;
}

/** Connections of one process; Postgres has 100 of them by default. */
const CONNECTIONS = 10;
const CONNECT_TIMEOUT_SECONDS = 10;
const PING_TIMEOUT_MS = 2_000;
const CLOSE_TIMEOUT_SECONDS = 5;

/** Opens and migrates, or throws a StoreError that says where and why, never with the password. */
export async function openPostgres(target: PostgresTarget): Promise<Postgres> {
  const { sql, place, release } = connect(target);
  try {
    await sql`SELECT 1`;
    await migrate(sql);
  } catch (error) {
    await sql.end({ timeout: 0 });
    release();
    if (error instanceof StoreError) throw error;
    throw new StoreError(`${place} can't be used: ${messageOfError(error)}`, { cause: error });
  }
  return {
    sql,
    async ping() {
      await within(sql`SELECT 1`, PING_TIMEOUT_MS);
    },
    async close() {
      await sql.end({ timeout: CLOSE_TIMEOUT_SECONDS });
      release();
    },
  };
}

function connect(target: PostgresTarget): { sql: Sql; place: string; release: () => void } {
  const common = {
    connect_timeout: CONNECT_TIMEOUT_SECONDS,
    onnotice: () => undefined,
    connection: { application_name: 'sluice' },
  };
  if (target.kind === 'url') {
    const place = placeOf(target.url);
    return { place, sql: driverOf(target.url, { ...common, max: CONNECTIONS }), release: () => undefined };
  }
  const { options, release } = openSocketPlace(target.socketDirectory);
  return { place: 'The embedded store', sql: postgres({ ...common, ...options }), release };
}

/** Host, port and database for messages. The driver's own complaint about a URL would quote it whole. */
function placeOf(url: string): string {
  if (!URL.canParse(url)) throw new StoreError('DATABASE_URL is not a valid URL');
  const { hostname, port, pathname, search, hash } = new URL(url);
  // `postgres://user:12/34@host/`: read by the letter, the password is a port and a path, and would be shown as such.
  if (`${pathname}${search}${hash}`.includes('@')) {
    throw new StoreError('DATABASE_URL has a user or a password with one of / ? # in it: write them as %2F %3F %23');
  }
  return `Postgres at ${hostname}:${port === '' ? '5432' : port}${pathname}`;
}

function driverOf(url: string, options: postgres.Options<Record<string, never>>): Sql {
  try {
    return postgres(url, options);
  } catch {
    // What was thrown may quote the URL.
    throw new StoreError('DATABASE_URL is not a URL that the Postgres driver can read');
  }
}
