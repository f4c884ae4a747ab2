// Migrations, on both stores: applied once, in order, also by several processes at the same time; an edited or unknown one is refused.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { migrate, openPostgres, type Sql } from '../../src/store/postgres.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { makeTransactionsRepeatable, onEachStore, open, type Tap } from '../fixtures/stores.js';

/** A folder with a first version that takes the place of the service's, for a database that has only that. */
function migrationsFolder(t: Tap, files: Record<string, string>): { readonly directory: string } {
  const folder = temporaryFolder(t);
  for (const [name, text] of Object.entries(files))
    writeFileSync(join(folder, `${name}.sql`), `-- migration ${name}\n${text}\n`);
  return { directory: folder };
}

/** As a provider may have it for each connection that begins from now on. */
async function boundStatements(sql: Sql): Promise<void> {
  await sql`
    DO $$ DECLARE name text; BEGIN
      FOREACH name IN ARRAY '{statement_timeout,lock_timeout,idle_in_transaction_session_timeout}'::text[] LOOP
        EXECUTE format('ALTER DATABASE %I SET %s = ''1min''', current_database(), name);
      END LOOP;
    END $$`;
}

/** Fails where a migration has a bound of that kind. */
const UNBOUNDED = `DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_settings WHERE name ~ '^(statement|lock|idle_in_transaction_session)_timeout$' AND setting <> '0')
  THEN RAISE 'a migration is bounded'; END IF;
END $$;`;

onEachStore(async (t, store) => {
  t.test('an empty database gets the tables, a second start changes nothing', async (t) => {
    const target = await store.target(t);
    const { sql, ping } = await open(t, target);
    await ping();
    const before = await sql`SELECT version, name, applied_at FROM schema_migrations ORDER BY version`;
    t.match(before[0], { version: 1, name: '001-accounts' });
    await migrate(sql);
    t.same(await sql`SELECT version, name, applied_at FROM schema_migrations ORDER BY version`, before);
    t.same([...(await sql`SELECT count(*)::int AS users FROM users`)], [{ users: 0 }]);
  });

  t.test('starts at the same time apply each migration once', async (t) => {
    const target = await store.target(t);
    const { sql } = await open(t, target);
    await makeTransactionsRepeatable(sql);
    await boundStatements(sql);
    const others = await Promise.all(Array.from({ length: 4 }, () => open(t, target)));
    const folder = migrationsFolder(t, {
      '001-counter': 'CREATE TABLE counter (n int); INSERT INTO counter VALUES (0);',
      '002-count': `UPDATE counter SET n = n + 1; ${UNBOUNDED}`,
    });
    await sql`DROP TABLE schema_migrations`;
    await Promise.all(others.map((one) => migrate(one.sql, folder)));
    t.same([...(await sql`SELECT n FROM counter`)], [{ n: 1 }]);
  });

  t.test('a number that was left out is applied when its section comes, in whichever file', async (t) => {
    const target = await store.target(t);
    const { sql } = await open(t, target);
    await sql`DROP TABLE schema_migrations`;
    const first = { '001-a': 'CREATE TABLE a (n int)', '005-c': 'CREATE TABLE c (n int)' };
    const told: unknown[] = [];
    const log = { info: (...said: unknown[]) => void told.push(said) };
    await migrate(sql, { ...migrationsFolder(t, first), log });
    t.same(told, [], 'an empty database is no news');
    const second = { ...migrationsFolder(t, { ...first, '003-b': 'CREATE TABLE b (n int)' }), log };
    for (const _start of [1, 2]) await migrate(sql, second);
    t.same(told, [
      [{ missing: ['003-b'] }, 'the tables of the database are brought to a newer version'],
      ['the tables of the database are at the newer version'],
    ]);
    t.same(
      [...(await sql`SELECT version, to_regclass('b') IS NOT NULL AS has_b FROM schema_migrations ORDER BY version`)],
      [1, 3, 5].map((version) => ({ version, has_b: true })),
    );
  });

  t.test('an edited, a newer, a broken and a misnamed migration are refused by name', async (t) => {
    const target = await store.target(t);
    const { sql } = await open(t, target);
    // As if the service had only this one, whatever it has by now.
    await sql`DELETE FROM schema_migrations WHERE version > 1`;
    await t.rejects(migrate(sql, migrationsFolder(t, { '001-accounts': 'SELECT 1' })), {
      name: 'StoreError',
      message: 'Migration 001-accounts was edited after it was applied: put it back, and add a new one instead',
    });
    await t.rejects(migrate(sql, migrationsFolder(t, { late: 'SELECT 1' })), {
      message: 'late.sql must begin with a line such as "-- migration 007-what-it-does"',
    });
    await t.rejects(migrate(sql, migrationsFolder(t, { '007-one': 'SELECT 1', '007-two': 'SELECT 1' })), {
      message: 'Migrations 007-one and 007-two have the same number',
    });
    await sql`DROP TABLE schema_migrations`;
    const broken = {
      '001-half': 'CREATE TABLE half (n int);',
      '002-broken': 'CREATE TABLE whole (n int); SELEC;',
    };
    await t.rejects(migrate(sql, migrationsFolder(t, broken)), {
      message: /^Migration 002-broken failed: syntax error/,
    });
    t.same(
      [...(await sql`SELECT version, to_regclass('whole') AS whole FROM schema_migrations`)],
      [{ version: 1, whole: null }],
      'the first one stands, nothing of the second',
    );
    const full = `DO $$ BEGIN RAISE 'could not extend file' USING HINT = 'Check free disk space.'; END $$`;
    await t.rejects(migrate(sql, migrationsFolder(t, { '001-half': broken['001-half'], '002-full': full })), {
      message: 'Migration 002-full failed: could not extend file (Check free disk space.)',
    });
    await sql`INSERT INTO schema_migrations (version, name, checksum) VALUES (999, 'future', '')`;
    await t.rejects(openPostgres(target), {
      name: 'StoreError',
      message: /^The database is at version 999, this Sluice knows \d+: upgrade Sluice$/,
    });
  });
});
