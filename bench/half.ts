// What a client waits for at half of clamd's capacity, and where the processor's time goes: an open loop, with the
// embedded store, with Postgres and Redis, and clamd, in alternating rounds.
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { ownSignaturesDirectory } from '../src/paths.js';
import { startClamdContestant } from './contestants/clamd.js';
import type { PacedContestant, Setting } from './contestants/contestant.js';
import { startForgetfulSluice, startForgetfulSluiceWithStores, startSluiceClamd } from './contestants/sluice.js';
import { threadSeconds, untilIdle } from './cpu.js';
import { writeFigures } from './figures.js';
import { makeFileSet } from './files.js';
import { median } from './median.js';

const { figures } = new Command('npm run bench:half --')
  .description('How long 1 KB takes at half of what clamd can do, by HTTP and by its own protocol.')
  .option('--figures <name>', 'keep the table under docs/figures/, for the documents')
  .parse()
  .opts<{ figures?: string }>();
const ROUNDS = 5;
const SECONDS = 3;
const WARM_UP_SECONDS = 3;
const CONNECTIONS = 32;
const forms = {
  clamd: startClamdContestant,
  embedded: startForgetfulSluice,
  "embedded, clamd's protocol": startSluiceClamd,
  'Postgres and Redis': startForgetfulSluiceWithStores,
};

interface Entrant {
  readonly name: string;
  readonly contestant: PacedContestant;
  readonly rates: number[];
  readonly p50s: number[];
  readonly p99s: number[];
}

/** Threads that took less than this for a scan are not named. */
const NAMED_US = 1;

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Each contestant once: the whole capacity, then the open loop. A machine that slows down slows all of them. */
async function runRound(entrants: readonly Entrant[]): Promise<void> {
  const [clamd] = entrants;
  for (const { contestant, rates, p50s, p99s } of entrants) {
    const full = await contestant.run(SECONDS);
    rates.push(full.scans / full.seconds);
    await untilIdle(contestant.pid);
    const half = await contestant.pace(SECONDS, median(clamd?.rates ?? []) / 2);
    if (full.errors + half.errors > 0) throw new Error(full.firstError || half.firstError);
    p50s.push((half.p50Us ?? Number.NaN) / 1000);
    p99s.push((half.p99Us ?? Number.NaN) / 1000);
    await untilIdle(contestant.pid);
  }
}

/** Ratios are medians of those of each round. */
function row({ name, rates, p50s, p99s }: Entrant, [clamd]: readonly Entrant[]): string[] {
  const against = (own: readonly number[], other: readonly number[] = []): string =>
    median(own.map((value, round) => value / (other[round] ?? Number.NaN))).toFixed(2);
  return [
    name,
    median(rates).toFixed(0),
    against(rates, clamd?.rates),
    median(p50s).toFixed(2),
    against(p50s, clamd?.p50s),
    median(p99s).toFixed(2),
    against(p99s, clamd?.p99s),
  ];
}

function describe(entrant: Entrant, entrants: readonly Entrant[]): string {
  const [name, rate, rates, p50, p50s, p99, p99s] = row(entrant, entrants);
  return `${name}: ${rate} scans/s (${rates} of clamd's); at half of clamd's p50 ${p50} ms (${p50s}), p99 ${p99} ms (${p99s})`;
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
const entrants: Entrant[] = [];
try {
  for (const [name, start] of Object.entries(forms)) {
    const contestant = await start(setting, CONNECTIONS);
    entrants.push({ name, contestant, rates: [], p50s: [], p99s: [] });
    const { listPath, ...files } = await makeFileSet(
      { name: '1KB', files: { kind: 'unique', sizeBytes: 1024 } },
      folder,
      async () => () => true,
    );
    await contestant.use({ listPath, ...files });
    await contestant.run(WARM_UP_SECONDS);
  }
  for (let round = 0; round < ROUNDS; round += 1) await runRound(entrants);
  if (figures !== undefined) {
    const columns = ['', 'scans/s', 'of clamd', 'p50 ms at half of clamd', 'of clamd', 'p99 ms', 'of clamd'];
    writeFigures(figures, {
      command: 'npm run bench:half',
      columns,
      rows: entrants.map((each) => row(each, entrants)),
    });
  }
  for (const entrant of entrants) {
    print(describe(entrant, entrants));
    await printThreads(entrant.contestant);
  }
} finally {
  for (const { contestant } of entrants) await contestant.stop();
  await rm(folder, { recursive: true, force: true });
}
