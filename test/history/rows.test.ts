// Rows in the database, on both stores: each once however often it comes, counts that equal the rows, keys used when they say.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createKey, endKey, listKeys } from '../../src/account/keys.js';
import { startWriter } from '../../src/history/history.js';
import { COPY_SCANS, createRowStore, RowCopy } from '../../src/history/rows-to-database.js';
import type { ScanRow } from '../../src/history/scan-row.js';
import type { Sql } from '../../src/store/postgres.js';
import { cutAtCommit } from '../fixtures/cut-at-commit.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { BOB, encodeRow, frame, record, rowAt } from '../fixtures/history.js';
import { newUser } from '../fixtures/new-user.js';
import { makeTransactionsRepeatable, onEachStore, open } from '../fixtures/stores.js';
import { until } from '../fixtures/until.js';
import { openSound } from './journal-harness.js';
import { emptyHistory, idsOf, wrongCounts } from './stored-rows.js';

const NOON = Date.parse('2026-11-21T12:00:00Z');

function mixedRows(count: number): ScanRow[] {
  return Array.from({ length: count }, (_, index) =>
    rowAt(NOON - index * 7 * 3_600_000, {
      ...(index % 2 === 0 ? {} : { userId: BOB }),
      ...(index % 3 === 0 ? { virusName: 'Eicar' } : {}),
      ...(index % 5 === 0 ? { status: 422, virusName: null, error: 'Scan incomplete: a limit' } : {}),
    }),
  );
}

async function lastUse(sql: Sql, keyId: string): Promise<string | null> {
  const [row] = await sql<{ last_use: Date | null }[]>`SELECT last_use FROM api_keys WHERE id = ${keyId}`;
  return row?.last_use?.toISOString() ?? null;
}

/** A scan that was decided just then. */
function useAt(keyId: string, at: string, differences: Partial<ScanRow> = {}): ScanRow {
  return rowAt(Date.parse(at), { keyId, lastUpdateMs: Date.parse(at), ...differences });
}

