// `npm run bench:reload`: latency under full load with and without reloads of the signatures, and the memory after each.
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command, Option } from 'commander';
import { z } from 'zod';
import { ownSignaturesDirectory } from '../src/paths.js';
import type { Measurement } from './contestants/contestant.js';
import { type SluiceContestant, startSluice } from './contestants/sluice.js';
import { descendants } from './cpu.js';
import { makeDatabase } from './database.js';
import { tableOf, writeFigures } from './figures.js';
import { makeFileSet } from './files.js';
import { median } from './median.js';
import { scenarios } from './scenarios.js';

const MIB = 1024 * 1024;
const LOOK_MS = 50;

const settings = z.object({
  database: z.string().default(ownSignaturesDirectory),
  hashes: z.coerce.number().int().min(0),
  every: z.coerce.number().positive(),
  seconds: z.coerce.number().positive(),
  rounds: z.coerce.number().int().positive(),
  threads: z.coerce.number().int().positive(),
  connections: z.coerce.number().int().positive(),
  only: z.string(),
  figures: z.boolean(),
  into: z.string().optional(),
});
type Settings = z.infer<typeof settings>;

function readSettings(): Settings {
  const command = new Command('npm run bench:reload --')
    .description('Measures scans without and with reloads, in turns; the reloads are asked for by SIGHUP.')
    .option(
      '--signatures, --database <dir>',
      'folder with signatures, .gz files are unpacked (default: the project’s own)',
    )
    .option('--hashes <count>', 'generated signatures beside them', '0')
    .option('--every <seconds>', 'from the end of one reload to the next', '3')
    .option('--seconds <seconds>', 'length of a round', '15')
    .option('--rounds <count>', 'rounds of each kind', '3')
    .option('--threads <count>', 'scan threads', '1')
    .option('--connections <count>', 'connections of the client', '4')
    .addOption(
      new Option('--only <scenario>', 'what is scanned').choices(scenarios.map(({ name }) => name)).default('100KB'),
    )
    .option('--figures', 'keep the table under docs/figures/, for the documents', false)
    .option('--into <dir>', 'keep the table in this folder')
    .parse(process.argv);
  return settings.parse(command.opts());
}

function residentMib(sluice: SluiceContestant): number {
  const pids = descendants(sluice.pid).slice(1);
  const kib = pids.map((pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0));
  return Math.round((kib.reduce((sum, one) => sum + one, 0) * 1024) / MIB);
}

const readiness = z.object({
  engine: z.object({ epoch: z.number(), signatures: z.number(), reload: z.object({ status: z.string() }) }),
});

async function look({ url }: SluiceContestant): Promise<z.infer<typeof readiness>['engine']> {
  return readiness.parse(await (await fetch(`${url}/readyz`)).json()).engine;
}

interface Reloads {
  readonly memory: readonly number[];
  readonly peak: number;
  readonly millis: readonly number[];
}

/** Reloads until it is stopped. */
async function reloadUntil(sluice: SluiceContestant, everySeconds: number, isOver: () => boolean): Promise<Reloads> {
  const memory: number[] = [];
  const millis: number[] = [];
  let peak = 0;
  while (!isOver()) {
    const { epoch } = await look(sluice);
    const startedMs = performance.now();
    process.kill(sluice.pid, 'SIGHUP');
    for (;;) {
      await sleep(LOOK_MS);
      peak = Math.max(peak, residentMib(sluice));
      const now = await look(sluice);
      if (now.reload.status === 'failed') throw new Error(`a reload failed: ${JSON.stringify(now)}`);
      if (now.epoch > epoch && now.reload.status === 'none') break;
    }
    millis.push(performance.now() - startedMs);
    // The old engine is freed meanwhile.
    await sleep(everySeconds * 1000);
    memory.push(residentMib(sluice));
  }
  return { memory, peak, millis };
}

const columns = [
  '',
  'scans/s',
  'p50 ms',
  'p99 ms',
  'reloads',
  's each',
  'MiB before',
  'MiB after, most',
  'MiB at most',
];

function rowOf(name: string, rounds: readonly Measurement[], others: readonly string[]): string[] {
  const of = (pick: (one: Measurement) => number | undefined): number =>
    median(rounds.map((one) => pick(one) ?? Number.NaN));
  const rate = of((one) => one.scans / one.seconds).toFixed(0);
  const [p50, p99] = [of((one) => one.p50Us) / 1000, of((one) => one.p99Us) / 1000];
  const broken = rounds.find((one) => one.errors > 0);
  if (broken !== undefined) throw new Error(`${broken.errors} scans went wrong ${name}: ${broken.firstError}`);
  return [name, rate, p50.toFixed(2), p99.toFixed(2), ...others];
}

async function measure(given: Settings, folder: string): Promise<void> {
  const databaseDirectory = join(folder, 'database');
  await makeDatabase(resolve(given.database), { hashes: given.hashes }, databaseDirectory);
  const scenario = scenarios.find(({ name }) => name === given.only);
  if (scenario === undefined) throw new Error(`There is no scenario ${given.only}`);
  const sluice = await startSluice({ databaseDirectory, threads: given.threads, folder }, given.connections, {
    SIGNATURES_POLL_SECONDS: '0',
  });
  try {
    await sluice.use(await makeFileSet(scenario, folder, async () => () => true));
    await sluice.run(1);
    const { signatures } = await look(sluice);
    const beforeMib = residentMib(sluice);
    const quiet: Measurement[] = [];
    const reloading: Measurement[] = [];
    const reloads: Reloads[] = [];
    for (let round = 0; round < given.rounds; round += 1) {
      quiet.push(await sluice.run(given.seconds));
      let over = false;
      const work = reloadUntil(sluice, given.every, () => over);
      reloading.push(await sluice.run(given.seconds));
      over = true;
      reloads.push(await work);
    }
    const millis = reloads.flatMap((one) => one.millis);
    const after = Math.max(...reloads.flatMap((one) => one.memory));
    const most = Math.max(...reloads.map((one) => one.peak));
    const ofReloads = [
      String(millis.length),
      (median(millis) / 1000).toFixed(2),
      ...[beforeMib, after, most].map(String),
    ];
    const rows = [
      rowOf('without reloads', quiet, ['0', '-', String(beforeMib), '-', '-']),
      rowOf('with reloads', reloading, ofReloads),
    ];
    const database = given.database === ownSignaturesDirectory ? '' : ' --database DIR';
    const command = `npm run bench:reload --${database} --hashes ${given.hashes} --only ${given.only} --figures`;
    process.stdout.write(`${signatures} signatures\n`);
    process.stdout.write(`${tableOf({ command, date: 'now', machine: 'this machine', columns, rows })}\n`);
    if (given.figures || given.into !== undefined) writeFigures('reload', { command, columns, rows }, given.into);
  } finally {
    await sluice.stop();
  }
}

const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
try {
  await measure(readSettings(), folder);
} finally {
  await rm(folder, { recursive: true, force: true });
}
