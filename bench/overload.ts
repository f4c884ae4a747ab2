// `npm run bench:overload`: an open loop at a tenth of the capacity to three times of it, with 1 KB and with files as they are, of the service and of clamd at the same rates; how soon the
// service is back afterwards, and what a second account within its share notices. The client has the same cores, which no client over a network has: what is taken is compared with what
// a closed loop gets beside a process that burns as much of them. A 503 is timed twice: from when its request was due, and from its first byte.
// A client that has no core at the time is late itself, and only the second one doesn't have that. About five minutes.
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { ownSignaturesDirectory } from '../src/paths.js';
import { makeAccount } from '../test/fixtures/another-account.js';
import { positive } from '../test/fixtures/option-values.js';
import { beside as besideProcess } from './beside-process.js';
import { compile, loadProgram } from './compile.js';
import { startClamdContestant } from './contestants/clamd.js';
import { askForFiles, askForOverload, askForPace, askForRun, type Measurement } from './contestants/contestant.js';
import { startServer } from './contestants/sluice.js';
import { untilIdle } from './cpu.js';
import { tableOf, writeFigures } from './figures.js';
import { type FileSet, makeFileSet } from './files.js';
import { startLineProcess } from './line-process.js';
import { median } from './median.js';
import { scenarios } from './scenarios.js';

const {
  figures,
  into,
  seconds,
  only,
  clamd: isByClamd,
  database,
} = new Command('npm run bench:overload --')
  .description('An open loop at a tenth of the capacity to three times of it, of the service and of clamd.')
  .option('--figures', 'keep both tables under docs/figures/, for the documents', false)
  .option('--into <dir>', 'keep both tables in this folder')
  .option('--seconds <count>', 'of a measurement', positive, 4)
  .option('--only <content>', '1KB or mixed')
  .option('--clamd', "the first account sends by clamd's protocol; shown, and not kept", false)
  .option('--signatures, --database <folder>', 'signatures; default: the ones of the project')
  .parse()
  .opts<{ figures: boolean; into?: string; seconds: number; only?: string; clamd: boolean; database?: string }>();
const ACCOUNT = 'bench@example.org';
const CONTENTS = ['1KB', 'mixed'];
const LOADS = [0.1, 0.5, 0.9, 1.5, 2, 3] as const;
const CONNECTIONS = 32;
const CAPACITY_ROUNDS = 3;
const WARM_UP_SECONDS = 2;
/** Of the capacity: what the second account asks for. */
const SECOND_SHARE = 0.05;
/** Of the address's share, most of which the first one has. */
const SECOND_CONNECTIONS = 256;
/** After the overload, at half of the capacity: how long each look is, and how many there are at most. */
const LOOK_SECONDS = 1;
const LOOKS_MOST = 5;
/** It is back when answers take no longer than this many times what they took before. */
const BACK_FACTOR = 2;

const setting = { databaseDirectory: database ?? ownSignaturesDirectory, threads: availableParallelism() };

interface Service {
  readonly capacity: number;
  readonly loads: readonly Loaded[];
  /** Seconds until answers took as long as before; null: not within the looks. */
  readonly backAfterSeconds: number | null;
  /** The second account's, with nothing beside it and beside three times the capacity. */
  readonly alone: Measurement;
  readonly beside: Measurement;
}

interface Loaded {
  readonly measured: Measurement;
  /** What a closed loop gets a second beside a process that takes what the client of this load takes more than that of the loop. */
  readonly bestBeside: number;
}

interface Capacity {
  readonly rate: number;
  readonly clientCores: number;
}

async function capacityOf(run: () => Promise<Measurement>, pid: number): Promise<Capacity> {
  const rates: number[] = [];
  const cores: number[] = [];
  for (let round = 0; round < CAPACITY_ROUNDS; round += 1) {
    const measured = checked(await run());
    rates.push(measured.scans / measured.seconds);
    cores.push(coresOf(measured));
    await untilIdle(pid);
  }
  return { rate: median(rates), clientCores: median(cores) };
}

function coresOf({ clientCpuSeconds = 0, seconds }: Measurement): number {
  return clientCpuSeconds / seconds;
}

function checked(measured: Measurement): Measurement {
  if (measured.errors > 0) throw new Error(`${measured.errors} scans went wrong: ${measured.firstError}`);
  return measured;
}

