// Postgres as the rooms see it: the same driver for DATABASE_URL and for the embedded store, migrated before it is handed out.

import postgres from 'postgres';
import { messageOfError } from '../error-text.js';
import { within } from '../waiting/within.js';
import { type Connections, createConnections, type Driver, type OpenDriver } from './connections.js';
import { openSocketPlace, POOL_CONNECTIONS } from './embedded/connection.js';
import { migrate } from './migrations.js';
import { createPing } from './ping.js';
import { createSql, guardedSql, type Sql } from './queries.js';
import { StoreError } from './store-error.js';

export type { Fragment, Queries, Sql } from './queries.js';

export type PostgresTarget =
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'embedded'; readonly socketDirectory: string };

/** All of them share the same few connections. */
export interface Postgres {
  /** For work that nobody waits for with a request, and that has deadlines of its own. */
  readonly sql: Sql;
  /** For requests: what Postgres doesn't answer within five seconds is Failure('unavailable'). */
  readonly requests: Sql;
  /** For admission, which scans wait for: goes before all others, and one connection is always left for it. */
  readonly admission: Sql;
  /** For pages of the history, which may take seconds: they never have more than a part of the connections. */
  readonly pages: Sql;
  /** Resolves when Postgres answers, rejects when it doesn't within two seconds. All who ask within a second share one answer. */
  ping(): Promise<void>;
  /** Lets running queries end for a moment, then closes every connection. */
  close(): Promise<void>;
}

/** Connections of one process; Postgres has 100 of them by default. */
const CONNECTIONS = 10;
const CONNECT_TIMEOUT_SECONDS = 10;
/** Between two attempts to connect: the driver would wait for up to 20 seconds after a database has come back. */
const RECONNECT_SECONDS = 0.25;
const PING_TIMEOUT_MS = 2_000;
const CLOSE_TIMEOUT_SECONDS = 5;
/** Of migrations: one may take hours, and a process that starts beside it waits for it. */
const MIGRATION_MS = 24 * 3_600_000;
/** Each is a request with its own room in memory, some kilobytes. */
const REQUESTS_WAITING = 1_000;
const PAGES_WAITING = 200;
/** Background work, look-ups of keys and pings are few by their own bounds; direct counts wait one for each scan. */
const OTHERS_WAITING = 2_000;
/** Nobody asks for it with a request. */
const BEHIND_WAIT_MS = 60_000;

/** Opens and migrates, or throws a StoreError that says where and why, never with the password. */
export async function openPostgres(target: PostgresTarget): Promise<Postgres> {
  const { open, size, place, release } = connect(target);
  const connections = createConnections({ open, size });
  try {
    return await handOut(connections, { template: open(() => undefined), size, release });
  } catch (error) {
    await connections.close(0);
    release();
    if (error instanceof StoreError) throw error;
    throw new StoreError(`${place} can't be used: ${messageOfError(error)}`, { cause: error });
  }
}

async function handOut(
  connections: Connections,
  { template, size, release }: { readonly template: Driver; readonly size: number; readonly release: () => void },
): Promise<Postgres> {
  // One connection is always left for what comes first, and requests leave another one for what comes after them.
  const spare = 1;
  const part = (connections: number): number => Math.max(1, Math.floor(connections));
  const urgent = createSql(template, connections.lane({ connections: size, spare: 0, waiting: OTHERS_WAITING }));
  const requests = connections.lane({ connections: part(size - 2), spare, waiting: REQUESTS_WAITING });
  const behind = connections.lane({ connections: size, spare, waiting: OTHERS_WAITING, waitMs: BEHIND_WAIT_MS });
  const pages = connections.lane({ connections: part(size / 3), spare, waiting: PAGES_WAITING });
  const patient = connections.lane({ connections: 1, spare: 0, waiting: 1, hangMs: MIGRATION_MS });
  await urgent`SELECT 1`;
  await migrate(createSql(template, patient));
  return {
    sql: createSql(template, behind),
    requests: guardedSql(template, requests),
    admission: urgent,
    pages: createSql(template, pages),
    ping: createPing(async () => {
      await within(urgent`SELECT 1`, PING_TIMEOUT_MS);
    }),
    async close() {
      await connections.close(CLOSE_TIMEOUT_SECONDS);
      release();
    },
  };
}

interface Place {
  readonly open: OpenDriver;
  /** Connections of this process. */
  readonly size: number;
  /** For messages. */
  readonly place: string;
  /** When the connections are closed. */
  readonly release: () => void;
}

function connect(target: PostgresTarget): Place {
  const common = {
    max: 1,
    // A connection that ends by itself would end inside a transaction: connections.ts makes new ones from time to time.
    max_lifetime: null,
    backoff: () => RECONNECT_SECONDS,
    connect_timeout: CONNECT_TIMEOUT_SECONDS,
    onnotice: () => undefined,
    connection: { application_name: 'sluice' },
  };
  if (target.kind === 'url') {
    const place = placeOf(target.url);
    const open: OpenDriver = (onclose) => driverOf(target.url, { ...common, onclose });
    return { place, size: CONNECTIONS, open, release: () => undefined };
  }
  const { options, release } = openSocketPlace(target.socketDirectory);
  const open: OpenDriver = (onclose) => postgres({ ...common, ...options, onclose });
  return { place: 'The embedded store', size: POOL_CONNECTIONS, open, release };
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

function driverOf(url: string, options: postgres.Options<Record<string, never>>): Driver {
  try {
    return postgres(url, options);
  } catch {
    // What was thrown may quote the URL.
    throw new StoreError('DATABASE_URL is not a URL that the Postgres driver can read');
  }
}
