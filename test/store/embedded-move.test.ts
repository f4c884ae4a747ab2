// An embedded database of an older PostgreSQL: moved to ours at the next start with all that is in it, or left as it was.
import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { bootstrap } from '../../src/account/users.js';
import { createRowStore } from '../../src/history/rows-to-database.js';
import { databaseAccount } from '../../src/store/embedded/account.js';
import { startEmbedded } from '../../src/store/embedded/embedded.js';
import { prepareRole, SOCKET_PORT, startServer } from '../../src/store/embedded/server.js';
import { openPostgres, type Sql } from '../../src/store/postgres.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { rowAt } from '../fixtures/history.js';
import { newestBinaries } from '../fixtures/postgres.js';
import { open } from '../fixtures/stores.js';

const programs = newestBinaries();
const major = Number(/(\d+)\/bin$/.exec(programs)?.[1]);
const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/** A folder as Sluice would have made it with the PostgreSQL of the distribution, with an account and scans in it. */
async function madeBefore(t: Test, fill: (sql: Sql) => Promise<void>) {
  const dataDirectory = temporaryFolder(t);
  const root = join(dataDirectory, 'postgres');
  const folder = join(root, String(major));
  const account = databaseAccount(null, folder);
  for (const path of [folder, join(root, 'socket')]) {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    if (account.owner !== null) chownSync(path, account.owner.uid, account.owner.gid);
  }
  const initdb = [...account.initdbPrefix, join(programs, 'initdb'), '-D', folder, '-U', 'postgres'];
  const [program = '', ...args] = [...initdb, '-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync'];
  execFileSync(program, args, { stdio: 'pipe', cwd: '/' });
  const server = await startServer({
    account,
    programs,
    major,
    folder,
    port: SOCKET_PORT,
    connections: 10,
    log: silent,
  });
  await prepareRole(join(root, 'socket'));
  const store = await openPostgres({ kind: 'embedded', socketDirectory: join(root, 'socket') });
  await fill(store.sql);
  await store.close();
  await server.stop();
  return { dataDirectory, root };
}

const settings = { email: 'moved@example.com', password: null, apiKey: null, plan: 'FREE' };
const months = ['2025-11-30T23:59:59Z', '2026-01-15T00:00:00Z', '2026-02-01T00:00:00Z'];

t.test('what is in it is there after the next start, and the old folder is gone', async (t) => {
  const before: Record<string, unknown[]> = {};
  const read = async (sql: Sql): Promise<Record<string, unknown[]>> => ({
    users: [...(await sql`SELECT * FROM users ORDER BY id`)],
    scans: [...(await sql`SELECT tableoid::regclass::text AS part, * FROM scans ORDER BY id`)],
    days: [...(await sql`SELECT * FROM scan_days ORDER BY day`)],
    migrations: [...(await sql`SELECT * FROM schema_migrations ORDER BY version`)],
  });
  const { dataDirectory, root } = await madeBefore(t, async (sql) => {
    await bootstrap(sql, settings, { isEmbedded: true });
    const [user] = await sql<{ id: string }[]>`SELECT id FROM users`;
    const rows = months.map((time) => rowAt(Date.parse(time), { userId: user?.id ?? '', filename: 'ä\t\\.\n' }));
    await createRowStore(sql)(rows);
    Object.assign(before, await read(sql));
  });
  const told: unknown[] = [];
  const log = { ...silent, warn: (fields: unknown, message?: unknown) => void told.push([fields, message]) };
  const embedded = await startEmbedded({ dataDirectory, log });
  t.teardown(() => embedded.stop());
  t.match(told, [
    [{ from: major, to: 18 }, 'the embedded database is of an older PostgreSQL: moving it to this one'],
    [{ from: major, to: 18 }, 'the embedded database was moved'],
  ]);
  t.same(readdirSync(root).sort(), ['18', 'socket']);
  const { sql } = await open(t, { kind: 'embedded', socketDirectory: embedded.socketDirectory });
  t.match([...(await sql`SHOW server_version`)], [{ server_version: /^18/ }]);
  t.same(await read(sql), before);
  t.equal(before['scans']?.length, months.length);
  // It takes more, in months that it had and in new ones.
  const [user] = await sql<{ id: string }[]>`SELECT id FROM users`;
  const more = [...months, '2026-03-01T00:00:00Z'].map((time) => rowAt(Date.parse(time), { userId: user?.id ?? '' }));
  await createRowStore(sql)(more);
  t.match([...(await sql`SELECT count(*)::int AS scans FROM scans`)], [{ scans: months.length + more.length }]);
});

t.test('what cannot be loaded stops the start, and the old folder stays whole', async (t) => {
  const { dataDirectory, root } = await madeBefore(t, async (sql) => {
    await sql`CREATE TABLE odd (id int CHECK (current_setting('server_version_num')::int < 180000))`;
    await sql`INSERT INTO odd VALUES (1)`;
    // More than the pipe between them takes comes behind it: the program that reads dies first, and the other one of that.
    await sql`CREATE TABLE odd_rest AS SELECT generate_series(1, 300000)`;
  });
  await t.rejects(startEmbedded({ dataDirectory }), {
    name: 'StoreError',
    message: /^The embedded database can't be moved to PostgreSQL 18: psql: /,
  });
  t.ok(existsSync(join(root, String(major), 'PG_VERSION')));
  t.notOk(existsSync(join(root, '18')));
});
