// The embedded database's life: who may open it, what a crash leaves, and what it says when it can't be opened.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { createAccess } from '../../src/admission/access.js';
import { createKeyLoader } from '../../src/admission/key-owners.js';
import { codeOf } from '../../src/error-text.js';
import { lockDataDirectory, tryLock } from '../../src/store/data-lock.js';
import { startEmbedded } from '../../src/store/embedded/embedded.js';
import { teller } from '../../src/store/embedded/server.js';
import { openPostgres, type Sql } from '../../src/store/postgres.js';
import { createTestAdmissions } from '../fixtures/accounts.js';
import { seedEmbedded } from '../fixtures/embedded-template.js';
import { stoppedWith, temporaryFolder } from '../fixtures/folder.js';
import { planOf } from '../fixtures/plans.js';
import { childrenOf, programOf } from '../fixtures/processes.js';
import { open } from '../fixtures/stores.js';
import { until } from '../fixtures/until.js';

const opener = fileURLToPath(new URL('../fixtures/embedded-opener.js', import.meta.url));
const writer = fileURLToPath(new URL('../fixtures/embedded-writer.js', import.meta.url));

function claims(folder: string): string[] {
  return readdirSync(join(folder, 'open'));
}

t.test('only this user can reach the folder and the socket, and both are released', async (t) => {
  const folder = join(temporaryFolder(t), 'new', 'data');
  const embedded = await startEmbedded({ dataDirectory: folder });
  t.equal(statSync(folder).mode & 0o777, 0o700);
  t.equal(statSync(embedded.socketDirectory).mode & 0o777, 0o700);
  for (const name of ['', '18', 'socket']) {
    t.equal(statSync(join(folder, 'postgres', name)).mode & 0o777, 0o700, name);
  }
  t.equal(statSync(join(folder, 'open')).mode & 0o777, 0o700);
  t.equal(claims(folder).length, 1);
  await t.rejects(startEmbedded({ dataDirectory: folder }), {
    name: 'StoreError',
    message: `${folder} is in use by the process ${process.pid}: stop it, or set another DATA_DIR`,
  });
  await Promise.all([embedded.stop(), embedded.stop()]);
  t.same(claims(folder), []);
  t.same(readdirSync(embedded.socketDirectory), []);
});

