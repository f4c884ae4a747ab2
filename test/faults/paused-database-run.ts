// Scans at a steady rate while Postgres is stopped: what was answered, what it took of memory, and whether each row is there after.
import { setTimeout as delay } from 'node:timers/promises';
import { Pool } from 'undici';
import { openPostgres } from '../../src/store/postgres.js';
import { startPostgres } from '../fixtures/postgres.js';
import { eicar } from '../fixtures/samples.js';
import { startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { type ScanAnswer, scan } from './form.js';

export interface PauseOptions {
  readonly seconds: number;
  readonly scansPerSecond: number;
}

export interface PauseReport {
  readonly asked: number;
  /** How many by status. */
  readonly answers: Readonly<Record<string, number>>;
  /** In the journal at the end of the pause. */
  readonly waitingRows: number;
  readonly residentBytesBefore: number;
  readonly residentBytesMax: number;
  /** From the end of the pause to the last row. */
  readonly caughtUpMs: number;
  /** Answers without a row that says the same, and rows without an answer. */
  readonly problems: readonly string[];
}

const TICK_MS = 50;

export async function runPause({ seconds, scansPerSecond }: PauseOptions): Promise<PauseReport> {
  const postgres = await startPostgres();
  const url = await postgres.database();
  const env = { DATABASE_URL: url, BOOTSTRAP_EMAIL: 'faults@example.com', PLANS: 'BUSINESS:900000000' };
  const server = await startServer({ isSupervised: true, env });
  const pool = new Pool(server.url, { connections: 32 });
  const store = await openPostgres({ kind: 'url', url });
  const answers: ScanAnswer[] = [];
  const asked: Promise<unknown>[] = [];
  const contents = ['hello', eicar(), 'x'.repeat(5_000), ''];
  try {
    // The key is known, and memory is what it is under load.
    for (let warm = 0; warm < scansPerSecond; warm += 1) answers.push(await scan(pool, contents[warm % 4] ?? ''));
    const before = server.residentBytes();
    let most = before;
    postgres.pause();
    const startedMs = performance.now();
    const total = seconds * scansPerSecond;
    while (asked.length < total) {
      const due = Math.min(total, Math.ceil(((performance.now() - startedMs) / 1000) * scansPerSecond));
      while (asked.length < due) {
        const content = `${contents[asked.length % 4] ?? ''}`;
        asked.push(scan(pool, content).then((answer) => answers.push(answer)));
      }
      most = Math.max(most, server.residentBytes());
      await delay(TICK_MS);
    }
    await Promise.all(asked);
    const waitingRows = await waiting(server.url);
    postgres.resume();
    const resumedMs = performance.now();
    await until(async () => {
      most = Math.max(most, server.residentBytes());
      return (await waiting(server.url)) === 0;
    });
    const caughtUpMs = Math.round(performance.now() - resumedMs);
    const rows = await store.sql<
      { id: string; status: number; infected: boolean }[]
    >`SELECT id, status, infected FROM scans`;
    return {
      asked: asked.length,
      answers: countBy(answers.slice(scansPerSecond)),
      waitingRows,
      residentBytesBefore: before,
      residentBytesMax: most,
      caughtUpMs,
      problems: compare(answers, rows),
    };
  } finally {
    postgres.resume();
    await pool.close();
    await store.close();
    await server.stop();
    await postgres.stop();
  }
}

async function waiting(url: string): Promise<number> {
  const { history } = Object(await (await fetch(`${url}/readyz`)).json());
  return Number(history.waitingRows);
}

function countBy(answers: readonly ScanAnswer[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

function compare(
  answers: readonly ScanAnswer[],
  rows: readonly { readonly id: string; readonly status: number; readonly infected: boolean }[],
): string[] {
  const byId = new Map(rows.map((row) => [row.id, row]));
  const problems = answers.flatMap(({ scanId, status, infected }) => {
    if (scanId === null) return [];
    const row = byId.get(scanId);
    if (row === undefined) return [`${scanId} has no row`];
    return row.status === status && row.infected === infected ? [] : [`${scanId}: ${status}, its row ${row.status}`];
  });
  const recorded = answers.filter(({ scanId }) => scanId !== null).length;
  return rows.length === recorded ? problems : [...problems, `${rows.length} rows of ${recorded} scans`];
}
