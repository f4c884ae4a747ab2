// A backup that is made while the service serves, and the service that comes of it.
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gunzipSync, gzipSync } from 'node:zlib';
import postgres from 'postgres';
import t, { type Test } from 'tap';
import { mainPath } from '../../src/paths.js';
import { schemaOf } from '../../src/store/postgres.js';
import { start } from '../fixtures/command.js';
import { type Teardown, temporaryFolder } from '../fixtures/folder.js';
import { type PostgresServer, startPostgres } from '../fixtures/postgres.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer } from '../fixtures/server.js';
import { ask, bearer, post, signIn } from '../fixtures/sign-in.js';
import { open } from '../fixtures/stores.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const cli = (...args: string[]) => cliWith({}, ...args);

async function cliWith(env: Readonly<Record<string, string>>, ...args: string[]) {
  const { code, stdout, stderr } = await start(t, mainPath, args, { env }).ended;
  return { code, text: code === 0 ? stdout : stderr };
}

async function scansOf(url: string, filter = ''): Promise<number> {
  const { accessToken } = await signIn(url);
  const { body } = await ask(`${url}/web/scans/stats?size=1${filter}`, { headers: bearer(accessToken) });
  return Number(Object(body).totalElements);
}

t.test('what was there at the backup is there after the restore, and what is no backup makes nothing', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'one.backup');
  const server = await startServer({ t });
  // Its deliveries are numbered, also behind those that are back.
  const { accessToken } = await signIn(server.url);
  const webhook = { url: 'https://receiver.example/' };
  t.equal((await post(`${server.url}/web/webhooks`, webhook, bearer(accessToken))).status, 201);
  for (const content of ['one', 'two', eicar()]) t.equal((await upload(server.url, content)).status, 200);
  await until(async () => (await scansOf(server.url)) === 3);
  const data = `${server.directory}/data`;
  t.equal((await cli('user', 'set-limit', 'admin@sluice.local', '123456', '--data-dir', data)).code, 0);

  // The service goes on meanwhile.
  let isOver = false;
  const scanning = (async () => {
    while (!isOver) t.equal((await upload(server.url, 'meanwhile')).status, 200);
  })();
  const made = await cli('backup', file, '--data-dir', data);
  isOver = true;
  await scanning;
  t.match(made, { code: 0, text: /one\.backup has \d+ rows/ });
  t.equal(statSync(file).mode & 0o777, 0o600, 'nobody else may read it');
  t.match(await cli('backup', file, '--data-dir', data), { code: 2, text: /is there already/ });
  const nowhere = join(folder, 'nowhere', 'one.backup');
  t.match(await cli('backup', nowhere, '--data-dir', data), { code: 2, text: /^ENOENT: .*, open '.*nowhere/ });
  t.match(await cli('restore', file, '--data-dir', data), { code: 2, text: /in use/ });

  const lines = gunzipSync(readFileSync(file)).toString().trimEnd().split('\n');
  const broken = {
    cut: lines.slice(0, -1),
    other: [lines[0]?.replace(/"schema":"../, '"schema":"zz'), ...lines.slice(1)],
  };
  const fresh = join(folder, 'data');
  for (const [name, text] of Object.entries(broken)) {
    writeFileSync(join(folder, name), gzipSync(`${text.join('\n')}\n`));
  }
  const damaged = readFileSync(file);
  damaged.writeUInt8(damaged.readUInt8(damaged.length >> 1) ^ 1, damaged.length >> 1);
  writeFileSync(join(folder, 'damaged'), damaged);
  for (const name of [...Object.keys(broken), 'damaged']) {
    t.equal((await cli('restore', join(folder, name), '--data-dir', fresh)).code, 2, name);
  }
  for (const none of [join(folder, 'nothing'), folder]) {
    t.match(await cli('restore', none, '--data-dir', fresh), { code: 2, text: /can't be read/ }, none);
  }
  t.notOk(existsSync(fresh), 'nothing is made of them');
  // The folder that is named counts, whatever the environment says.
  const other = { DATABASE_URL: 'postgres://127.0.0.1:1/sluice' };
  t.match(await cliWith(other, 'restore', file, '--data-dir', fresh), { code: 0, text: `with DATA_DIR=${fresh}\n` });
  t.match(await cli('restore', file, '--data-dir', fresh), { code: 2, text: /rows in audit_log already/ });

  const again = await startServer({ t, directory: folder });
  const answer = await upload(again.url, 'after', { key: API_KEY });
  t.equal(answer.status, 200, 'the key is one');
  t.equal(answer.headers.get('x-ratelimit-limit'), '123456');
  const sha256 = String(answer.headers.get('x-scan-sha256'));
  await until(async () => (await scansOf(again.url, `&sha256=${sha256}`)) === 1);
  t.ok((await scansOf(again.url)) >= 4);
  t.match(await cli('audit', '--data-dir', fresh), { code: 0, text: /account\.limit/ });
  t.equal((await cli('user', 'delete', 'admin@sluice.local', '--yes', '--data-dir', fresh)).code, 0);
  await again.stop();
  const used = await cli('restore', file, '--data-dir', fresh);
  t.match(used, { code: 2, text: /rows in \w+ already/ }, 'what sealed its secrets would be lost');
});

t.test('a backup of an older version is restored, and brought to this one', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'newer.backup');
  const server = await startServer({ t });
  t.equal((await upload(server.url, 'before')).status, 200);
  await until(async () => (await scansOf(server.url)) === 1);
  t.equal((await cli('backup', file, '--data-dir', `${server.directory}/data`)).code, 0);
  // As the version before the table of who counts made it: of what a backup has, this table alone is newer.
  const lines = gunzipSync(readFileSync(file)).toString().trimEnd().split('\n');
  const batches = lines.slice(1, -1).filter((line) => !line.startsWith('{"table":"ledger_away"'));
  const rows = batches.reduce((sum, line) => sum + JSON.parse(line).rows.length, 0);
  const head = { ...JSON.parse(lines[0] ?? ''), schema: schemaOf(28) };
  const older = [JSON.stringify(head), ...batches, JSON.stringify({ end: rows })];
  writeFileSync(join(folder, 'older.backup'), gzipSync(`${older.join('\n')}\n`));
  t.equal(batches.length, lines.length - 3);

  const restored = await cli('restore', join(folder, 'older.backup'), '--data-dir', join(folder, 'data'));
  t.match(restored, { code: 0, text: `${rows} rows are back` });
  const again = await startServer({ t, directory: folder });
  t.equal((await upload(again.url, 'after', { key: API_KEY })).status, 200);
  await until(async () => (await scansOf(again.url)) === 2);

  // Tables of another version are not filled.
  const postgres = await startPostgres({ t });
  const url = await postgres.database();
  const { sql } = await open(t, { kind: 'url', url });
  const refused = await cliWith({ DATABASE_URL: url }, 'restore', join(folder, 'older.backup'));
  t.match(refused, {
    code: 2,
    text: /The database is at version \d+, and tables of version 28 are wanted: take an empty one/,
  });
  t.match([...(await sql`SELECT count(*)::int AS users FROM users`)], [{ users: 0 }]);
  const empty = await postgres.database();
  t.match(await cliWith({ DATABASE_URL: empty }, 'restore', join(folder, 'older.backup')), { code: 0 });
  const filled = await open(t, { kind: 'url', url: empty });
  t.match(
    [
      ...(await filled.sql`SELECT (SELECT count(*)::int FROM users) AS users, (SELECT count(*)::int FROM ledger_away) AS away`),
    ],
    [{ users: 1, away: 1 }],
  );
});

/** What the database has in it does not matter here. */
async function emptyDatabase(t: Teardown) {
  const url = await (await startPostgres({ t })).database();
  const { sql } = await open(t, { kind: 'url', url });
  return { sql, env: { DATABASE_URL: url } };
}

const EPERM = '1';
/** The numbers of the calls that give a file a second name. */
const LINKS = process.arch === 'arm64' ? '37' : '86,265';

const partialIn = (folder: string) => readdirSync(folder).filter((name) => name.endsWith('.partial'));

t.test('a backup that is killed leaves no file of its name, and the next one is made', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'one.backup');
  const { sql, env } = await emptyDatabase(t);
  await sql.transaction('readCommitted', async (tx) => {
    // It waits for the table.
    await tx`LOCK TABLE users IN ACCESS EXCLUSIVE MODE`;
    const killed = start(t, mainPath, ['backup', file], { env });
    await until(() => partialIn(folder).length === 1);
    killed.process.kill('SIGKILL');
    await killed.ended;
  });
  t.notOk(existsSync(file));
  t.match(await cliWith(env, 'backup', file), { code: 0, text: /one\.backup has \d+ rows/ });
  t.equal(partialIn(folder).length, 1, 'the one of the command that was killed');
});

