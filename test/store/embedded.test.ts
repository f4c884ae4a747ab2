// The embedded store's life: who may open it, what a crash leaves, and what it says when it can't be opened.
import { spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { createAccess } from '../../src/account/access.js';
import { createKeyLoader } from '../../src/account/keys.js';
import { lockDataDirectory } from '../../src/store/data-lock.js';
import { startEmbedded } from '../../src/store/embedded.js';
import { openPostgres } from '../../src/store/postgres.js';
import { codeOf } from '../../src/store/store-error.js';
import { createTestAdmissions } from '../fixtures/accounts.js';
import { open, temporaryFolder } from '../fixtures/stores.js';

const writer = fileURLToPath(new URL('../fixtures/embedded-writer.js', import.meta.url));

function claims(folder: string): string[] {
  return readdirSync(join(folder, 'open'));
}

t.test('only this user can reach the folder and the socket, and both are released', async (t) => {
  const folder = join(temporaryFolder(t), 'new', 'data');
  const embedded = await startEmbedded(folder);
  t.equal(statSync(folder).mode & 0o777, 0o700);
  t.equal(statSync(embedded.socketDirectory).mode & 0o777, 0o700);
  t.equal(statSync(join(folder, 'postgres')).mode & 0o777, 0o700);
  t.equal(statSync(join(folder, 'open')).mode & 0o777, 0o700);
  t.equal(claims(folder).length, 1);
  await t.rejects(startEmbedded(folder), {
    name: 'StoreError',
    message: `${folder} is in use by the process ${process.pid}: stop it, or set another DATA_DIR`,
  });
  await Promise.all([embedded.stop(), embedded.stop()]);
  t.same(claims(folder), []);
  t.notOk(existsSync(embedded.socketDirectory));
});

t.test('a killed process leaves its account, its key and a lock that is taken over', async (t) => {
  const folder = temporaryFolder(t);
  // The child commits an account, says so, and is killed at that moment.
  const child = spawn(process.execPath, [writer, folder], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  const [apiKey, socketDirectory] = await new Promise<string[]>((resolve) => {
    createInterface({ input: child.stdout }).once('line', (line) => {
      child.kill('SIGKILL');
      resolve(line.split(' '));
    });
  });
  await ended;
  t.ok(
    apiKey !== undefined && socketDirectory !== undefined && existsSync(socketDirectory),
    'its socket folder is left',
  );

  const embedded = await startEmbedded(folder);
  t.teardown(() => embedded.stop());
  t.notOk(existsSync(String(socketDirectory)), 'the next start removes it');
  const { sql } = await open(t, { kind: 'embedded', socketDirectory: embedded.socketDirectory });
  t.match([...(await sql`SELECT email FROM users`)], [{ email: 'killed@example.com' }]);
  const store = createTestAdmissions({ load: createKeyLoader(sql, () => 50), clock: Date.now });
  t.teardown(() => store.stop());
  t.match(await createAccess(store, () => 50).withApiKey(apiKey), { outcome: 'admitted', quota: { remaining: 49 } });
});

t.test('an owner whose process id means nothing here keeps the folder until it ends', async (t) => {
  const folder = temporaryFolder(t);
  // In a container every service is process 1; a process of that id that runs here says nothing about the owner.
  const claim = join(folder, 'open', '1.another.sock');
  mkdirSync(join(folder, 'open'));
  const owner = createServer();
  await new Promise<void>((resolve) => owner.listen(claim, resolve));
  await t.rejects(startEmbedded(folder), {
    name: 'StoreError',
    message: `${folder} is in use by the process 1: stop it, or set another DATA_DIR`,
  });
  await new Promise((resolve) => owner.close(resolve));

  // What a crash of the machine leaves: a claim that nobody listens on.
  writeFileSync(claim, '');
  await (await startEmbedded(folder)).stop();
  t.same(claims(folder), []);
});

t.test('of many starters at once one has the folder, however long its path is', async (t) => {
  const folder = join(temporaryFolder(t), 'long'.repeat(40));
  mkdirSync(join(folder, 'open'), { recursive: true });
  for (const dead of ['1.dead1.sock', '2.dead2.sock']) writeFileSync(join(folder, 'open', dead), '');
  for (let round = 0; round < 8; round += 1) {
    const starts = Array.from({ length: 6 }, (_, index) => lockDataDirectory(folder, `sluice-${round}x${index}`));
    const settled = await Promise.allSettled(starts);
    const owners = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    t.ok(owners.length <= 1, `${owners.length} owners`);
    for (const one of settled) if (one.status === 'rejected') t.match(one.reason, { name: 'StoreError' });
    for (const release of owners) await release();
    t.same(claims(folder), []);
  }
  await (await lockDataDirectory(folder, 'sluice-after'))();
});

t.test('a lock that the system refuses says why, in words and as its code', async (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, 'open'));
  const name = `${process.pid}.taken.sock`;
  writeFileSync(join(folder, 'open', name), '');
  const refused = lockDataDirectory(folder, 'sluice-taken');
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
    await (await startEmbedded(folder)).stop();
    t.equal(statSync(folder).mode, before);
    t.equal(statSync(join(folder, 'postgres')).mode & 0o777, 0o700);
  }
});

