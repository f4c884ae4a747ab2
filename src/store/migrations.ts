// Migrations: ordered SQL files, each applied once in a transaction of its own, even when several processes start at once. Numbers may be left out: a branch has its own before it is merged.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { messageOfError } from '../error-text.js';
import { migrationsDirectory } from '../paths.js';
import type { Queries, Sql } from './queries.js';
import { StoreError } from './store-error.js';

interface Migration {
  readonly version: number;
  readonly name: string;
  readonly checksum: string;
  readonly text: string;
}

/** Any number will do that no other program uses on the same database. */
const MIGRATION_LOCK = 5_749_281_601;
const FILE_NAME = /^(\d{3})-([a-z0-9-]+)\.sql$/;

/** Whether a service has ever used the database. */
export async function hasTables(sql: Queries): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`SELECT to_regclass('schema_migrations') IS NOT NULL AS found`;
  return row?.found === true;
}

/** Brings the database to the newest version, or throws a StoreError and leaves it at the last one that worked. */
export async function migrate(sql: Sql, directory: string = migrationsDirectory): Promise<void> {
  const migrations = readMigrations(directory);
  await locked(sql, async (tx) => {
    await tx`
      CREATE TABLE IF NOT EXISTS schema_migrations (
        version integer PRIMARY KEY,
        name text NOT NULL,
        checksum text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
      )`;
    await refuseNewer(tx, migrations);
  });
  for (const migration of migrations) {
    // Asked again under the lock: another process may have applied it in between.
    await locked(sql, (tx) => apply(tx, migration));
  }
}

/** The same for two databases whose tables are the same. */
export function schemaOf(): string {
  const applied = readMigrations(migrationsDirectory).map(({ version, checksum }) => `${version}${checksum}`);
  return createHash('sha256').update(applied.join(' ')).digest('hex');
}

async function locked(sql: Sql, step: (tx: Queries) => Promise<void>): Promise<void> {
  // Whatever the database's default is: a snapshot from before the lock would not show what its last holder did.
  await sql.transaction('readCommitted', async (tx) => {
    await tx`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`;
    await step(tx);
  });
}

async function refuseNewer(tx: Queries, migrations: readonly Migration[]): Promise<void> {
  const [row] = await tx<{ newest: number | null }[]>`SELECT max(version) AS newest FROM schema_migrations`;
  const newest = row?.newest ?? 0;
  const known = migrations.at(-1)?.version ?? 0;
  if (newest > known) {
    throw new StoreError(`The database is at version ${newest}, this Sluice knows ${known}: upgrade Sluice`);
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
    throw new StoreError(`Migration ${name} failed: ${messageOfError(error)}`);
  }
  await tx`INSERT INTO schema_migrations (version, name, checksum) VALUES (${version}, ${name}, ${checksum})`;
}

function readMigrations(directory: string): Migration[] {
  const files = readdirSync(directory)
    .filter((file) => file.endsWith('.sql'))
    .sort();
  let before = 0;
  return files.map((file) => {
    const [, version, name] = FILE_NAME.exec(file) ?? [];
    if (version === undefined || name === undefined || Number(version) <= before) {
      throw new StoreError(`Migration ${file} must be named NNN-what-it-does.sql, with a number above ${before}`);
    }
    before = Number(version);
    const text = readFileSync(join(directory, file), 'utf8');
    const checksum = createHash('sha256').update(text).digest('hex');
    return { version: before, name: `${version}-${name}`, checksum, text };
  });
}