t.test('a file that comes to be meanwhile stays as it is', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'one.backup');
  const { sql, env } = await emptyDatabase(t);
  const refused = await sql.transaction('readCommitted', async (tx) => {
    await tx`LOCK TABLE users IN ACCESS EXCLUSIVE MODE`;
    const { ended } = start(t, mainPath, ['backup', file], { env });
    await until(() => partialIn(folder).length === 1);
    writeFileSync(file, 'of somebody else');
    return { ended };
  });
  t.match(await refused.ended, { code: 2, stderr: /one\.backup is there already/ });
  t.equal(readFileSync(file, 'utf8'), 'of somebody else');
  t.same(partialIn(folder), []);
});

t.test('where a file can have one name only, a backup is made as well', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'one.backup');
  const { env } = await emptyDatabase(t);
  const kernel = fileURLToPath(new URL('../../../test/fixtures/without-call.py', import.meta.url));
  const args = [kernel, EPERM, LINKS, process.execPath, mainPath, 'backup', file];
  const { stdout } = await promisify(execFile)('python3', args, { env: { PATH: process.env['PATH'], ...env } });
  t.match(stdout, /one\.backup has \d+ rows/);
  t.same(readdirSync(folder), ['one.backup']);
});

const ENOSPC = '28';
/** The number of fsync. */
const SYNC = process.arch === 'arm64' ? '82' : '74';

