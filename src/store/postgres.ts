// Postgres as the rooms see it: the same driver for DATABASE_URL and for the embedded store, migrated before it is handed out. Migrations are ordered sections of SQL files, a
// file for each subject. Each is applied once in a transaction of its own, even when several processes start at once. Numbers may be left out: a branch has its own before it is merged.

import { hash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import postgres from 'postgres';
import { databasePlaceOf } from '../config/store-places.js';
import { messageOfError } from '../error-text.js';
import type { Log } from '../log.js';
import { migrationsDirectory } from '../paths.js';
import { sharedFor, within } from '../waiting/within.js';
import { openSocketPlace, POOL_CONNECTIONS } from './embedded/server.js';
import {
  createConnections,
  createSql,
  type Driver,
  type OpenDriver,
  type PostgresConnections,
  type Queries,
  type Sql,
} from './queries.js';
import { guarded, StoreError } from './store-error.js';

export type { Fragment, Queries, Sql, SqlOf } from './queries.js';

export type PostgresTarget = (
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'embedded'; readonly socketDirectory: string }
) & {
  /** Whether our tables may be made in a database that has none; default true. */
  readonly mayBeEmpty?: boolean;
  /** The version that its tables are brought to; default: the newest. */
  readonly version?: number;
  /** For `sluice restore`: nobody else may open what has the mark of one that has not come to its end. Default false. */
  readonly restores?: boolean;
  /** Hears of migrations, which may take long, and of an encoding that won't do; default: nobody. */
  readonly log?: MigrationLog;
};

type MigrationLog = Pick<Log, 'info' | 'warn'>;

/** Connections of one process; Postgres has 100 of them by default. */
const CONNECTIONS = 10;
const CONNECT_TIMEOUT_SECONDS = 10;
/** Between two attempts to connect: the driver would wait for up to 20 seconds after a database has come back. */
const RECONNECT_SECONDS = 0.25;
const PING_TIMEOUT_MS = 2_000;
const PING_SHARED_MS = 1_000;
const CLOSE_TIMEOUT_SECONDS = 5;
/** Of migrations: one may take hours, and a process that starts beside it waits for it. */
const MIGRATION_MS = 24 * 3_600_000;
/** Each is a request with its own room in memory, some kilobytes. */
const REQUESTS_WAITING = 1_000;
/** Background work, look-ups of keys and pings are few by their own bounds; direct counts wait one for each scan. */
const OTHERS_WAITING = 2_000;
/** Nobody asks for it with a request. */
const BEHIND_WAIT_MS = 60_000;

const ENCODING = 'UTF8';

export type Postgres = Awaited<ReturnType<typeof openPostgres>>;

/** Opens and migrates, or throws a StoreError that says where and why, never with the password. */
export async function openPostgres(target: PostgresTarget) {
  const { open, prepareNothing, size, place, release } = connect(target);
  const connections = createConnections({
    ...{ open, size, onRefused: tellOfRefused(target.log) },
    onLostStatement(error) {
      if (!prepareNothing()) return;
      const todo = 'put ?prepare=false behind DATABASE_URL';
      target.log?.warn(
        { reason: messageOfError(error), todo },
        'a pooler mixes up connections: no statement is prepared any more',
      );
    },
  });
  try {
    return await handOut(connections, { template: open(() => undefined), size, place, release, ...target });
  } catch (error) {
    await connections.close(0);
    release();
    if (error instanceof StoreError) throw error;
    throw new StoreError(`${place} can't be used: ${messageOfError(error)}`, { cause: error });
  }
}

/** It may be asked for again every few seconds. */
const REFUSED_TOLD_MS = 60_000;

function tellOfRefused(log: MigrationLog | undefined): (error: unknown, left: number) => void {
  let toldMs = -Infinity;
  return (error, left) => {
    if (performance.now() - toldMs < REFUSED_TOLD_MS) return;
    toldMs = performance.now();
    const reason = messageOfError(error);
    log?.warn(
      { reason, connections: left },
      'the database takes fewer connections than are wanted: requests wait longer',
    );
  };
}

type HandedOut = Omit<ReturnType<typeof connect>, 'open' | 'prepareNothing'> &
  Pick<PostgresTarget, 'mayBeEmpty' | 'version' | 'restores' | 'log'> & { readonly template: Driver };

