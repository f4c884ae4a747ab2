// The store as a command has it: opened and migrated, for as long as the command needs it, beside a running service where that is possible.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../config-types.js';
import { startEmbedded } from '../store/embedded.js';
import { openPostgres, type Sql } from '../store/postgres.js';
import { StoreInUse } from '../store/store-error.js';

/** What stops a command that is right in itself: to be printed as it is. */
export class Refusal extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'Refusal';
  }
}

/** Throws Refusal when a server has the embedded store, StoreError when the store can't be opened. */
export async function withStore<T>(config: Config, work: (sql: Sql) => Promise<T>): Promise<T> {
  const embedded = config.databaseUrl === null ? await openEmbedded(config.dataDirectory) : null;
  try {
    const postgres = await openPostgres(
      embedded === null
        ? { kind: 'url', url: config.databaseUrl ?? '' }
        : { kind: 'embedded', socketDirectory: embedded.socketDirectory },
    );
    try {
      return await work(postgres.sql);
    } finally {
      await postgres.close();
    }
  } finally {
    await embedded?.stop();
  }
}

async function openEmbedded(dataDirectory: string) {
  if (!existsSync(join(dataDirectory, 'postgres'))) {
    process.stderr.write(
      `There is no database in ${dataDirectory} yet: making one. DATA_DIR or DATABASE_URL name another.\n`,
    );
  }
  try {
    return await startEmbedded(dataDirectory);
  } catch (error) {
    if (!(error instanceof StoreInUse)) throw error;
    throw new Refusal(
      `${error.message}.\nThe embedded database is open in one process at a time. Stop the server for the time of this command, ` +
        'or use the dashboard API while it runs; with a DATABASE_URL commands work beside running servers.',
    );
  }
}
