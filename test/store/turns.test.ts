// The embedded store's one session shared by several connections: nothing of one gets into the transaction of another.
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import t from 'tap';
import { startEmbedded } from '../../src/store/embedded.js';
import { openPostgres } from '../../src/store/postgres.js';
import { createBackendReader, createFrontendReader } from '../../src/store/turn-messages.js';
import { shareSession } from '../../src/store/turns.js';

function message(type: string, body: string): Buffer {
  const head = Buffer.alloc(5);
  head.write(type, 0, 'latin1');
  head.writeUInt32BE(4 + body.length, 1);
  return Buffer.concat([head, Buffer.from(body)]);
}

t.test('messages are told apart however they are cut', async (t) => {
  const startup = Buffer.from([0, 0, 0, 9, 0, 3, 0, 0, 0]);
  const frontend = Buffer.concat([
    startup,
    message('P', 'parse'),
    message('S', ''),
    message('Q', 'Q'),
    message('P', ''),
  ]);
  const backend = Buffer.concat([message('1', ''), message('D', 'Z\\0\\0'), message('Z', 'T'), message('Z', 'I')]);
  for (const size of [1, 2, 3, 5, 7, 100]) {
    let requests = 0;
    const statuses: string[] = [];
    const front = createFrontendReader(() => {
      requests += 1;
    });
    const back = createBackendReader((status) => statuses.push(status));
    for (let at = 0; at < frontend.length; at += size) front.read(frontend.subarray(at, at + size));
    for (let at = 0; at < backend.length; at += size) back.read(backend.subarray(at, at + size));
    t.equal(requests, 3, `cut into ${size}`);
    t.ok(front.isInside, 'the last parse waits for its sync');
    t.strictSame(statuses, ['T', 'I']);
    t.notOk(back.isInside);
  }
});

t.test('with an embedded store', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'turns-test-'));
  const embedded = await startEmbedded(folder);
  const shared = mkdtempSync(join(tmpdir(), 'turns-socket-'));
  const turns = await shareSession(shared, embedded.socketDirectory);
  const open = () => openPostgres({ kind: 'embedded', socketDirectory: shared });
  const clients = [await open(), await open(), await open()];
  t.teardown(async () => {
    await Promise.all(clients.map((client) => client.close()));
    await turns.unused();
    await turns.stop();
    await embedded.stop();
    for (const path of [folder, shared]) rmSync(path, { recursive: true, force: true });
  });
  const [first] = clients;
  if (first === undefined) throw new Error('There are three');
  await first.sql`CREATE TABLE counter (value integer NOT NULL)`;
  await first.sql`INSERT INTO counter VALUES (0)`;

  t.test('transactions of several connections follow each other', async (t) => {
    const rounds = 20;
    await Promise.all(
      clients.map(async ({ sql }) => {
        for (let round = 0; round < rounds; round += 1) {
          await sql.transaction('readCommitted', async (tx) => {
            const [row] = await tx`SELECT value FROM counter`;
            await new Promise((resolve) => setImmediate(resolve));
            await tx`UPDATE counter SET value = ${Number(row?.['value']) + 1}`;
          });
        }
      }),
    );
    t.match(await first.sql`SELECT value FROM counter`, [{ value: rounds * clients.length }]);
  });

  t.test('a connection that ends inside its transaction leaves nothing of it, and the others go on', async (t) => {
    const dying = await open();
    const inside = dying.sql
      .transaction('readCommitted', async (tx) => {
        await tx`UPDATE counter SET value = -1`;
        await dying.close();
        await tx`SELECT 1`;
      })
      .catch(() => 'cut off');
    t.equal(await inside, 'cut off');
    const [row] = await first.sql`SELECT value FROM counter`;
    t.ok(Number(row?.['value']) > 0);
  });

  t.test('a statement may last longer than a client may be silent', async (t) => {
    const impatient = mkdtempSync(join(tmpdir(), 'turns-impatient-'));
    const session = await shareSession(impatient, embedded.socketDirectory, 50);
    const patient = await openPostgres({ kind: 'embedded', socketDirectory: impatient });
    t.teardown(async () => {
      await patient.close();
      await session.unused();
      await session.stop();
      rmSync(impatient, { recursive: true, force: true });
    });
    t.match(await patient.sql`SELECT count(*)::int AS rows, pg_sleep(0.5) FROM generate_series(1, 1000)`, [
      { rows: 1000 },
    ]);
    const result = await patient.sql.transaction('readCommitted', async (tx) => {
      await tx`UPDATE counter SET value = value`;
      return await tx`SELECT 'whole' AS answer, pg_sleep(0.5)`;
    });
    t.match(result, [{ answer: 'whole' }]);
    const silent = connect(join(impatient, '.s.PGSQL.5432'));
    const startup = Buffer.from('\0\0\0\0\0\x03\0\0user\0postgres\0database\0postgres\0\0');
    startup.writeUInt32BE(startup.length);
    silent.resume().write(Buffer.concat([startup, message('Q', 'BEGIN; UPDATE counter SET value = -2\0')]));
    await once(silent, 'close');
    const [row] = await patient.sql`SELECT value FROM counter`;
    t.ok(Number(row?.['value']) >= 0, 'who is silent inside a transaction leaves nothing of it');
  });

  t.test('half a message keeps the turn no longer than silence does', async (t) => {
    const impatient = mkdtempSync(join(tmpdir(), 'turns-half-'));
    const session = await shareSession(impatient, embedded.socketDirectory, 50);
    t.teardown(async () => {
      await session.stop();
      rmSync(impatient, { recursive: true, force: true });
    });
    const half = connect(join(impatient, '.s.PGSQL.5432'));
    half.resume().write(Buffer.from([0, 0, 0, 99, 0, 3]));
    await once(half, 'close');
    await session.unused();
    t.equal(session.connections, 0);
  });

  t.test('what a query costs', async (t) => {
    const startedMs = performance.now();
    const queries = 500;
    await Promise.all(
      clients.map(async ({ sql }) => {
        for (let query = 0; query < queries; query += 1) await sql`SELECT value FROM counter`;
      }),
    );
    const seconds = (performance.now() - startedMs) / 1000;
    t.comment(
      `${Math.round((queries * clients.length) / seconds)} queries a second over ${clients.length} connections`,
    );
  });
});