/** All that it returns share the same few connections. */
async function handOut(
  connections: PostgresConnections,
  { template, size, place, release, mayBeEmpty = true, version, restores = false, log }: HandedOut,
) {
  // One connection is always left for what comes first, and requests leave another one for what comes after them.
  const spare = 1;
  const urgent = createSql(template, connections.lane({ running: size, spare: 0, waiting: OTHERS_WAITING }));
  const requests = connections.lane({ ...shared(size - 2, REQUESTS_WAITING), spare });
  const behind = connections.lane({ running: size, spare, waiting: OTHERS_WAITING, waitMs: BEHIND_WAIT_MS });
  const pages = connections.lane({ ...shared(size / 2, REQUESTS_WAITING), spare });
  const patient = connections.lane({ running: 1, spare: 0, waiting: 1, hangMs: MIGRATION_MS });
  const isMade = await hasTable(urgent, 'schema_migrations');
  await lookAtEncoding(urgent, { place, isMade, log });
  if (restores && !isMade) await markRestore(urgent);
  if (!restores && (await hasTable(urgent, RESTORING))) {
    throw new StoreError(
      `${place}: a restore into it has not come to its end: give it again, or take an empty database`,
    );
  }
  if (!mayBeEmpty && !isMade) {
    throw new StoreError(
      `${place} has no tables of Sluice, and only \`sluice serve\` makes them: start the service first`,
    );
  }
  await migrate(createSql(template, patient), { upTo: version, log });
  return {
    /** For work that nobody waits for with a request, and that has deadlines of its own. */
    sql: createSql(template, behind),
    /** For requests, fair between accounts: what Postgres doesn't answer within five seconds is Failure('unavailable'). */
    requests: (who: string): Sql => createSql(template, requests, who, guarded),
    /** For admission, which scans wait for: goes before all others, and one connection is always left for it. */
    admission: urgent,
    /** For pages of the history, which may take seconds, fair between accounts: they never have more than a part of the connections. */
    pages: (who: string): Sql => createSql(template, pages, who),
    /** Resolves when Postgres answers, rejects when it doesn't within two seconds. All who ask within a second share one answer. */
    ping: sharedFor(PING_SHARED_MS, async () => {
      await within(urgent`SELECT 1`, PING_TIMEOUT_MS);
    }),
    /** Lets running queries end for a moment, then closes every connection. */
    async close(): Promise<void> {
      await connections.close(CLOSE_TIMEOUT_SECONDS);
      release();
    },
  };
}

/** A row whose file has a name with other letters is never taken, and all rows behind it wait. Throws where no tables are there yet, and nothing is lost by another database. */
async function lookAtEncoding(
  sql: Queries,
  { place, isMade, log }: { place: string; isMade: boolean; log?: MigrationLog | undefined },
): Promise<void> {
  const [row] = await sql<{ encoding: string }[]>`SELECT current_setting('server_encoding') AS encoding`;
  const encoding = row?.encoding ?? ENCODING;
  if (encoding === ENCODING) return;
  const reason = `${place} has the encoding ${encoding}, which can't hold the names of all files`;
  const todo = `CREATE DATABASE ... ENCODING '${ENCODING}' TEMPLATE template0`;
  if (!isMade) throw new StoreError(`${reason}: take one that was made by ${todo}`);
  log?.warn({ reason, todo: `sluice backup, ${todo}, sluice restore` }, 'the history may come to a halt');
}

/** Of a lane that accounts share: one of them leaves most of the connections to the others, and a quarter of the places to wait. */
function shared(connections: number, waiting: number) {
  const running = Math.max(1, Math.floor(connections));
  return { running, runningEach: Math.max(1, Math.floor(running / 3)), waiting, waitingEach: waiting * 0.75 };
}

/** `size`: connections of this process. `place`: for messages. `release`: when the connections are closed. */
function connect(target: PostgresTarget) {
  const common = {
    max: 1,
    // A connection that ends by itself would end inside a transaction: queries.ts makes new ones from time to time.
    max_lifetime: null,
    backoff: () => RECONNECT_SECONDS,
    connect_timeout: CONNECT_TIMEOUT_SECONDS,
    fetch_types: false,
    onnotice: () => undefined,
    // Days are UTC's. In zones whose clocks are set ahead at midnight a series of days loses one otherwise, whatever is cast to what.
    connection: { application_name: 'sluice', TimeZone: 'UTC' },
  };
  if (target.kind === 'url') {
    const { url, place, socket, problem } = databasePlaceOf(target.url);
    if (problem !== null) throw new StoreError(`DATABASE_URL ${problem}`);
    const pooled: { prepare?: false } = {};
    const open: OpenDriver = (onclose) =>
      withArrays(driverOf(url, { ...common, ...pooled, ...socket, socket: openDriverSocket, onclose }));
    /** From the next connection on. False: it was so before. */
    const prepareNothing = (): boolean => {
      const isNew = pooled.prepare === undefined;
      pooled.prepare = false;
      return isNew;
    };
    return { place, size: CONNECTIONS, open, prepareNothing, release: () => undefined };
  }
  const { options, release } = openSocketPlace(target.socketDirectory);
  const open: OpenDriver = (onclose) => withArrays(postgres({ ...common, ...options, onclose }));
  return { place: 'The embedded store', size: POOL_CONNECTIONS, open, prepareNothing: () => false, release };
}