async function measureService(files: FileSet, folder: string): Promise<Service> {
  const env = { VERDICT_CACHE_MB: '0', REGISTRATION: 'open', PLANS: 'FREE:999999999,BENCH:999999999' };
  const socket = join(folder, `${files.scenario}.sock`);
  const byClamd = { CLAMD_SOCKET: socket, CLAMD_ACCOUNT: ACCOUNT, BOOTSTRAP_EMAIL: ACCOUNT };
  const server = await startServer({ ...setting, folder }, { ...env, ...(isByClamd ? byClamd : {}) });
  const { pid, port, apiKey } = server;
  const program = await compile(loadProgram);
  const [first, second] = [startLineProcess(program), startLineProcess(program)];
  try {
    const { key } = await makeAccount(`http://127.0.0.1:${port}`, 'second@example.com');
    await first.ask(isByClamd ? `clamd ${socket}` : `http ${port} ${apiKey}`);
    await second.ask(`http ${port} ${key}`);
    await Promise.all([askForFiles(first, files), askForFiles(second, files)]);
    await askForRun(first, `run ${WARM_UP_SECONDS} ${CONNECTIONS} keep`);
    const loop = () => askForRun(first, `run ${seconds / 2} ${CONNECTIONS} keep`);
    const { rate: capacity, clientCores } = await capacityOf(loop, pid);
    const overload = async (load: number) => checked(await askForOverload(first, seconds, load * capacity));
    const ofSecond = async () =>
      checked(await askForOverload(second, seconds, SECOND_SHARE * capacity, SECOND_CONNECTIONS));
    const loads: Loaded[] = [];
    for (const load of LOADS) {
      const measured = await overload(load);
      await untilIdle(pid);
      const more = Math.min(1, Math.max(0, coresOf(measured) - clientCores));
      let bestBeside = capacity;
      await besideProcess('burn-process.js', String(more), async () => {
        bestBeside = (await capacityOf(loop, pid)).rate;
      });
      loads.push({ measured, bestBeside });
      process.stdout.write(
        `${files.scenario}, ${load} times ${capacity.toFixed(0)} a second; ${measured.foundNone ?? 0} were due when no connection was free\n`,
      );
    }
    const alone = await ofSecond();
    const before = checked(await askForPace(first, LOOK_SECONDS, capacity / 2));
    const [beside] = await Promise.all([ofSecond(), overload(Math.max(...LOADS))]);
    let backAfterSeconds: number | null = null;
    for (let look = 0; look < LOOKS_MOST && backAfterSeconds === null; look += 1) {
      const { p99Us = 0, errors } = await askForPace(first, LOOK_SECONDS, capacity / 2);
      if (errors === 0 && p99Us <= BACK_FACTOR * (before.p99Us ?? 0)) backAfterSeconds = look * LOOK_SECONDS;
    }
    return { capacity, loads, backAfterSeconds, alone, beside };
  } finally {
    await first.stop();
    await second.stop();
    await server.stop();
  }
}

/** It refuses nothing: what isn't answered in time waits at the client. */
async function measureClamd(files: FileSet, folder: string, rates: readonly number[]): Promise<readonly Measurement[]> {
  const clamd = await startClamdContestant({ ...setting, folder }, CONNECTIONS);
  try {
    await clamd.use(files);
    const measured: Measurement[] = [];
    for (const rate of rates) {
      measured.push(checked(await clamd.pace(seconds, rate)));
      await untilIdle(clamd.pid);
    }
    return measured;
  } finally {
    await clamd.stop();
  }
}

function rateOf({ takenInTime = Number.NaN, countedSeconds = Number.NaN }: Measurement): number {
  return takenInTime / countedSeconds;
}

function refusedRateOf({ refusedInTime = 0, countedSeconds = Number.NaN }: Measurement): number {
  return refusedInTime / countedSeconds;
}

function ms(microseconds: number | undefined): string {
  // Nothing was answered that was due in time.
  return microseconds === undefined || microseconds === 0 ? '-' : (microseconds / 1000).toFixed(2);
}

const columns = [
  'content',
  'times the capacity',
  'asked for a second',
  'taken',
  'of the best with its cores',
  'p50 ms',
  'p99 ms',
  'refused',
  'p99 ms of a 503',
  'from its sending',
  'found no connection',
  'clamd takes',
  'its p50 ms',
  'its p99 ms',
];

function rowsOf(content: string, { capacity, loads }: Service, clamd: readonly Measurement[]): string[][] {
  return LOADS.flatMap((load, at) => {
    const [loaded, other] = [loads[at], clamd[at]];
    if (loaded === undefined || other === undefined) return [];
    const { measured: own, bestBeside } = loaded;
    const refused = refusedRateOf(own);
    return [
      [
        content,
        String(load),
        (load * capacity).toFixed(0),
        rateOf(own).toFixed(0),
        (rateOf(own) / bestBeside).toFixed(2),
        ms(own.p50Us),
        ms(own.p99Us),
        refused.toFixed(0),
        refused > 0 ? ms(own.refusedP99Us) : '-',
        refused > 0 ? ms(own.refusedSinceSentP99Us) : '-',
        String(own.foundNone ?? 0),
        rateOf(other).toFixed(0),
        ms(other.p50Us),
        ms(other.p99Us),
      ],
    ];
  });
}

const otherColumns = [
  'content',
  'as before after',
  'second account, p50 ms alone',
  'beside',
  'p99 ms alone',
  'beside',
  'of its scans refused',
];

function otherRow(content: string, { backAfterSeconds, alone, beside }: Service): string[] {
  const refused = (beside.refused ?? 0) / (beside.scans + (beside.refused ?? 0));
  const back = backAfterSeconds === null ? `more than ${LOOKS_MOST * LOOK_SECONDS} s` : `${backAfterSeconds} s`;
  return [
    content,
    back,
    ms(alone.p50Us),
    ms(beside.p50Us),
    ms(alone.p99Us),
    ms(beside.p99Us),
    `${(refused * 100).toFixed(2)} %`,
  ];
}

const folder = await mkdtemp(join(tmpdir(), 'sluice-overload-'));
const rows: string[][] = [];
const others: string[][] = [];
try {
  for (const scenario of scenarios.filter(({ name }) => CONTENTS.includes(name) && name === (only ?? name))) {
    const files = await makeFileSet(scenario, folder, async () => () => true);
    const service = await measureService(files, folder);
    const rates = LOADS.map((load) => load * service.capacity);
    rows.push(...rowsOf(scenario.name, service, await measureClamd(files, folder, rates)));
    others.push(otherRow(scenario.name, service));
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
const command = `npm run bench:overload --${database === undefined ? '' : ' --database DIR'} --figures`;
for (const table of [
  { columns, rows },
  { columns: otherColumns, rows: others },
]) {
  process.stdout.write(`${tableOf({ command, date: 'now', machine: 'this machine', ...table })}\n\n`);
}
if ((figures || into !== undefined) && !isByClamd) {
  writeFigures('overload', { command, columns, rows }, into);
  writeFigures('overload-others', { command, columns: otherColumns, rows: others }, into);
}
