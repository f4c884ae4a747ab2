// What one upload of 1 KB costs in terms of JavaScript: functions entered, closures made, heap allocated, and how much of it outlives two collections. Not a speed: nearly the same on every machine.
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { whole } from '../../test/fixtures/option-values.js';
import { startSluice } from '../contestants/sluice.js';
import { descendants, untilIdle } from '../cpu.js';
import { makeFileSet } from '../files.js';
import { type Counts, countsOf } from './counts.js';

const WARM_UP_SECONDS = 3;
const SECONDS = 2;

/** What traces alone need. */
const TRACING = /^service\/traces\./;

const kinds = {
  unique: { kind: 'unique', env: { VERDICT_CACHE_MB: '0' } },
  repeated: { kind: 'repeated', env: {} },
} as const;
type Kind = keyof typeof kinds;

interface Setting {
  readonly folder: string;
  /** One: each scan finds the server idle. */
  readonly connections: number;
  /** Functions that are named, those that are entered most often first. */
  readonly named: number;
}

interface Measured {
  readonly counts: Counts;
  readonly scans: number;
}

/** With counters in its modules a server allocates otherwise, so its heap is that of another one. */
async function measure({ folder, connections }: Setting, which: Kind, hasCounters: boolean): Promise<Measured> {
  const preload = new URL(`./preload.js?counts=${hasCounters ? 'yes' : 'no'}&folder=${folder}`, import.meta.url);
  const setting = { databaseDirectory: ownSignaturesDirectory, threads: availableParallelism(), folder };
  const { kind, env } = kinds[which];
  const sluice = await startSluice(setting, connections, { ...env, NODE_OPTIONS: `--import=${preload.href}` });
  try {
    const scenario = { name: '1KB', files: { kind, sizeBytes: 1024 } };
    await sluice.use(await makeFileSet(scenario, folder, async () => () => true));
    await sluice.run(WARM_UP_SECONDS);
    await untilIdle(sluice.pid);
    // Beside the supervisor the one of them that counts.
    const isServer = (pid: number): boolean => pid !== sluice.pid && existsSync(join(folder, `count-${pid}`));
    const server = descendants(sluice.pid).find(isServer) ?? 0;
    let scans = 0;
    const counts = await countsOf(server, folder, async () => {
      const round = await sluice.run(SECONDS);
      if (round.errors > 0) throw new Error(round.firstError);
      scans = round.scans;
    });
    return { counts, scans };
  } finally {
    await sluice.stop();
  }
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Functions of the count that are asked for, those that are entered most often first. */
function printFunctions({ counts, scans }: Measured, count: number): void {
  const all = Object.entries(counts.entered).sort(([, one], [, other]) => other - one);
  for (const [name, entered] of all.slice(0, count)) print(`${(entered / scans).toFixed(2).padStart(8)}  ${name}`);
}

async function report(setting: Setting, which: Kind): Promise<void> {
  const counted = await measure(setting, which, true);
  const { counts, scans } = counted;
  const entered = Object.values(counts.entered).reduce((sum, count) => sum + count, 0) / scans;
  const often = Object.entries(counts.entered).filter(([, count]) => count >= scans / 2);
  const files = new Set(often.map(([name]) => name.split(' ')[0]));
  const heap = await measure(setting, which, false);
  print(
    `${which}: ${entered.toFixed(0)} functions entered in ${files.size} files, ` +
      `${(counts.closures / scans).toFixed(0)} closures made, ` +
      `${(heap.counts.allocatedBytes / heap.scans / 1024).toFixed(1)} KB of heap, ` +
      `${(heap.counts.promotedBytes / heap.scans / 1024).toFixed(1)} KB of it promoted, for each scan`,
  );
  printFunctions(counted, setting.named);
  // Nobody has asked for traces.
  const traced = Object.keys(counts.entered).filter((name) => TRACING.test(name));
  if (traced.length > 0) throw new Error(`Traces cost something while they are off: ${traced.join(', ')}`);
}

const { connections, named } = new Command('npm run bench:count --')
  .description('Counts what one upload of 1 KB costs: functions entered, closures made, heap allocated and promoted.')
  .option('--connections <count>', 'connections of the client; 1: each scan finds the server idle', whole, 1)
  .option('--named <count>', 'functions that are named, those that are entered most often first', whole, 0)
  .parse()
  .opts<{ connections: number; named: number }>();
const folder = await mkdtemp(join(tmpdir(), 'sluice-count-'));
try {
  for (const which of ['unique', 'repeated'] as const) await report({ folder, connections, named }, which);
} finally {
  await rm(folder, { recursive: true, force: true });
}
