// The schema: ordered SQL files, each applied once and in a transaction of its own, by one process at a time.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { migrationsDirectory } from '../paths.js';
import type { Sql } from './postgres.js';

/** Any number that no other program locks: "sluice" as ASCII. */
const LOCK = 0x736c75696365;

interface Migration {
  readonly name: string;
  readonly text: string;
  readonly checksum: string;
}

/** Brings the schema to this version. Throws when the database is newer, or an applied file was edited afterwards. */
export async function migrate(sql: Sql, directory: string = migrationsDirectory): Promise<void> {
  const migrations = await readMigrations(directory);
  await sql.begin(async (tx) => {
    await tx`SELECT pg_advisory_xact_lock(${LOCK})`;
    await tx`CREATE TABLE IF NOT EXISTS migrations (
      name text PRIMARY KEY, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`;
    const applied = await tx<{ name: string; checksum: string }[]>`SELECT name, checksum FROM migrations`;
    assertKnown(applied, migrations);
    const names = new Set(applied.map(({ name }) => name));
    for (const { name, text, checksum } of migrations) {
      if (names.has(name)) continue;
      await tx.unsafe(text);
      await tx`INSERT INTO migrations (name, checksum) VALUES (${name}, ${checksum})`;
    }
  });
}

async function readMigrations(directory: string): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.sql')).sort();
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(join(directory, name), 'utf8');
      return { name, text, checksum: createHash('sha256').update(text).digest('hex') };
    }),
  );
}

function assertKnown(applied: readonly { name: string; checksum: string }[], migrations: readonly Migration[]): void {
  for (const { name, checksum } of applied) {
    const known = migrations.find((migration) => migration.name === name);
    if (known === undefined) {
      throw new Error(`The database was made by a newer version of Sluice: it has the migration ${name}`);
    }
    if (known.checksum !== checksum) throw new Error(`The migration ${name} was edited after it had been applied`);
  }
}
