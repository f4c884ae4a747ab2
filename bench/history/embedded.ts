// What the embedded database costs: CPU for each row of the history at a steady rate, and its memory after many rows.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { bootstrap } from '../../src/account/users.js';
import { type History, startHistory } from '../../src/history/history.js';
import { startEmbedded } from '../../src/store/embedded/embedded.js';
import { openPostgres } from '../../src/store/postgres.js';
import { record, rowAt } from '../../test/fixtures/history.js';
import { cpuSeconds, descendants, untilIdle } from '../cpu.js';
import { tableOf, writeFigures } from '../figures.js';
import { median } from '../median.js';

const RATE = 300;
const RATE_SECONDS = 30;
const ROUNDS = 3;
const ROWS = 300_000;
const TICK_MS = 20;
/** Rows that are on their way to the journal at one time, without a rate. */
const AT_ONCE = 64;

const { figures } = new Command('node dist/bench/history/embedded.js')
  .option('--figures', 'keep the table under docs/figures/, for the documents', false)
  .parse()
  .opts<{ figures: boolean }>();
/** What was measured, and how much it was. 130 us for a row and 80 MB are promised. */
const facts: string[][] = [];

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Of all its processes: what each has for itself and its share of what they have together; and resident, where that is counted in each. */
function memoryMb(pid: number): { pss: number; rss: number } {
  const sums = { pss: 0, rss: 0 };
  for (const one of descendants(pid)) {
    const text = readFileSync(`/proc/${one}/smaps_rollup`, 'utf8');
    sums.pss += Number(/^Pss:\s+(\d+)/m.exec(text)?.[1]) / 1024;
    sums.rss += Number(/^Rss:\s+(\d+)/m.exec(text)?.[1]) / 1024;
  }
  return sums;
}

const dataDirectory = mkdtempSync(join(tmpdir(), 'sluice-embedded-'));
const firstMs = performance.now();
const embedded = await startEmbedded({ dataDirectory });
const madeMs = performance.now();
const { sql, close } = await openPostgres({ kind: 'embedded', socketDirectory: embedded.socketDirectory });
facts.push(['made and started, ms', (madeMs - firstMs).toFixed(0)]);
facts.push(['opened and migrated, ms', (performance.now() - madeMs).toFixed(0)]);
await bootstrap(
  sql,
  { email: 'bench@example.com', password: null, apiKey: null, plan: 'BUSINESS' },
  { isEmbedded: true },
);
const [user] = await sql<{ id: string }[]>`SELECT id FROM users`;
const [key] = await sql<{ id: string }[]>`SELECT id FROM api_keys`;
const differences = { userId: user?.id ?? '', keyId: key?.id ?? null };
const silent = {
  info: () => undefined,
  warn: () => undefined,
  error: (...what: unknown[]) => print(JSON.stringify(what)),
};
const history = await startHistory({ sql, dataDirectory, journalLimitBytes: 1e9, retentionDays: 400, log: silent });
const add = (to: History): Promise<void> => record(to, rowAt(Date.now(), differences));

async function drained(): Promise<void> {
  while (history.state().rows > 0) await sleep(TICK_MS);
}

let rows = 0;
facts.push(['memory at rest (PSS), MB', memoryMb(embedded.pid).pss.toFixed(0)]);
const rowUs: number[] = [];
for (let round = 0; round < ROUNDS; round += 1) {
  await untilIdle(embedded.pid);
  const before = cpuSeconds(embedded.pid);
  const startMs = performance.now();
  let sent = 0;
  while (sent < RATE * RATE_SECONDS) {
    const due = Math.min(RATE * RATE_SECONDS, Math.floor(((performance.now() - startMs) / 1000) * RATE));
    const batch = Array.from({ length: due - sent }, () => add(history));
    sent = due;
    await Promise.all(batch);
    await sleep(TICK_MS);
  }
  await drained();
  rowUs.push(((cpuSeconds(embedded.pid) - before) / sent) * 1e6);
  rows += sent;
}
facts.push([`processor time of a row at ${RATE} a second, us`, median(rowUs).toFixed(0)]);
const fullMs = performance.now();
const left = ROWS - rows;
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    for (; rows < ROWS; ) {
      rows += 1;
      await add(history);
    }
  }),
);
await drained();
facts.push(['rows a second at full speed', ((left / (performance.now() - fullMs)) * 1000).toFixed(0)]);
const { pss, rss } = memoryMb(embedded.pid);
const [counted] = await sql<{ rows: number }[]>`SELECT count(*)::int AS rows FROM scans`;
facts.push(
  [`memory after ${counted?.rows} rows (PSS), MB`, pss.toFixed(0)],
  ['the same as a sum of RSS, MB', rss.toFixed(0)],
);
await history.stop();
await close();
await embedded.stop();
const againMs = performance.now();
await (await startEmbedded({ dataDirectory })).stop();
facts.push(['started and stopped again, ms', (performance.now() - againMs).toFixed(0)]);
const table = {
  command: 'node dist/bench/history/embedded.js --figures',
  columns: ['of the embedded database', ''],
  rows: facts,
};
print(tableOf({ date: 'now', machine: 'this machine', ...table }));
if (figures) writeFigures('embedded', table);
rmSync(dataDirectory, { recursive: true, force: true });