t.test('a disk without room, for the backup or for the database, is said in one line', async (t) => {
  const folder = temporaryFolder(t);
  const { sql, env } = await emptyDatabase(t);
  const kernel = fileURLToPath(new URL('../../../test/fixtures/without-call.py', import.meta.url));
  const args = [kernel, ENOSPC, SYNC, process.execPath, mainPath, 'backup', join(folder, 'one.backup')];
  const full = promisify(execFile)('python3', args, { env: { PATH: process.env['PATH'], ...env } });
  await t.rejects(full, {
    code: 2,
    stderr: /^\S+one\.backup can't be written: ENOSPC: no space left on device, fsync\n$/,
  });
  t.same(readdirSync(folder), []);
  await sql.unsafe(`
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION refuse()`);
  const refused = await cliWith(env, 'user', 'add', 'ada@example.com');
  t.strictSame(refused, { code: 2, text: "The store can't be used: could not extend file\n" });
});

/** An account, in a file. */
async function oneAccount(t: Test, postgres: PostgresServer): Promise<string> {
  const file = join(temporaryFolder(t), 'one.backup');
  const env = { DATABASE_URL: await postgres.database() };
  await open(t, { kind: 'url', url: env.DATABASE_URL });
  t.match(await cliWith(env, 'user', 'add', 'ada@example.com'), { code: 0 });
  t.match(await cliWith(env, 'backup', file), { code: 0 });
  return file;
}

async function isRefused(t: Test, env: Readonly<Record<string, string>>, reason: RegExp): Promise<void> {
  t.equal((await cliWith(env, 'user', 'list')).code, 2);
  const { code, stdout, stderr } = await start(t, mainPath, ['serve'], { env: { ...env, PORT: '0', ADMIN_PORT: '0' } })
    .ended;
  t.match({ code, text: stdout + stderr }, { code: 69, text: reason });
}

t.test('a folder where a restore was killed is no new service, and the restore given again fills it', async (t) => {
  const file = await oneAccount(t, await startPostgres({ t }));
  const env = { DATA_DIR: join(temporaryFolder(t), 'data') };
  const mark = join(env.DATA_DIR, 'restoring');
  const killed = start(t, mainPath, ['restore', file], { env });
  await until(() => existsSync(mark));
  killed.process.kill('SIGKILL');
  await killed.ended;
  const reason = /A restore into \S+ has not come to its end: give it again, or/;
  await isRefused(t, env, reason);
  // As for another user, who can't take the lock in what root has made.
  const locks = join(env.DATA_DIR, 'open');
  rmSync(locks, { recursive: true });
  writeFileSync(locks, '');
  await isRefused(t, env, reason);
  rmSync(locks);
  t.match(await cliWith(env, 'restore', file), { code: 0 });
  t.notOk(existsSync(mark));
  // As after a kill behind the last row.
  writeFileSync(mark, '');
  t.match(await cliWith(env, 'restore', file), { code: 0 });
  t.match(await cliWith(env, 'user', 'list'), { code: 0, text: 'ada@example.com' });
  t.match(await cliWith(env, 'restore', file), { code: 2, text: /rows in \w+ already/ });
  t.match(await cliWith(env, 'user', 'list'), { code: 0 }, 'a restore that is refused marks nothing');
});

t.test(
  'a database where a restore was killed is none for a service, and the restore given again fills it',
  async (t) => {
    const server = await startPostgres({ t });
    const file = await oneAccount(t, server);
    const folder = temporaryFolder(t);

    async function killWhile(url: string, held: string): Promise<void> {
      const env = { DATABASE_URL: url, DATA_DIR: folder };
      const sql = postgres(url, { max: 2, onnotice: () => undefined });
      const isMarked = async () => (await sql`SELECT to_regclass('sluice_restoring') AS found`)[0]?.['found'] !== null;
      await sql.begin(async (tx) => {
        await tx.unsafe(held);
        const killed = start(t, mainPath, ['restore', file], { env });
        await until(isMarked);
        killed.process.kill('SIGKILL');
        await killed.ended;
      });
      await sql.end();
      await isRefused(t, env, /: a restore into it has not come to its end: give it again, or take an empty database/);
      t.match(await cliWith(env, 'restore', file), { code: 0 });
      t.match(await cliWith(env, 'user', 'list'), { code: 0, text: 'ada@example.com' });
    }
    // Before there are tables: what migrations wait for.
    await killWhile(await server.database(), 'SELECT pg_advisory_xact_lock(5749281601)');
    const empty = await server.database();
    await open(t, { kind: 'url', url: empty });
    await killWhile(empty, 'LOCK TABLE users IN SHARE MODE');
  },
);
