// The history's growth: fills a Postgres of its own to each size and prints how long every question takes, and what rows cost.
import { performance } from 'node:perf_hooks';
import { v7 as uuidv7 } from 'uuid';
import { createRowStore } from '../../src/history/rows-to-database.js';
import { openPostgres, type Postgres, type Sql } from '../../src/store/postgres.js';
import { startPostgres } from '../../test/fixtures/postgres.js';
import { fill, USER } from './fill.js';
import { questions } from './questions.js';

const sizes = (process.argv[2] ?? '10000,1000000').split(',').map(Number);
if (!sizes.every((size) => Number.isSafeInteger(size) && size >= 1_000 && size <= 100_000_000)) {
  throw new Error('Sizes are numbers of rows like 10000,1000000,10000000');
}

/** A question is asked so often, or for so long, whichever ends first; never fewer than some. */
const ASKED = 300;
const ASKED_MS = 4_000;
const ASKED_MIN = 5;
/** Prepared statements, caches and connections are warm by then. */
const WARM_UP = 12;
const INSERT_BATCH = 256;
const INSERT_MS = 5_000;

interface Times {
  readonly medianMs: number;
  readonly p99Ms: number;
}

interface Filled {
  readonly size: number;
  readonly nowMs: number;
  readonly postgres: Postgres;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

function timesOf(samples: readonly number[]): Times {
  const sorted = [...samples].sort((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { medianMs: at(0.5), p99Ms: at(0.99) };
}

/** All sizes in turns: what else the machine does hits them alike. One that fails is shown as such. */
async function timed(works: readonly (() => Promise<unknown>)[]): Promise<(Times | string)[]> {
  const samples = works.map((): number[] => []);
  const failures = new Map<number, string>();
  const startedAt = performance.now();
  for (let run = 0; run < ASKED + WARM_UP; run += 1) {
    for (const [index, work] of works.entries()) {
      if (failures.has(index)) continue;
      const before = performance.now();
      await work().catch((error: unknown) => failures.set(index, String(error)));
      if (run >= WARM_UP || before - startedAt > ASKED_MS) samples[index]?.push(performance.now() - before);
    }
    if (run >= ASKED_MIN && performance.now() - startedAt > ASKED_MS) break;
  }
  return samples.map((times, index) => failures.get(index) ?? timesOf(times));
}

/** Rows a second through the statement that the writer uses, into the history as it is. */
async function insertRate(sql: Sql, nowMs: number): Promise<number> {
  const store = createRowStore(sql);
  const startedAt = performance.now();
  let rows = 0;
  while (performance.now() - startedAt < INSERT_MS) {
    await store(
      Array.from({ length: INSERT_BATCH }, (_, index) => ({
        id: uuidv7({ msecs: nowMs + rows + index }),
        userId: USER,
        keyId: null,
        filename: `late-${rows}-${index}.pdf`,
        durationMs: index,
        virusName: null,
        status: 200,
        error: null,
        signatures: 'daily:27000',
        engine: null,
        sizeBytes: null,
        sha256: null,
        detectedType: null,
        notices: [],
        metadata: null,
        url: null,
        protocol: 'http',
        env: 'PRODUCTION',
        lastUpdateMs: nowMs + rows + index,
      })),
    );
    rows += INSERT_BATCH;
  }
  return rows / ((performance.now() - startedAt) / 1000);
}

const results = new Map<string, (Times | string)[]>();
const notes: string[] = [];
const server = await startPostgres();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void server.stop().finally(() => process.exit(1)));
}
try {
  const filled: Filled[] = [];
  for (const size of sizes) {
    const postgres = await openPostgres({ kind: 'url', url: await server.database() });
    const nowMs = Date.now();
    await fill(postgres.sql, size, nowMs);
    const [disk] = await postgres.sql<{ bytes: number }[]>`
      SELECT sum(pg_total_relation_size(inhrelid))::float8 AS bytes FROM pg_inherits WHERE inhparent = 'scans'::regclass`;
    notes.push(
      `${size} rows: filled in ${((Date.now() - nowMs) / 1000).toFixed(0)} s, ${((disk?.bytes ?? 0) / 1e9).toFixed(2)} GB`,
    );
    process.stderr.write(`${notes.at(-1)}\n`);
    filled.push({ size, nowMs, postgres });
  }
  const asked = filled.map(({ size, nowMs, postgres }) =>
    questions(size, nowMs).map(({ name, ask }) => ({ name, ask: () => ask(postgres.sql) })),
  );
  for (const [index, { name }] of (asked[0] ?? []).entries()) {
    const times = await timed(asked.flatMap((list) => list[index]?.ask ?? []));
    results.set(name, times);
    process.stderr.write(`${name}: ${times.map(shown).join(' | ')}\n`);
  }
  for (const { size, nowMs, postgres } of filled) {
    const rate = await insertRate(postgres.sql, nowMs);
    notes.push(`${size} rows: ${rate.toFixed(0)} rows/s are added in batches of ${INSERT_BATCH} by one connection`);
    await postgres.close();
  }
} finally {
  await server.stop();
}
print(`| question | ${sizes.map((size) => `${size} rows: median, p99 ms`).join(' | ')} | largest / smallest |`);
print(`|---|${sizes.map(() => '---|').join('')}---|`);
for (const [name, times] of results) {
  print(`| ${name} | ${times.map(shown).join(' | ')} | ${growth(times.at(-1), times[0])} |`);
}
for (const note of notes) print(note);

function shown(times: Times | string): string {
  return typeof times === 'string' ? times : `${times.medianMs.toFixed(2)}, ${times.p99Ms.toFixed(2)}`;
}

function growth(largest: Times | string | undefined, smallest: Times | string | undefined): string {
  if (typeof largest !== 'object' || typeof smallest !== 'object') return '-';
  return (largest.medianMs / smallest.medianMs).toFixed(1);
}
