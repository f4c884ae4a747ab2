// `npm run bench:start`: how soon Sluice and clamd are ready with a database of real size, and what they hold then.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import { ownSignaturesDirectory } from '../src/paths.js';
import { startClamd } from '../test/fixtures/clamd.js';
import { whole } from '../test/fixtures/option-values.js';
import { startServer } from './contestants/sluice.js';
import { cpuSeconds, untilIdle } from './cpu.js';
import { makeDatabase } from './database.js';
import { writeFigures } from './figures.js';
import { median } from './median.js';
import { listOf, residentOf, sumOf } from './resident.js';

/** As Debian's package configures it. */
const CLAMD_THREADS = 12;

const settings = z.object({
  database: z.string().default(ownSignaturesDirectory),
  sectionHashes: z.coerce.number().int().min(0),
  fileHashes: z.coerce.number().int().min(0),
  rounds: z.number(),
  threads: z.number(),
  figures: z.boolean(),
  into: z.string().optional(),
});
type Settings = z.infer<typeof settings>;

function readSettings(): Settings {
  const command = new Command('npm run bench:start --')
    .description('Starts Sluice and clamd in turns with the same signatures, and looks at them when they are ready.')
    .option(
      '--signatures, --database <dir>',
      'folder with signatures, .gz files are unpacked (default: the project’s own)',
    )
    .option('--section-hashes <count>', 'made-up hashes of sections beside them', '4200000')
    .option('--file-hashes <count>', 'made-up hashes of files beside them', '2300000')
    .option('--rounds <count>', 'starts of each', whole, 3)
    .option('--threads <count>', 'scan threads of Sluice', whole, 2)
    .option('--figures', 'keep the medians under docs/figures/, for the documents', false)
    .option('--into <dir>', 'keep the medians in this folder, as a table')
    .parse(process.argv);
  return settings.parse(command.opts());
}

interface Start {
  readonly name: string;
  readonly pid: number;
  /** Of its signatures; clamd doesn't say it. */
  readonly loadSeconds?: number;
  stop(): Promise<void>;
}

interface Look {
  readonly name: string;
  readonly readySeconds: number;
  /** NaN: unknown. */
  readonly loadSeconds: number;
  readonly processorSeconds: number;
  readonly mib: number;
}

async function look(begin: () => Promise<Start>): Promise<Look> {
  const startedMs = performance.now();
  const one = await begin();
  try {
    const readySeconds = (performance.now() - startedMs) / 1000;
    const processorSeconds = cpuSeconds(one.pid);
    await untilIdle(one.pid);
    const processes = residentOf(one.pid);
    const total = sumOf(processes);
    const { name, loadSeconds = Number.NaN } = one;
    const load = Number.isNaN(loadSeconds) ? '' : ` of which the load took ${loadSeconds.toFixed(2)} s,`;
    process.stdout.write(
      `${name.padEnd(16)} ready ${readySeconds.toFixed(2).padStart(6)} s,${load} ${processorSeconds.toFixed(1).padStart(5)} processor s, ` +
        `${total.toFixed(0).padStart(5)} MiB: ${listOf(processes)}\n`,
    );
    return { name, readySeconds, loadSeconds, processorSeconds, mib: total };
  } finally {
    await one.stop();
  }
}

async function measure(given: Settings, folder: string): Promise<void> {
  const databaseDirectory = join(folder, 'database');
  await makeDatabase(resolve(given.database), given, databaseDirectory);
  const sluice = (name: string, env: Readonly<Record<string, string>>) => async (): Promise<Start> => ({
    name,
    ...(await startServer({ databaseDirectory, threads: given.threads, folder }, env)),
  });
  // The first start makes the data directory, the embedded database and the gates' plan; the others find them.
  const kept = { DATA_DIR: join(folder, 'kept') };
  const looks = [await look(sluice('sluice, first', kept))];
  for (let round = 0; round < given.rounds; round += 1) {
    const clamd = () => startClamd({ databaseDirectory, threads: CLAMD_THREADS });
    looks.push(await look(async () => ({ name: 'clamd', ...(await clamd()) })));
    looks.push(await look(sluice('sluice', kept)));
  }
  if (given.into === undefined && !given.figures) return;
  const rows = [...new Set(looks.map(({ name }) => name))].map((name) => {
    const own = looks.filter((one) => one.name === name);
    const of = (pick: (one: Look) => number): number => median(own.map(pick));
    const seconds = [of((one) => one.readySeconds), of((one) => one.loadSeconds), of((one) => one.processorSeconds)];
    const cells = seconds.map((each) => (Number.isNaN(each) ? '-' : each.toFixed(2)));
    return [name, ...cells, of((one) => one.mib).toFixed(0)];
  });
  const hashes = `--section-hashes ${given.sectionHashes} --file-hashes ${given.fileHashes}`;
  const own = given.database === ownSignaturesDirectory ? '' : '--database DIR ';
  const command = `npm run bench:start -- ${own}${hashes} --rounds ${given.rounds}`;
  writeFigures('start', { command, columns: ['', 'ready s', 'load s', 'processor s', 'MiB'], rows }, given.into);
}

const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
try {
  await measure(readSettings(), folder);
} finally {
  await rm(folder, { recursive: true, force: true });
}