onEachStore(async (t, store) => {
  const target = await store.target(t);
  const { sql } = await open(t, target);
  // One database for all: an embedded one takes seconds to come up.
  t.beforeEach(() => emptyHistory(sql));

  t.test('what has looked is kept with the row, for those that a weaker engine has answered', async (t) => {
    const save = createRowStore(sql);
    const rows = ['clamav/1.4.6', 'yara-x/1.7.1', null].map((engine, index) => rowAt(NOON + index, { engine }));
    await save(rows);
    const stored = await sql<{ engine: string | null }[]>`SELECT engine FROM scans ORDER BY id`;
    t.strictSame(
      stored.map(({ engine }) => engine),
      ['clamav/1.4.6', 'yara-x/1.7.1', null],
    );
  });

  t.test('what was said beside a verdict is kept with the row, and so is the key', async (t) => {
    const keyId = '0190c5f0-0000-7000-8000-00000000c0de';
    const said = [[], ['encrypted'], ['encrypted', 'raw-content']];
    await createRowStore(sql)(
      said.map((notices, index) => rowAt(NOON + index, { notices, keyId: index === 1 ? keyId : null })),
    );
    const stored = await sql`SELECT notices, key_id FROM scans ORDER BY id`;
    t.strictSame(
      stored.map(({ notices, key_id }) => [notices, key_id]),
      said.map((notices, index) => [notices, index === 1 ? keyId : null]),
    );
  });

  t.test('what a client has said of a scan, its URL and its signatures are kept with the row', async (t) => {
    const said = ['{"order": "7, \\"8\\""}', 'a\nb\tNULL', '', null];
    await createRowStore(sql)(
      said.map((metadata, index) =>
        rowAt(NOON + index, {
          metadata,
          url: metadata === null ? null : 'http://example.com/a,b%22{}',
          signatures: metadata === null ? null : 'daily:27000+ab12cd34',
        }),
      ),
    );
    const stored = await sql`SELECT metadata, url, signatures FROM scans ORDER BY id`;
    t.strictSame(
      stored.map(({ metadata, url, signatures }) => [metadata, url, signatures]),
      said.map((metadata) => [
        metadata,
        ...(metadata === null ? [null, null] : ['http://example.com/a,b%22{}', 'daily:27000+ab12cd34']),
      ]),
    );
  });

  t.test('rows that are copied are what they are when they are inserted', async (t) => {
    const said = {
      detectedType: 'CL_TYPE_ZIP',
      notices: ['encrypted', 'raw-content'],
      metadata: '"ü\n\ud800',
      url: 'http://example.com/',
      keyId: BOB,
    };
    const none = {
      virusName: null,
      error: 'no',
      engine: null,
      signatures: null,
      sizeBytes: null,
      sha256: null,
      status: 422,
    };
    const rows = [
      rowAt(NOON + 1),
      rowAt(NOON + 2, {
        ...said,
        filename: 'naïve \u{1f600}.bin',
        virusName: 'Eicar',
        protocol: 'icap',
        sizeBytes: 2 ** 31 - 1,
      }),
      rowAt(NOON + 3, {
        ...none,
        filename: '',
        durationMs: 70_000,
        lastUpdateMs: Date.parse('1999-12-31T23:59:59.999Z'),
      }),
    ];
    const stored = async () => [
      ...(await sql`SELECT to_jsonb(scans) AS row FROM scans WHERE id <> ${first.id} ORDER BY id`),
    ];
    const first = rowAt(NOON);
    const save = createRowStore(sql);
    await save([first]);
    // One that is there already: all of the batch is inserted.
    await save([first, ...rows]);
    const inserted = await stored();
    await sql`DELETE FROM scans WHERE id <> ${first.id}`;
    await sql.transaction('readCommitted', async (tx) => {
      await tx.copyIn(COPY_SCANS, new RowCopy(rows).bytes());
      await tx`SELECT`;
    });
    t.equal(inserted.length, rows.length);
    t.strictSame(await stored(), inserted);
  });

  t.test('a batch that comes again, or with others, adds nothing twice', async (t) => {
    const save = createRowStore(sql);
    const rows = mixedRows(60);
    await save(rows.slice(0, 40));
    await save(rows.slice(0, 40));
    await save([...rows.slice(20), ...rows.slice(50)]);
    t.strictSame(await idsOf(sql), rows.map(({ id }) => id).sort());
    t.strictSame(await wrongCounts(sql), []);
  });

  t.test(
    "the time of an id is worked out within the statement that asks for it, not by one of the function's own",
    async (t) => {
      const { sql } = await open(t, await store.target(t));
      const plan = await sql<{ 'QUERY PLAN': string }[]>`EXPLAIN (VERBOSE) SELECT scan_time(id) FROM scans`;
      t.notMatch(plan.map((line) => line['QUERY PLAN']).join('\n'), 'scan_time(');
    },
  );

  t.test('the same rows from several processes at once are there once', async (t) => {
    await makeTransactionsRepeatable(sql);
    const stores = await Promise.all(
      Array.from({ length: 3 }, async () => createRowStore((await open(t, target)).sql)),
    );
    const rows = mixedRows(120);
    const orders = [rows, [...rows].reverse(), rows.slice(30)];
    const attempts = stores.map(async (save, index) => {
      // A deadlock of rows in opposite orders is an error for one of them, which tries again, as the writer does.
      for (;;) {
        try {
          return await save(orders[index] ?? []);
        } catch (error) {
          t.match(error, { code: '40P01' });
        }
      }
    });
    await Promise.all(attempts);
    t.strictSame(await idsOf(sql), rows.map(({ id }) => id).sort());
    t.strictSame(await wrongCounts(sql), []);
  });

  t.test('texts of every kind are stored as they are', async (t) => {
    const names = ['', '"', '\\', '{a,b}', 'NULL', 'null', "'; DROP TABLE scans; --", '\u{1f600}', 'a\tb\nc', '  '];
    const rows = names.map((filename, index) =>
      rowAt(NOON + index, { filename, virusName: filename, error: filename, env: filename }),
    );
    await createRowStore(sql)(rows);
    const stored = await sql`SELECT filename, virus_name, error, env FROM scans ORDER BY id`;
    t.strictSame(
      stored.map(({ filename, virus_name, error, env }) => [filename, virus_name, error, env]),
      names.map((name) => [name, name, name, name]),
    );
  });

  t.test('a reply that is lost after the commit changes nothing: the writer sends the batch again', async (t) => {
    const journal = await openSound(t);
    const save = createRowStore(sql);
    const rows = mixedRows(30);
    let attempts = 0;
    let recovered = (): void => undefined;
    const recovery = new Promise<void>((resolve) => {
      recovered = resolve;
    });
    const writer = startWriter({
      journal,
      store: async (batch) => {
        attempts += 1;
        await save(batch);
        if (attempts < 3) throw new Error('the connection was lost');
      },
      onFailure: () => undefined,
      onRecovery: recovered,
    });
    for (const row of rows) await record(journal, row);
    await recovery;
    await writer.stop(10_000);
    t.ok(attempts >= 3);
    t.equal(journal.state().rows, 0);
    t.strictSame(await idsOf(sql), rows.map(({ id }) => id).sort());
    t.strictSame(await wrongCounts(sql), []);
    await journal.close();
  });

  t.test(
    'a connection that is cut between the commit and its reply: committed, sent again, and there once',
    async (t) => {
      const proxied = await cutAtCommit(t, target);
      const { sql: cut } = await open(t, proxied.target);
      const save = createRowStore(cut);
      const rows = mixedRows(40);
      await save(rows.slice(0, 5));
      proxied.arm();
      await t.rejects(save(rows.slice(5)), 'nobody can tell whether it was stored');
      await until(async () => (await idsOf(sql)).length >= rows.length);
      await save(rows.slice(5));
      t.strictSame(await idsOf(sql), rows.map(({ id }) => id).sort());
      t.strictSame(await wrongCounts(sql), []);
    },
  );

  t.test('keys are used when their last successful scan was, whatever order the batches come in', async (t) => {
    const userId = await newUser(sql, 'keys@example.com');
    const one = (await createKey(sql, { userId, name: 'one' })).keyId;
    const other = (await createKey(sql, { userId, name: 'other' })).keyId;
    const save = createRowStore(sql);
    const early = useAt(one, '2026-11-21T12:00:00.000Z');
    const failed = { status: 422, error: 'Scan incomplete: a limit' };
    await save([
      useAt(one, '2026-11-21T12:01:00.007Z'),
      useAt(one, '2026-11-21T12:00:59.000Z'),
      useAt(other, '2026-11-21T12:00:00.100Z'),
      useAt(one, '2026-11-21T12:30:00.000Z', failed),
      rowAt(NOON),
    ]);
    await save([early, useAt(other, '2026-11-21T12:00:01.000Z')]);
    await save([early]);
    t.equal(await lastUse(sql, one), '2026-11-21T12:01:00.007Z');
    t.equal(await lastUse(sql, other), '2026-11-21T12:00:01.000Z');
    await save([useAt(other, '2026-11-21T12:00:01.900Z')]);
    t.equal(await lastUse(sql, other), '2026-11-21T12:00:01.000Z', 'once a second, which is what lists show');
    t.strictSame(await wrongCounts(sql), []);
    t.same(
      [...(await sql`SELECT clean, infected, failed FROM key_days WHERE key_id = ${one}`)],
      [{ clean: 3, infected: 0, failed: 1 }],
      'each scan of a key once',
    );
  });

  t.test('a key that has ended or gone meanwhile does not come back, and its scans are kept', async (t) => {
    const userId = await newUser(sql, 'gone@example.com');
    const ended = (await createKey(sql, { userId, name: 'ended' })).keyId;
    const gone = (await createKey(sql, { userId, name: 'gone' })).keyId;
    await endKey(sql, { revoke: async () => undefined }, userId, ended);
    await sql`DELETE FROM api_keys WHERE id = ${gone}`;
    const rows = [useAt(gone, '2026-11-21T12:00:00Z'), useAt(ended, '2026-11-21T12:00:00Z')];
    await createRowStore(sql)(rows);
    t.same(await listKeys(sql, userId), []);
    t.same([...(await sql`SELECT id FROM api_keys WHERE user_id = ${userId}`)], [{ id: ended }]);
    t.strictSame(await idsOf(sql), rows.map(({ id }) => id).sort());
  });

  t.test('nodes that write scans of the same keys in opposite orders all get through', async (t) => {
    await makeTransactionsRepeatable(sql);
    const nodes = await Promise.all([open(t, target), open(t, target)]);
    const userId = await newUser(sql, 'orders@example.com');
    const keys: string[] = [];
    for (let index = 0; index < 40; index += 1) keys.push((await createKey(sql, { userId, name: 'x' })).keyId);
    const stores = nodes.map((node) => createRowStore(node.sql));
    const instant = (round: number): string => new Date(NOON + round * 1000).toISOString();
    await Promise.all(
      Array.from({ length: 40 }, async (_, round) => {
        const order = round % 2 === 0 ? keys : [...keys].reverse();
        await stores[round % 2]?.(order.map((keyId) => useAt(keyId, instant(round))));
      }),
    );
    for (const keyId of keys) t.equal(await lastUse(sql, keyId), instant(39));
    t.equal((await idsOf(sql)).length, 1600);
    t.strictSame(await wrongCounts(sql), []);
  });

  t.test('the use of a key whose server died while the database was away is there after the replay', async (t) => {
    const userId = await newUser(sql, 'replay@example.com');
    const { keyId } = await createKey(sql, { userId, name: 'one' });
    const directory = temporaryFolder(t);
    const dead = join(directory, '00000000000000ee');
    mkdirSync(dead);
    writeFileSync(join(dead, '000000001.log'), frame(encodeRow(useAt(keyId, '2026-11-21T12:00:00.000Z'))));
    const journal = await openSound(t, directory);
    const batch = await journal.read(10);
    await createRowStore(sql)(batch?.rows ?? []);
    t.equal(await lastUse(sql, keyId), '2026-11-21T12:00:00.000Z');
    batch?.commit();
    await journal.close();
  });

  t.test(
    'a batch bounds its waits, for itself alone: a node that dies in the middle keeps the others for seconds',
    async (t) => {
      await sql`CREATE TABLE seen_waits (idle text, locks text)`;
      await sql`
      CREATE FUNCTION see_waits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO seen_waits
        VALUES (current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout'));
        RETURN NULL;
      END $$`;
      await sql`CREATE TRIGGER see_waits AFTER INSERT ON scan_days FOR EACH STATEMENT EXECUTE FUNCTION see_waits()`;
      await createRowStore(sql)([rowAt(NOON)]);
      t.same([...(await sql`SELECT * FROM seen_waits`)], [{ idle: '15s', locks: '5s' }]);
      const [after] = await sql`
      SELECT current_setting('idle_in_transaction_session_timeout') AS idle, current_setting('lock_timeout') AS locks`;
      t.same(after, { idle: '0', locks: '0' });
      await sql`DROP TRIGGER see_waits ON scan_days`;
      await sql`DROP FUNCTION see_waits`;
      await sql`DROP TABLE seen_waits`;
    },
  );
});