/** What its types leave out. */
interface DriverOptions extends postgres.Options<Record<string, never>> {
  readonly socket: typeof openDriverSocket;
}

function driverOf(url: string, options: DriverOptions): Driver {
  try {
    return postgres(url, options);
  } catch {
    // What was thrown may quote the URL.
    throw new StoreError('DATABASE_URL is not a URL that the Postgres driver can read');
  }
}

/** What the driver says of the place. */
interface DriverPlace {
  readonly host: readonly string[];
  readonly port: readonly number[];
  /** Of a UNIX socket; false: none. */
  readonly path: string | false;
}

/** The socket below the driver of Postgres. A proxy without a server behind it takes a connection and ends it: the driver would connect again at once, hundreds of times a second, and its query would wait. As an error the query ends, and the driver waits before it connects again. */
function openDriverSocket({ host: [host = ''], port: [port = 0], path }: DriverPlace): Socket {
  // The driver reads the host for the name in TLS.
  const socket = Object.assign(new Socket(), { host, port });
  socket.on('end', () => {
    if (socket.bytesRead > 0) return;
    const error = new Error('The connection was closed before Postgres answered');
    socket.destroy(Object.assign(error, { code: 'ECONNRESET' }));
  });
  return path === false ? socket.connect(port, host) : socket.connect(path);
}

interface Migration {
  readonly version: number;
  readonly name: string;
  readonly checksum: string;
  readonly text: string;
}

/** Any number will do that no other program uses on the same database. */
const MIGRATION_LOCK = 5_749_281_601;
/** What a section begins with. */
const HEADING = /^-- migration (\d{3}-[a-z0-9-]+)\n/m;

async function hasTable(sql: Queries, name: string): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`SELECT to_regclass(${name}) IS NOT NULL AS found`;
  return row?.found === true;
}

/** The table that is there while `sluice restore` fills a database that has nothing of its own. */
export const RESTORING = 'sluice_restoring';

export async function markRestore(sql: Queries): Promise<void> {
  await sql.unsafe(`CREATE TABLE IF NOT EXISTS ${RESTORING} ()`);
}

/** Brings the database to that version, or throws a StoreError and leaves it at the last one that worked. Default: the newest. */
export async function migrate(
  sql: Sql,
  { directory = migrationsDirectory, upTo = Infinity, log }: MigrateOptions = {},
): Promise<void> {
  const migrations = readMigrations(directory);
  const missing = (await hasTable(sql, 'schema_migrations')) ? await missingOf(sql, migrations, upTo) : [];
  if (missing.length > 0) log?.info({ missing }, 'the tables of the database are brought to a newer version');
  await locked(sql, async (tx) => {
    await tx`
      CREATE TABLE IF NOT EXISTS schema_migrations (
        version integer PRIMARY KEY,
        name text NOT NULL,
        checksum text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
      )`;
    await refuseNewer(tx, migrations, upTo);
  });
  for (const migration of migrations.filter(({ version }) => version <= upTo)) {
    // Asked again under the lock: another process may have applied it in between.
    await locked(sql, (tx) => apply(tx, migration));
  }
  if (missing.length > 0) log?.info('the tables of the database are at the newer version');
}

interface MigrateOptions {
  readonly directory?: string | undefined;
  readonly upTo?: number | undefined;
  readonly log?: Pick<MigrationLog, 'info'> | undefined;
}

/** By name, what a database lacks that has some. */
async function missingOf(sql: Queries, migrations: readonly Migration[], upTo: number): Promise<readonly string[]> {
  const applied = await sql<{ version: number }[]>`SELECT version FROM schema_migrations`;
  const versions = new Set(applied.map(({ version }) => version));
  return migrations.filter(({ version }) => version <= upTo && !versions.has(version)).map(({ name }) => name);
}

/** The same for two databases whose tables are the same: those of that version. Default: the newest. */
export function schemaOf(upTo = Infinity): string {
  const applied = readMigrations(migrationsDirectory).filter(({ version }) => version <= upTo);
  return hash('sha256', applied.map(({ version, checksum }) => `${version}${checksum}`).join(' '));
}

/** Which version has these tables; null: none that this Sluice knows. */
export function versionOf(schema: string): number | null {
  const versions = readMigrations(migrationsDirectory).map(({ version }) => version);
  return versions.findLast((version) => schemaOf(version) === schema) ?? null;
}

