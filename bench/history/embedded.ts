// What the embedded database costs: CPU for each row of the history at a steady rate, and its memory after many rows.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { bootstrap } from '../../src/account/bootstrap.js';
import { type History, startHistory } from '../../src/history/history.js';
import { startEmbedded } from '../../src/store/embedded/embedded.js';
import { openPostgres } from '../../src/store/postgres.js';
import { record, rowAt } from '../../test/fixtures/history.js';
import { cpuSeconds, descendants, untilIdle } from '../cpu.js';

const RATE = 300;
const RATE_SECONDS = 30;
const ROUNDS = 3;
const ROWS = 300_000;
const TICK_MS = 20;
/** Rows that are on their way to the journal at one time, without a rate. */
const AT_ONCE = 64;
const PROMISED_US = 130;
const PROMISED_MB = 80;

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
print(
  `made and started in ${Math.round(madeMs - firstMs)} ms, opened and migrated in ${Math.round(performance.now() - madeMs)} ms`,
);
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
print(`memory at rest: ${memoryMb(embedded.pid).pss.toFixed(0)} MB`);
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
  const us = ((cpuSeconds(embedded.pid) - before) / sent) * 1e6;
  rows += sent;
  print(`${RATE} rows/s for ${RATE_SECONDS} s: ${us.toFixed(0)} us of CPU for each row (promised: ${PROMISED_US})`);
}
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
print(`${left} rows at full speed: ${Math.round((left / (performance.now() - fullMs)) * 1000)} rows/s`);
const { pss, rss } = memoryMb(embedded.pid);
const [counted] = await sql<{ rows: number }[]>`SELECT count(*)::int AS rows FROM scans`;
print(
  `memory after ${counted?.rows} rows: ${pss.toFixed(0)} MB (promised: ${PROMISED_MB}); the sum of RSS ${rss.toFixed(0)} MB`,
);
await history.stop();
await close();
await embedded.stop();
const againMs = performance.now();
await (await startEmbedded({ dataDirectory })).stop();
print(`started and stopped again in ${Math.round(performance.now() - againMs)} ms`);
rmSync(dataDirectory, { recursive: true, force: true });