t.test('a first start that was killed half way is begun again', async (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, 'postgres.new'));
  writeFileSync(join(folder, 'postgres.new', 'PG_VERSION'), '1');
  const embedded = await startEmbedded(folder);
  t.teardown(() => embedded.stop());
  const { sql } = await open(t, { kind: 'embedded', socketDirectory: embedded.socketDirectory });
  t.same([...(await sql`SELECT 1 AS one`)], [{ one: 1 }]);
});

t.test(
  'a thread that hangs is ended and its death told, and what was committed is there at the next start',
  async (t) => {
    const folder = temporaryFolder(t);
    let told: (error: Error) => void = () => undefined;
    const death = new Promise<Error>((resolve) => {
      told = resolve;
    });
    const embedded = await startEmbedded(folder, (error) => told(error), { intervalMs: 20, missesMax: 100 });
    const store = await openPostgres({ kind: 'embedded', socketDirectory: embedded.socketDirectory });
    await store.sql`CREATE TABLE kept (n int)`;
    await store.sql`INSERT INTO kept VALUES (1)`;
    // Hours of work in one statement: PGlite can't be interrupted in it.
    const endless = store.sql`SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 10000000) b`;
    const failed = t.rejects(endless);
    t.match(await death, {
      name: 'StoreError',
      message: 'The embedded store has died: its thread hung; is the disk full?',
    });
    await store.close();
    await failed;
    await embedded.stop();
    t.same(claims(folder), []);

    const again = await startEmbedded(folder);
    t.teardown(() => again.stop());
    const { sql } = await open(t, { kind: 'embedded', socketDirectory: again.socketDirectory });
    t.same([...(await sql`SELECT n FROM kept`)], [{ n: 1 }]);
  },
);

t.test('a folder that cannot be used is named, and nothing is left behind', async (t) => {
  const file = join(temporaryFolder(t), 'file');
  writeFileSync(file, '');
  await t.rejects(startEmbedded(join(file, 'data')), {
    name: 'StoreError',
    message: /^The data directory .*\/file\/data can't be written: ENOTDIR/,
  });
  const damaged = temporaryFolder(t);
  writeFileSync(join(damaged, 'postgres'), 'not a folder');
  await t.rejects(startEmbedded(damaged), { name: 'StoreError', message: /^The embedded store can't be opened: / });
  t.same(claims(damaged), []);
});

t.test('a Postgres that is not there is told without the password', async (t) => {
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
  await t.rejects(openPostgres({ kind: 'url', url: 'postgres://me:456%zz@db/sluice' }), {
    name: 'StoreError',
    message: 'DATABASE_URL is not a URL that the Postgres driver can read',
  });
});
