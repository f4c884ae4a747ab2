// The store as a command has it: opened and migrated, never made, for as long as the command needs it, beside a running service where that is possible; and
// `sluice backup` and `sluice restore`: all that it has, as one moment saw it, into a file and out of it again.
import { createReadStream, existsSync } from 'node:fs';
import { link, open, rename, rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { z } from 'zod';
import type { Ledger } from '../admission/admission.js';
import { createRedisLedger } from '../admission/redis-ledger.js';
import { type Config, readVersion } from '../config/config.js';
import { codeOf, messageOfError } from '../error-text.js';
import { Unavailable } from '../errors.js';
import type { Nodes } from '../operator/changes.js';
import { embeddedSocketDirectory, startEmbedded } from '../store/embedded/embedded.js';
import {
  markRestore,
  openPostgres,
  type Postgres,
  type PostgresTarget,
  type Queries,
  RESTORING,
  type Sql,
  schemaOf,
  versionOf,
} from '../store/postgres.js';
import { openRedis } from '../store/redis/redis.js';
import { isStoreDown, StoreAway, StoreError, StoreInUse } from '../store/store-error.js';
import { type OutputOptions, print, Refusal, safeJson } from './output.js';
import { giveToOwner } from './service-owner.js';

/** The database of a server that has just been started, its repair after a crash included. */
const STARTS_WITHIN_MS = 10_000;
const RETRY_MS = 50;
/** No socket, nobody behind it, or a database that starts or stops (57P03, cannot_connect_now). */
const NOT_THERE = new Set(['ENOENT', 'ECONNREFUSED', '57P03', 'CONNECTION_CLOSED']);

/** Throws a Refusal or a StoreError when the store can't be opened. */
export async function withStore<T>(config: Config, work: (sql: Sql) => Promise<T>): Promise<T> {
  return await during(await (config.databaseUrl === null ? reachEmbedded(config) : reach(config.databaseUrl)), work);
}

/** One that nobody has used yet, made where there is none, with the tables of that version. Throws a Refusal while a service runs on it. */
async function withNewStore<T>(config: Config, version: number, work: (sql: Sql) => Promise<T>): Promise<T> {
  const { dataDirectory, databaseUrl, databaseUser } = config;
  const made = { mayBeEmpty: true, version, restores: true };
  const reached = await (databaseUrl === null ? startOwn(dataDirectory, databaseUser, made) : reach(databaseUrl, made));
  return await during(reached, async (sql) => {
    const result = await work(sql);
    reached.restored();
    return result;
  });
}

async function during<T>({ postgres, stop }: Reached, work: (sql: Sql) => Promise<T>): Promise<T> {
  try {
    return await work(postgres.sql);
  } catch (error) {
    if (error instanceof StoreError || !isStoreDown(error)) throw error;
    throw new StoreError(`The store can't be used: ${messageOfError(error)}`, { cause: error });
  } finally {
    await postgres.close();
    await stop();
  }
}

interface Reached {
  readonly postgres: Postgres;
  /** What was opened for `restore` is whole. */
  restored(): void;
  /** Ends what was started for it. */
  stop(): Promise<void>;
}

const NOTHING_BESIDE = { restored: () => undefined, stop: async () => undefined };

type Tables = Pick<PostgresTarget, 'mayBeEmpty' | 'version' | 'restores'>;
const THOSE_THAT_ARE_THERE: Tables = { mayBeEmpty: false };

async function reach(url: string, tables = THOSE_THAT_ARE_THERE): Promise<Reached> {
  return { postgres: await openPostgres({ kind: 'url', url, ...tables }), ...NOTHING_BESIDE };
}

/** The one that a server or another command runs, or else one for as long as this command needs it. */
async function reachEmbedded({ dataDirectory, databaseUser: user }: Config): Promise<Reached> {
  for (const deadlineMs = performance.now() + STARTS_WITHIN_MS; ; ) {
    try {
      return await startOwn(dataDirectory, user);
    } catch (error) {
      if (!(error instanceof StoreInUse)) throw error;
      const running = await openRunning(dataDirectory);
      if (running !== null) return { postgres: running, ...NOTHING_BESIDE };
      if (performance.now() > deadlineMs) throw new Refusal(`${error.message}: its database does not answer`);
    }
    await delay(RETRY_MS);
  }
}

async function startOwn(dataDirectory: string, user: string | null, tables = THOSE_THAT_ARE_THERE): Promise<Reached> {
  const { restores = false } = tables;
  const { socketDirectory, restored, stop } = await startEmbedded({ dataDirectory, user, restores });
  try {
    return { postgres: await openPostgres({ kind: 'embedded', socketDirectory, ...tables }), restored, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Null: the process that has the folder is still starting its database, or has just ended it. */
async function openRunning(dataDirectory: string): Promise<Postgres | null> {
  try {
    return await openPostgres({
      kind: 'embedded',
      socketDirectory: embeddedSocketDirectory(dataDirectory),
      ...THOSE_THAT_ARE_THERE,
    });
  } catch (error) {
    if (NOT_THERE.has(codeOf(error) ?? '')) return null;
    throw error;
  }
}

interface ToldNodes extends Nodes {
  /** False: there is no Redis, and running servers ask Postgres after at most NODES_ASK_SECONDS. */
  readonly areTold: boolean;
}

/** What a server believes of a key or a plan before it asks Postgres again (admission/admissions.ts). */
export const NODES_ASK_SECONDS = 15;

export async function withNodes<T>(config: Config, work: (nodes: ToldNodes) => Promise<T>): Promise<T> {
  if (config.redisUrl === null) {
    return await work({ areTold: false, revoke: async () => undefined, setLimit: async () => undefined });
  }
  // When Redis returns, the servers reconcile it with what was missed meanwhile.
  const nothing = async () => undefined;
  const redis = await openRedis({ url: config.redisUrl, onReturn: nothing, onProblem: () => undefined });
  const ledger = createRedisLedger(redis);
  try {
    return await work({
      areTold: true,
      revoke: ({ userId, keyHash }) => tell(ledger, (it) => it.revoke(userId, keyHash)),
      setLimit: (userId, hourlyLimit) => tell(ledger, (it) => it.setLimit(userId, hourlyLimit)),
    });
  } finally {
    redis.close();
  }
}

async function tell(ledger: Ledger, message: (ledger: Ledger) => Promise<void>): Promise<void> {
  try {
    await message(ledger);
  } catch (error) {
    if (!(error instanceof StoreAway)) throw error;
    throw new Unavailable('redisDown');
  }
}

/** Beside the schema: attempts to sign in, and scans that were accepted for later, whose contents are files of one machine. */
const LEFT_OUT = ['schema_migrations', RESTORING, 'sign_in_attempts', 'pending_scans', 'pending_nodes', 'nodes'];
/** It has its one row from the start. */
const MIGRATED = 'ledger_away';
const BATCH_ROWS = 1_000;

export async function backUp(config: Config, { file, json }: OutputOptions & { readonly file: string }): Promise<void> {
  const rows = await withStore(config, (sql) =>
    sql.transaction('snapshot', async (tx) => {
      const head = { sluiceBackup: 1, version: readVersion(), schema: schemaOf() } as const;
      return await writeBackup(file, head, batchesOf(tx));
    }),
  );
  print(json ? `${safeJson({ file, rows })}\n` : `${file} has ${rows} rows. Keep it where nobody else reads it.\n`);
}

async function* batchesOf(tx: Queries): AsyncGenerator<Batch> {
  for (const table of await tablesOf(tx)) {
    await tx.unsafe(`DECLARE backup NO SCROLL CURSOR FOR SELECT to_jsonb(t)::text AS row FROM ${table} t`);
    for (let count = BATCH_ROWS; count === BATCH_ROWS; ) {
      const found = await tx.unsafe(`FETCH ${BATCH_ROWS} FROM backup`);
      count = found.length;
      if (count > 0) yield { table, rows: found.map(({ row }) => String(row)) };
    }
    await tx.unsafe('CLOSE backup');
  }
}

/** In a data folder: the embedded database, and who has it open. */
const MADE = ['postgres', 'open', 'restoring'];

/** All or nothing. Throws a Refusal where the store has something already, or the file is damaged or a newer version's: then none is made. Rows of an older version are in its tables until the store is opened again. */
export async function restore(
  config: Config,
  { file, json }: OutputOptions & { readonly file: string },
): Promise<void> {
  const { version } = await readBackup(file, async () => undefined);
  let rows: number;
  try {
    rows = await withNewStore(config, version, (sql) => restoreInto(sql, file));
  } finally {
    const isOwners = config.databaseUrl === null && config.databaseUser === null;
    if (isOwners) for (const name of MADE) giveToOwner(config.dataDirectory, name);
  }
  const place = config.databaseUrl === null ? `DATA_DIR=${config.dataDirectory}` : 'the same DATABASE_URL';
  print(json ? `${safeJson({ rows })}\n` : `${rows} rows are back: start \`sluice serve\` with ${place}\n`);
}

async function restoreInto(sql: Sql, file: string): Promise<number> {
  // A transaction of its own: from here on a restore that is stopped leaves its mark.
  await sql.transaction('readCommitted', markEmpty);
  return await sql.transaction('readCommitted', async (tx) => {
    const tables = await tablesOf(tx);
    await tx`CREATE TEMPORARY TABLE restored (rows jsonb) ON COMMIT DROP`;
    const { rows } = await readBackup(file, async (batch) => {
      // Only a name that the database has given itself becomes a part of a statement.
      const table = tables.find((name) => name === batch.table);
      if (table === undefined) throw new Refusal(`${file} has a table that there is not: ${batch.table}`);
      await insert(tx, table, batch.rows);
    });
    await countOn(tx);
    await tx.unsafe(`DROP TABLE ${RESTORING}`);
    return rows;
  });
}

async function markEmpty(tx: Queries): Promise<void> {
  for (const table of (await tablesOf(tx)).filter((name) => name !== MIGRATED)) {
    const [row] = await tx.unsafe(`SELECT FROM ${table} LIMIT 1`);
    // Keys that a service has made stand in the way as accounts do: what the backup's keys have sealed would be lost.
    if (row !== undefined)
      throw new Refusal(`There are rows in ${table} already: restore into an empty folder or database`);
  }
  await markRestore(tx);
}

/** New rows are numbered behind those that are back. */
async function countOn(tx: Queries): Promise<void> {
  const numbered = await tx<{ name: string; column: string }[]>`
    SELECT quote_ident(table_name) AS name, quote_ident(column_name) AS column FROM information_schema.columns
    WHERE table_schema = 'public' AND is_identity = 'YES'`;
  for (const { name, column } of numbered) {
    await tx.unsafe(
      `SELECT setval(pg_get_serial_sequence('${name}', '${column}'), max(${column})) FROM ${name} HAVING max(${column}) IS NOT NULL`,
    );
  }
}

async function insert(tx: Queries, table: string, rows: readonly string[]): Promise<void> {
  await tx`DELETE FROM restored`;
  await tx`INSERT INTO restored VALUES (${`[${rows.join(',')}]`}::text::jsonb)`;
  if (table === 'scans') {
    await tx`
      SELECT make_scan_partition(month) FROM (
        SELECT DISTINCT date_trunc('month', (row->>'creation_date')::timestamptz AT TIME ZONE 'UTC')::date AS month
        FROM restored, jsonb_array_elements(rows) AS row) AS months`;
  }
  await tx.unsafe(
    `INSERT INTO ${table} OVERRIDING SYSTEM VALUE
     SELECT r.* FROM restored, jsonb_populate_recordset(NULL::${table}, rows) AS r ON CONFLICT DO NOTHING`,
  );
}

/** Each behind those that its rows point to. As the database writes the names, quoted where that is needed. */
async function tablesOf(tx: Queries): Promise<readonly string[]> {
  const tables = await tx<{ name: string; needs: string[] }[]>`
    SELECT quote_ident(c.relname) AS name, ARRAY(
      SELECT quote_ident(f.relname) FROM pg_constraint k JOIN pg_class f ON f.oid = k.confrelid
      WHERE k.conrelid = c.oid AND k.contype = 'f' AND k.confrelid <> c.oid) AS needs
    FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND NOT c.relname = ANY(${LEFT_OUT}::text[])
    ORDER BY c.relname`;
  const ordered: string[] = [];
  while (ordered.length < tables.length) {
    const next = tables.find(
      ({ name, needs }) => !ordered.includes(name) && needs.every((one) => ordered.includes(one)),
    );
    if (next === undefined) throw new Error('Tables point to each other in a circle');
    ordered.push(next.name);
  }
  return ordered;
}

const Head = z.strictObject({ sluiceBackup: z.literal(1), version: z.string(), schema: z.string() });
const Batch = z.strictObject({ table: z.string(), rows: z.array(z.string()).min(1) });
type Batch = z.infer<typeof Batch>;
const End = z.strictObject({ end: z.int() });

/** Nobody but its owner may read it: it has hashes of passwords, and what signs tokens. */
const OWNER_ONLY = 0o600;

/** Returns how many rows it has. Throws a Refusal where the file is there already, or can't be made. */
async function writeBackup(path: string, head: z.infer<typeof Head>, batches: AsyncIterable<Batch>): Promise<number> {
  let rows = 0;
  async function* lines(): AsyncGenerator<string> {
    yield `${JSON.stringify(head)}\n`;
    for await (const batch of batches) {
      rows += batch.rows.length;
      yield `${JSON.stringify(batch)}\n`;
    }
    yield `${JSON.stringify({ end: rows })}\n`;
  }
  if (existsSync(path)) throw isThere(path);
  // What a killed command leaves has no backup's name.
  const partial = `${path}.${process.pid}.partial`;
  const file = await open(partial, 'wx', OWNER_ONLY).catch((error: unknown) => {
    throw new Refusal(messageOfError(error));
  });
  try {
    await pipeline(Readable.from(lines()), createGzip(), file.createWriteStream({ flush: true }));
    await giveName(partial, path);
    return rows;
  } catch (error) {
    throw NO_ROOM.has(codeOf(error) ?? '') ? new Refusal(`${path} can't be written: ${messageOfError(error)}`) : error;
  } finally {
    await rm(partial, { force: true });
  }
}

/** What a disk says to who writes. */
const NO_ROOM = new Set(['ENOSPC', 'EDQUOT', 'EFBIG', 'EIO', 'EROFS']);

const isThere = (path: string): Refusal => new Refusal(`${path} is there already`);
/** Of file systems where a file has one name. */
const NO_SECOND_NAME = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS']);

/** A file that another command has made meanwhile stays. */
async function giveName(partial: string, path: string): Promise<void> {
  try {
    await link(partial, path);
  } catch (error) {
    if (codeOf(error) === 'EEXIST') throw isThere(path);
    if (!NO_SECOND_NAME.has(codeOf(error) ?? '')) throw error;
    await rename(partial, path);
  }
}

/** `version`: that of the tables whose rows these are. Throws a Refusal where it is no backup of this version or an older one, or not a whole one. */
async function readBackup(path: string, onBatch: (batch: Batch) => Promise<void>) {
  let rows = 0;
  let known: number | null = null;
  let state = 'head';
  let failure: unknown = null;
  async function read(source: AsyncIterable<Buffer>): Promise<void> {
    for await (const line of linesOf(source)) {
      const value: unknown = JSON.parse(line);
      if (state === 'head') {
        const { schema, version } = Head.parse(value);
        known = versionOf(schema);
        if (known === null)
          throw new Refusal(`${path} is of a Sluice (${version}) that has other tables: restore it with that one`);
        state = 'batches';
      } else if (End.safeParse(value).success) {
        if (End.parse(value).end !== rows) throw new Refusal(`${path} has rows missing`);
        state = 'end';
      } else {
        const batch = Batch.parse(value);
        await onBatch(batch);
        rows += batch.rows.length;
      }
    }
  }
  try {
    // Of a reader that fails the pipeline says only that it was ended.
    await pipeline(createReadStream(path), createGunzip(), (source: AsyncIterable<Buffer>) =>
      read(source).catch((error: unknown) => {
        failure = error;
      }),
    );
    if (failure !== null) throw failure;
  } catch (caught) {
    const error = failure ?? caught;
    const isUnread =
      error instanceof SyntaxError ||
      error instanceof z.ZodError ||
      /^Z_|^E(?:ACCES|ISDIR|NOENT|NOTDIR)$/.test(codeOf(error) ?? '');
    throw isUnread ? new Refusal(`${path} can't be read as a backup`) : error;
  }
  if (state !== 'end' || known === null) throw new Refusal(`${path} is cut off`);
  return { rows, version: known };
}

async function* linesOf(source: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of source) {
    const lines = `${rest}${decoder.decode(chunk, { stream: true })}`.split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
  if (rest !== '') yield rest;
}