/** Starts a process that commits an account in the folder; resolves when that is done, with the process and the account's key. */
async function writing(t: Test, folder: string) {
  const child = spawn(process.execPath, [writer, folder], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => child.kill('SIGKILL'));
  const ended = once(child, 'exit');
  const apiKey = await new Promise<string>((resolve) => createInterface({ input: child.stdout }).once('line', resolve));
  return {
    apiKey,
    async kill() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/** What the log of a start says. */
function listener() {
  const lines: string[] = [];
  const take = (fields: unknown, message?: unknown) => void lines.push(`${JSON.stringify(fields)} ${message}`);
  return { lines, log: { debug: () => undefined, info: take, warn: take, error: take } };
}

/** Started, until the end of the test. */
async function opened(t: Test, folder: string, log?: ReturnType<typeof listener>['log']): Promise<Sql> {
  const embedded = stoppedWith(t, await startEmbedded({ dataDirectory: folder, ...(log && { log }) }));
  return (await open(t, { kind: 'embedded', socketDirectory: embedded.socketDirectory })).sql;
}

function postmasterPid(folder: string): number {
  return Number(readFileSync(join(folder, 'postgres', '18', 'postmaster.pid'), 'utf8').split('\n')[0]);
}

function isThere(pid: number): boolean {
  return existsSync(`/proc/${pid}/exe`) && readFileSync(`/proc/${pid}/cmdline`, 'utf8') !== '';
}

async function gone(pid: number): Promise<void> {
  await until(() => !isThere(pid));
}

t.test('a process that is killed together with its database leaves its account and its key', async (t) => {
  const folder = temporaryFolder(t);
  const { apiKey, kill } = await writing(t, folder);
  const pid = postmasterPid(folder);
  process.kill(pid, 'SIGKILL');
  await kill();
  await gone(pid);

  const { lines, log } = listener();
  const sql = await opened(t, folder, log);
  t.match(lines.join('\n'), 'database system was not properly shut down; automatic recovery in progress');
  t.match([...(await sql`SELECT email FROM users`)], [{ email: 'killed@example.com' }]);
  const plans = [planOf('FREE', 50)];
  const store = createTestAdmissions({ load: createKeyLoader(sql, plans), clock: Date.now });
  t.teardown(() => store.stop());
  t.match(await createAccess(store, plans).withApiKey(apiKey), { outcome: 'admitted', quota: { remaining: 49 } });
});

t.test('the database of a process that is killed ends when nobody uses it any more', async (t) => {
  const folder = temporaryFolder(t);
  const { kill } = await writing(t, folder);
  const pid = postmasterPid(folder);
  const socketDirectory = join(folder, 'postgres', 'socket');
  const left = await openPostgres({ kind: 'embedded', socketDirectory });
  await kill();
  t.match([...(await left.sql`SELECT email FROM users`)], [{ email: 'killed@example.com' }], 'it still answers');
  await left.close();
  await gone(pid);
  const { lines, log } = listener();
  await (await startEmbedded({ dataDirectory: folder, log })).stop();
  t.same(lines, [], 'it has ended in order');
});

t.test('the next start ends a database that is still in use', async (t) => {
  const folder = temporaryFolder(t);
  const { kill } = await writing(t, folder);
  const pid = postmasterPid(folder);
  const left = await openPostgres({ kind: 'embedded', socketDirectory: join(folder, 'postgres', 'socket') });
  await kill();
  const { lines, log } = listener();
  const embedded = await startEmbedded({ dataDirectory: folder, log });
  t.teardown(() => embedded.stop());
  t.notOk(isThere(pid));
  t.match(lines.join('\n'), 'the database server of a supervisor that was killed is still there');
  // Its pool finds the new one.
  t.match([...(await left.sql`SELECT email FROM users`)], [{ email: 'killed@example.com' }]);
  await left.close();
});

t.test('a process id of a dead database that somebody else has now is no obstacle', async (t) => {
  const folder = temporaryFolder(t);
  const { kill } = await writing(t, folder);
  const pid = postmasterPid(folder);
  process.kill(pid, 'SIGKILL');
  await kill();
  await gone(pid);
  const files = [
    join(folder, 'postgres', '18', 'postmaster.pid'),
    join(folder, 'postgres', 'socket', '.s.PGSQL.5432.lock'),
  ];
  for (const path of files) {
    const [, ...rest] = readFileSync(path, 'utf8').split('\n');
    // Not of this process and not of those above it: PostgreSQL itself knows these.
    writeFileSync(path, [1, ...rest].join('\n'));
  }
  const sql = await opened(t, folder);
  t.equal((await sql`SELECT FROM users`).count, 1);
});

t.test(
  'a database that runs where its process id means nothing keeps the folder, however long its path is',
  async (t) => {
    const folder = join(temporaryFolder(t), 'long'.repeat(40));
    mkdirSync(folder);
    await seedEmbedded(folder);
    const descriptor = openSync(join(folder, 'postgres', 'socket'), 'r');
    t.teardown(() => closeSync(descriptor));
    const owner = createServer();
    await new Promise<void>((resolve) => owner.listen(`/proc/self/fd/${descriptor}/.s.PGSQL.5432`, resolve));
    await t.rejects(startEmbedded({ dataDirectory: folder }), {
      name: 'StoreError',
      message: /18 is in use by a PostgreSQL outside of this container: stop it, or set another DATA_DIR$/,
    });
    t.same(claims(folder), []);
    await new Promise((resolve) => owner.close(resolve));
    await (await startEmbedded({ dataDirectory: folder })).stop();
  },
);

t.test('an owner whose process id means nothing here keeps the folder until it ends', async (t) => {
  const folder = temporaryFolder(t);
  // In a container every service is process 1; a process of that id that runs here says nothing about the owner.
  const claim = join(folder, 'open', '1.another.sock');
  mkdirSync(join(folder, 'open'));
  const owner = createServer();
  await new Promise<void>((resolve) => owner.listen(claim, resolve));
  await t.rejects(startEmbedded({ dataDirectory: folder }), {
    name: 'StoreError',
    message: `${folder} is in use by the process 1: stop it, or set another DATA_DIR`,
  });
  await new Promise((resolve) => owner.close(resolve));

  // What a crash of the machine leaves: a claim that nobody listens on.
  writeFileSync(claim, '');
  await (await startEmbedded({ dataDirectory: folder })).stop();
  t.same(claims(folder), []);
});

const silent = { warn: () => undefined, error: () => undefined };

t.test('of many starters at once one has the folder, however long its path is', async (t) => {
  const folder = join(temporaryFolder(t), 'long'.repeat(40));
  mkdirSync(join(folder, 'open'), { recursive: true });
  for (const dead of ['1.dead1.sock', '2.dead2.sock']) writeFileSync(join(folder, 'open', dead), '');
  for (let round = 0; round < 8; round += 1) {
    const starts = Array.from({ length: 6 }, () => lockDataDirectory(folder, silent));
    const settled = await Promise.allSettled(starts);
    const owners = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    t.ok(owners.length <= 1, `${owners.length} owners`);
    for (const one of settled) if (one.status === 'rejected') t.match(one.reason, { name: 'StoreError' });
    for (const release of owners) await release();
    t.same(claims(folder), []);
  }
  await (await lockDataDirectory(folder, silent))();
});

t.test('a lock that the system refuses says why, in words and as its code', async (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, 'open'));
  const name = `${process.pid}.taken.sock`;
  writeFileSync(join(folder, 'open', name), '');
  const refused = tryLock(folder, 'taken');
  await t.rejects(refused, { name: 'StoreError', message: /can't hold the lock, a UNIX socket: .*EADDRINUSE/ });
  t.equal(codeOf(await refused.catch((error: unknown) => error)), 'EADDRINUSE');
  t.same(claims(folder), [name], 'what is not ours stays');
});

t.test('a folder that others use keeps its mode, what we put into it is closed', async (t) => {
  const shared = temporaryFolder(t);
  chmodSync(shared, 0o1777);
  const used = temporaryFolder(t);
  chmodSync(used, 0o755);
  writeFileSync(join(used, 'of-somebody-else'), '');
  for (const folder of [shared, used]) {
    const before = statSync(folder).mode;
    await (await startEmbedded({ dataDirectory: folder })).stop();
    t.equal(statSync(folder).mode, before);
    t.equal(statSync(join(folder, 'postgres')).mode & 0o777, 0o700);
  }
});

t.test('a first start that was killed half way is begun again', async (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, 'postgres', '18.new'), { recursive: true });
  writeFileSync(join(folder, 'postgres', '18.new', 'PG_VERSION'), '1');
  const sql = await opened(t, folder);
  t.same([...(await sql`SELECT 1 AS one`)], [{ one: 1 }]);
});

