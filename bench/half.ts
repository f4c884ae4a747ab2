// What a client waits for at half of the capacity, and where the processor's time goes: an open loop, with the
// embedded store, with Postgres and Redis, and clamd for comparison.
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { ownSignaturesDirectory } from '../src/paths.js';
import { startClamdContestant } from './contestants/clamd.js';
import type { PacedContestant, Setting } from './contestants/contestant.js';
import { startForgetfulSluice, startForgetfulSluiceWithStores } from './contestants/sluice.js';
import { threadSeconds, untilIdle } from './cpu.js';
import { makeFileSet } from './files.js';

const ROUNDS = 5;
const SECONDS = 3;
const WARM_UP_SECONDS = 3;
const CONNECTIONS = 32;
/** Threads that took less than this for a scan are not named. */
const NAMED_US = 1;

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

function median(values: readonly number[]): number {
  return [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** The capacity and the open loop take turns: a machine that slows down slows both. */
async function measure(name: string, contestant: PacedContestant): Promise<void> {
  await contestant.run(WARM_UP_SECONDS);
  const rates: number[] = [];
  const p50s: number[] = [];
  const p99s: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const full = await contestant.run(SECONDS);
    rates.push(full.scans / full.seconds);
    await untilIdle(contestant.pid);
    const half = await contestant.pace(SECONDS, median(rates) / 2);
    if (full.errors + half.errors > 0) throw new Error(full.firstError || half.firstError);
    p50s.push((half.p50Us ?? Number.NaN) / 1000);
    p99s.push((half.p99Us ?? Number.NaN) / 1000);
    await untilIdle(contestant.pid);
  }
  const ratio = median(p99s.map((p99, round) => p99 / (p50s[round] ?? Number.NaN)));
  print(
    `${name}: ${median(rates).toFixed(0)} scans/s; at half of that p50 ${median(p50s).toFixed(2)} ms, ` +
      `p99 ${median(p99s).toFixed(2)} ms, p99 / p50 ${ratio.toFixed(1)}`,
  );
}

async function printThreads(contestant: PacedContestant): Promise<void> {
  const before = threadSeconds(contestant.pid);
  const { scans } = await contestant.run(SECONDS);
  await untilIdle(contestant.pid);
  const used = [...threadSeconds(contestant.pid)].map(([thread, seconds]) => ({
    thread,
    us: ((seconds - (before.get(thread) ?? 0)) / scans) * 1e6,
  }));
  for (const { thread, us } of used.sort((one, other) => other.us - one.us)) {
    if (us >= NAMED_US) print(`  ${us.toFixed(0).padStart(4)} us a scan: ${thread}`);
  }
}

const folder = await mkdtemp(join(tmpdir(), 'sluice-half-'));
const setting: Setting = { databaseDirectory: ownSignaturesDirectory, threads: availableParallelism(), folder };
const forms = {
  embedded: startForgetfulSluice,
  'Postgres and Redis': startForgetfulSluiceWithStores,
  clamd: startClamdContestant,
};
try {
  for (const [name, start] of Object.entries(forms)) {
    const contestant = await start(setting, CONNECTIONS);
    try {
      const { listPath, ...files } = await makeFileSet(
        { name: '1KB', files: { kind: 'unique', sizeBytes: 1024 } },
        folder,
        async () => () => true,
      );
      await contestant.use({ listPath, ...files });
      await measure(name, contestant);
      await printThreads(contestant);
    } finally {
      await contestant.stop();
    }
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