async function locked(sql: Sql, step: (tx: Queries) => Promise<void>): Promise<void> {
  // Whatever the database's default is: a snapshot from before the lock would not show what its last holder did.
  await sql.transaction('readCommitted', async (tx) => {
    // A role's or a database's own bounds are for queries: a migration, and the wait for that of another process, take as long as they take.
    await tx`
      SELECT set_config(name, '0', true) FROM pg_settings
      WHERE name IN ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')`;
    await tx`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`;
    await step(tx);
  });
}

async function refuseNewer(tx: Queries, migrations: readonly Migration[], upTo: number): Promise<void> {
  const [row] = await tx<{ newest: number | null }[]>`SELECT max(version) AS newest FROM schema_migrations`;
  const newest = row?.newest ?? 0;
  const known = migrations.at(-1)?.version ?? 0;
  if (newest > known) {
    throw new StoreError(`The database is at version ${newest}, this Sluice knows ${known}: upgrade Sluice`);
  }
  if (newest > upTo) {
    throw new StoreError(
      `The database is at version ${newest}, and tables of version ${upTo} are wanted: take an empty one`,
    );
  }
}

async function apply(tx: Queries, { version, name, checksum, text }: Migration): Promise<void> {
  const [applied] = await tx<{ checksum: string }[]>`SELECT checksum FROM schema_migrations WHERE version = ${version}`;
  if (applied !== undefined) {
    if (applied.checksum === checksum) return;
    throw new StoreError(`Migration ${name} was edited after it was applied: put it back, and add a new one instead`);
  }
  try {
    await tx.unsafe(text);
  } catch (error) {
    // Where a disk is full, this alone says so.
    const hint = error instanceof postgres.PostgresError && error.hint !== undefined ? ` (${error.hint})` : '';
    throw new StoreError(`Migration ${name} failed: ${messageOfError(error)}${hint}`);
  }
  await tx`INSERT INTO schema_migrations (version, name, checksum) VALUES (${version}, ${name}, ${checksum})`;
}

/** Of all files of the folder, by their numbers. */
function readMigrations(directory: string): Migration[] {
  const files = readdirSync(directory).filter((file) => file.endsWith('.sql'));
  const migrations = files.flatMap((file) => sectionsOf(file, readFileSync(join(directory, file), 'utf8')));
  migrations.sort((one, other) => one.version - other.version);
  for (const [at, { version, name }] of migrations.entries()) {
    const next = migrations[at + 1];
    if (next?.version === version) throw new StoreError(`Migrations ${name} and ${next.name} have the same number`);
  }
  return migrations;
}

function sectionsOf(file: string, text: string): Migration[] {
  const [before = '', ...sections] = text.split(HEADING);
  if (before !== '' || sections.length === 0) {
    throw new StoreError(`${file} must begin with a line such as "-- migration 007-what-it-does"`);
  }
  return Array.from({ length: sections.length / 2 }, (_, index) => {
    const [name = '', body = ''] = sections.slice(2 * index);
    // What the next heading stands apart by is not the section's: it may come later.
    const own = `${body.trimEnd()}\n`;
    return {
      version: Number.parseInt(name, 10),
      name,
      checksum: hash('sha256', own),
      text: own,
    };
  });
}

/** pg_type.dat: arrays of these types. Their numbers are the same in every database. */
const TEXT_ARRAYS = { boolean: 1000, bigint: 1016, text: 1009, uuid: 2951 };
const NUMBER_ARRAYS = { smallint: 1005, integer: 1007, double: 1022 };

const ARRAY_ITEM = /"((?:[^"\\]|\\.)*)"|([^,{}]+)/gs;

function serializeArray(items: unknown): unknown {
  if (!Array.isArray(items)) return items;
  return `{${items.map((item) => (item === null ? 'NULL' : `"${String(item).replace(/["\\]/g, '\\$&')}"`)).join(',')}}`;
}

/** Of one dimension. */
function parseArray(text: string): (string | null)[] {
  return Array.from(text.matchAll(ARRAY_ITEM), ([, quoted, plain = '']) => {
    if (quoted !== undefined) return quoted.replace(/\\(.)/gs, '$1');
    return plain === 'NULL' ? null : plain;
  });
}

/**
 * Arrays of Postgres' own types, as the driver sends and reads them. postgres.js 3.4.9 would ask each new connection for their numbers, and nobody could catch
 * it where that question fails: by a statement timeout, or with its connection.
 */
function withArrays(driver: Driver): Driver {
  const { options } = driver;
  for (const type of [...Object.values(TEXT_ARRAYS), ...Object.values(NUMBER_ARRAYS)]) {
    options.serializers[type] = serializeArray;
    options.parsers[type] = parseArray;
  }
  for (const type of Object.values(NUMBER_ARRAYS)) {
    options.parsers[type] = (text: string) => parseArray(text).map((item) => (item === null ? null : Number(item)));
  }
  return driver;
}