t.test('a start right after one that was killed is not disturbed by what that one is still making', async (t) => {
  const folder = temporaryFolder(t);
  const root = join(folder, 'postgres');
  /** By their inodes: of a folder that was removed and made again it is another one. */
  const made = (): number[] => {
    const names = existsSync(root) ? readdirSync(root).filter((name) => name.endsWith('.new')) : [];
    return names.flatMap((name) => statSync(join(root, name, 'base', '1'), { throwIfNoEntry: false })?.ino ?? []);
  };
  const killed = spawn(process.execPath, [opener, folder], { stdio: 'ignore' });
  const ended = once(killed, 'exit');
  const [first] = await until(() => made().length > 0 && made());
  const initdb = childrenOf(killed.pid ?? 0).find((pid) => programOf(pid).endsWith('/initdb')) ?? 0;
  t.teardown(() => {
    if (isThere(initdb)) process.kill(initdb, 'SIGKILL');
  });
  process.kill(initdb, 'SIGSTOP');
  killed.kill('SIGKILL');
  await ended;

  const starting = startEmbedded({ dataDirectory: folder });
  await Promise.race([starting, until(() => made().some((inode) => inode !== first))]);
  process.kill(initdb, 'SIGCONT');
  await (await starting).stop();
  await gone(initdb);
});

t.test('the path of the folder may be longer than that of a socket', async (t) => {
  const folder = join(temporaryFolder(t), 'long'.repeat(40));
  const sql = await opened(t, folder);
  t.same([...(await sql`SELECT 1 AS one`)], [{ one: 1 }]);
});

t.test('a query has its end, others do not wait for it, and none can reach beyond the tables', async (t) => {
  const folder = temporaryFolder(t);
  await seedEmbedded(folder);
  const sql = await opened(t, folder);
  let isOver = false;
  const endless = sql.transaction('readCommitted', async (tx) => {
    await tx`SET LOCAL statement_timeout = 500`;
    await tx`SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 10000000) b`;
  });
  const failed = t.rejects(endless, { code: '57014' }).then(() => {
    isOver = true;
  });
  t.same([...(await sql`SELECT 1 AS one`)], [{ one: 1 }]);
  t.notOk(isOver);
  await failed;
  await t.rejects(sql`COPY (SELECT 1) TO PROGRAM 'true'`, { code: '42501' });
  await t.rejects(sql`COPY (SELECT 1) TO '/tmp/of-the-database'`, { code: '42501' });
  await t.rejects(sql`SELECT pg_read_file('/etc/passwd')`, { code: '42501' });
  t.match(
    [...(await sql`SHOW fsync`), ...(await sql`SHOW listen_addresses`)],
    [{ fsync: 'on' }, { listen_addresses: '' }],
  );
});

