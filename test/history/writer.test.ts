// The writer beside a database that doesn't answer: it reports that and tries again, and a late answer does no harm.
import t from 'tap';
import { startWriter } from '../../src/history/history.js';
import { createRowStore } from '../../src/history/rows-to-database.js';
import type { ScanRow } from '../../src/history/scan-row.js';
import { record, rowAt } from '../fixtures/history.js';
import { startPostgres } from '../fixtures/postgres.js';
import { open } from '../fixtures/stores.js';
import { until } from '../fixtures/until.js';
import { openSound } from './journal-harness.js';

const NOON = Date.parse('2026-11-21T12:00:00Z');

async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

t.test(
  'a batch without an answer has failed: it is reported and tried again, and its late answer copies nothing',
  async (t) => {
    const journal = await openSound(t);
    const calls: { readonly rows: readonly ScanRow[]; readonly answer: () => void }[] = [];
    const failures: [string, number][] = [];
    let answersAtOnce = false;
    let recoveries = 0;
    const writer = startWriter({
      journal,
      store: async (rows) => {
        if (answersAtOnce) return;
        await new Promise<void>((answer) => calls.push({ rows, answer }));
      },
      onFailure: (error, attempts) => failures.push([String(error), attempts]),
      onRecovery: () => {
        recoveries += 1;
      },
      batchTimeoutMs: 50,
    });
    const [first, second] = [rowAt(NOON), rowAt(NOON + 1)];
    await record(journal, first);
    await until(() => calls.length >= 1);
    await record(journal, second);
    await until(() => calls.length >= 2);
    t.strictSame(failures, [['NoAnswer: No answer within 50 ms', 1]]);
    t.strictSame(
      calls.map(({ rows }) => rows),
      [[first], [first, second]],
    );
    calls[0]?.answer();
    await turn();
    t.equal(journal.state().rows, 2, 'too late');
    await until(() => failures.length >= 8);
    t.ok(calls.length <= 5, 'those without an answer are bounded: one has had its own');
    answersAtOnce = true;
    for (const { answer } of calls) answer();
    await until(() => recoveries > 0);
    t.equal(journal.state().rows, 0);
    await writer.stop(1_000);
    await journal.close();
  },
);

t.test('an answer after the stop copies nothing: another process may have the rows by then', async (t) => {
  const journal = await openSound(t);
  let answer: (() => void) | undefined;
  const writer = startWriter({
    journal,
    store: () =>
      new Promise((resolve) => {
        answer = resolve;
      }),
    onFailure: () => undefined,
    onRecovery: () => undefined,
  });
  await record(journal, rowAt(NOON));
  const late = await until(() => answer);
  await writer.stop(1);
  late();
  await turn();
  t.equal(journal.state().rows, 1);
  await journal.close();
});

t.test('a Postgres that is frozen keeps nobody for ever, and has every row once when it goes on', async (t) => {
  const server = await startPostgres({ t });
  const { sql } = await open(t, { kind: 'url', url: await server.database() });
  const journal = await openSound(t);
  const failures: number[] = [];
  const row = rowAt(NOON);
  await createRowStore(sql)([rowAt(NOON - 1)]);
  server.pause();
  const writer = startWriter({
    journal,
    store: createRowStore(sql),
    onFailure: (_, attempts) => failures.push(attempts),
    onRecovery: () => undefined,
    // A machine with much to do needs a part of it for a batch that is answered.
    batchTimeoutMs: 1_000,
  });
  await record(journal, row);
  await until(() => failures.length >= 6);
  server.resume();
  await until(() => journal.state().rows === 0);
  await writer.stop(10_000);
  t.equal((await sql`SELECT FROM scans WHERE id = ${row.id}`).count, 1);
  t.same([...(await sql`SELECT sum(scans)::int AS scans FROM scan_days`)], [{ scans: 2 }]);
  await journal.close();
});