t.test('one of its processes that dies takes nothing with it, and the log tells of the repair', async (t) => {
  const folder = temporaryFolder(t);
  await seedEmbedded(folder);
  const { lines, log } = listener();
  const sql = await opened(t, folder, log);
  await sql`CREATE TABLE kept (n int)`;
  await sql`INSERT INTO kept VALUES (1)`;
  const [mine] = await sql<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
  process.kill(mine?.pid ?? 0, 'SIGKILL');
  await t.rejects(sql`SELECT pg_sleep(60)`);
  const rows = await until(() => sql`SELECT n FROM kept`.catch(() => null));
  t.match(rows, [{ n: 1 }]);
  t.match(lines.join('\n'), 'was terminated by signal 9');
});

t.test('a folder that cannot be used is named, and nothing is left behind', async (t) => {
  const file = join(temporaryFolder(t), 'file');
  writeFileSync(file, '');
  await t.rejects(startEmbedded({ dataDirectory: join(file, 'data') }), {
    name: 'StoreError',
    message: /^The data directory .*\/file\/data can't be written: ENOTDIR/,
  });
  const damaged = temporaryFolder(t);
  await seedEmbedded(damaged);
  rmSync(join(damaged, 'postgres', '18', 'global', 'pg_control'));
  await t.rejects(startEmbedded({ dataDirectory: damaged }), {
    name: 'StoreError',
    message: /^The embedded database can't be started: .*pg_control/,
  });
  t.same(claims(damaged), []);
});

t.test('a folder of another database or another version says what to do, and stays as it is', async (t) => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ['postgres/PG_VERSION', /was made by an early version of Sluice, with another database .*: move it away$/],
    ['postgres/99/PG_VERSION', /is of PostgreSQL 99, and this Sluice brings 18: upgrade Sluice$/],
    [
      'postgres/9/PG_VERSION',
      /is of PostgreSQL 9, and this Sluice brings 18: install PostgreSQL 9 \(Debian: postgresql-9\)/,
    ],
  ];
  for (const [path, message] of cases) {
    const folder = temporaryFolder(t);
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), 'as it is');
    await t.rejects(startEmbedded({ dataDirectory: folder }), { name: 'StoreError', message });
    t.equal(readFileSync(join(folder, path), 'utf8'), 'as it is');
    t.same(claims(folder), []);
  }
});

t.test('a Postgres that is not there is reported without the password', async (t) => {
  const error: unknown = await openPostgres({ kind: 'url', url: 'postgres://me:secret@127.0.0.1:1/sluice' }).catch(
    (e) => e,
  );
  t.match(error, { name: 'StoreError', message: /^Postgres at 127\.0\.0\.1:1\/sluice can't be used: .*ECONNREFUSED/ });
  t.notMatch(String(error instanceof Error ? error.stack : error), 'secret');
  await t.rejects(openPostgres({ kind: 'url', url: 'postgres://me:secret@[/sluice' }), {
    message: 'DATABASE_URL is not a valid URL',
  });
  for (const url of ['me:123/456@db/sluice', 'me:123?456@db/sluice', 'me:123#456@db/sluice']) {
    await t.rejects(openPostgres({ kind: 'url', url: `postgres://${url}` }), {
      name: 'StoreError',
      message: 'DATABASE_URL has a user or a password with one of / ? # in it: write them as %2F %3F %23',
    });
  }
  await t.rejects(openPostgres({ kind: 'url', url: 'postgres://me:456@db/sluice?target_session_attrs=any' }), {
    name: 'StoreError',
    message: 'DATABASE_URL is not a URL that the Postgres driver can read',
  });
});

t.test('a connection that gets no process of its own is in the log, with what bounds them', async (t) => {
  const said: unknown[] = [];
  const hear = (facts: object): void => void said.push(facts);
  const tell = teller({ debug: () => undefined, info: hear, warn: hear, error: hear });
  tell('LOG:  could not fork new process for connection: Resource temporarily unavailable');
  t.match(said, [{ line: /could not fork/, reason: /TasksMax=/ }]);
});
