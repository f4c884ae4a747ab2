// Servers with different numbers of processes and scan threads, side by side and in turns: what they do, and what of a core their serving threads have.
import { childrenOf } from '../test/fixtures/processes.js';
import { type SluiceContestant, startForgetfulSluiceWithStores } from './contestants/sluice.js';
import { untilIdle } from './cpu.js';
import type { FileSet } from './files.js';
import { median } from './median.js';
import { type ServerTimes, threadTimes } from './thread-times.js';

/** Of a few connections one process may have five more than another. */
const CONNECTIONS_MIN = 32;
const CONNECTIONS_PER_THREAD = 4;
const WARM_UP_SECONDS = 2;

export interface Division {
  readonly processes: number;
  /** Scan threads of each. */
  readonly threads: number;
}

/** Medians of the rounds. */
export interface Row extends Division {
  readonly rate: number;
  readonly lowest: number;
  readonly highest: number;
  /** Processor time of all serving threads for one scan, and of all scan threads. */
  readonly servingUs: number;
  readonly scanningUs: number;
  /** Of the serving thread that had most to do: the share of the time that it ran, and the share that it was ready to run and had no core. */
  readonly busiestRan: number;
  readonly busiestWaited: number;
  /** The share of the time that the one ran which had least to do. */
  readonly leastRan: number;
  readonly p50Us: number;
}

export interface Setting {
  readonly databaseDirectory: string;
  /** Null: nothing was learned. */
  readonly gatesStore: string | null;
  readonly folder: string;
  readonly rounds: number;
  readonly seconds: number;
  /** Null: the engine scans. */
  readonly engineSleepMs: number | null;
}

interface Server {
  readonly division: Division;
  readonly sluice: SluiceContestant;
  readonly pids: readonly number[];
}

/** Of each file set a row for each division, in their order. Throws at the first scan that isn't answered as it should be. */
export async function runDivisions(
  setting: Setting,
  divisions: readonly Division[],
  fileSets: readonly FileSet[],
): Promise<ReadonlyMap<string, readonly Row[]>> {
  const servers: Server[] = [];
  try {
    for (const division of divisions) servers.push(await start(setting, division));
    const rows = new Map<string, readonly Row[]>();
    for (const files of fileSets) {
      for (const { sluice } of servers) {
        await sluice.use(files);
        await sluice.run(WARM_UP_SECONDS);
      }
      rows.set(files.scenario, await runRounds(setting, servers));
    }
    return rows;
  } finally {
    for (const { sluice } of servers) await sluice.stop();
  }
}

async function start(setting: Setting, division: Division): Promise<Server> {
  const { databaseDirectory, gatesStore, folder, engineSleepMs } = setting;
  const { processes, threads } = division;
  const env: Record<string, string> = { PROCESSES: String(processes) };
  if (engineSleepMs !== null) {
    env['NODE_OPTIONS'] = `--import=${new URL(`./sleeping-engine.js?ms=${engineSleepMs}`, import.meta.url).href}`;
  }
  const connections = Math.max(CONNECTIONS_MIN, CONNECTIONS_PER_THREAD * processes * threads);
  const sluice = await startForgetfulSluiceWithStores(
    { databaseDirectory, gatesStore, threads, folder },
    connections,
    env,
  );
  // Postgres is not a child of the supervisor here: all of them are servers.
  const pids = childrenOf(sluice.pid);
  if (pids.length === processes) return { division, sluice, pids };
  await sluice.stop();
  throw new Error(`${pids.length} server processes instead of ${processes}`);
}

type Round = Omit<Row, keyof Division | 'lowest' | 'highest'>;

async function runRounds({ rounds, seconds }: Setting, servers: readonly Server[]): Promise<readonly Row[]> {
  const done = new Map<Server, Round[]>(servers.map((server) => [server, []]));
  for (let round = 0; round < rounds; round += 1) {
    const turn = round % servers.length;
    for (const server of [...servers.slice(turn), ...servers.slice(0, turn)]) {
      done.get(server)?.push(await runRound(server, seconds));
    }
  }
  return servers.map((server) => summarise(server.division, done.get(server) ?? []));
}

async function runRound({ sluice, pids }: Server, seconds: number): Promise<Round> {
  const before = pids.map(threadTimes);
  const { scans, seconds: took, errors, firstError, p50Us } = await sluice.run(seconds);
  const used = pids.map((pid, index) => difference(threadTimes(pid), before[index]));
  await untilIdle(sluice.pid);
  if (errors > 0) throw new Error(`${errors} scans went wrong: ${firstError}`);
  const busiest = used.reduce((one, other) => (other.serving > one.serving ? other : one));
  const usPerScan = (pick: (one: ServerTimes) => number): number =>
    (used.reduce((sum, one) => sum + pick(one), 0) / scans) * 1e6;
  return {
    rate: scans / took,
    servingUs: usPerScan((one) => one.serving),
    scanningUs: usPerScan((one) => one.scanning),
    busiestRan: busiest.serving / took,
    busiestWaited: busiest.servingWaited / took,
    leastRan: Math.min(...used.map(({ serving }) => serving)) / took,
    p50Us: p50Us ?? Number.NaN,
  };
}

function difference(after: ServerTimes, before: ServerTimes | undefined): ServerTimes {
  return {
    serving: after.serving - (before?.serving ?? 0),
    servingWaited: after.servingWaited - (before?.servingWaited ?? 0),
    scanning: after.scanning - (before?.scanning ?? 0),
    others: after.others - (before?.others ?? 0),
  };
}

function summarise(division: Division, rounds: readonly Round[]): Row {
  const of = (pick: (one: Round) => number): number => median(rounds.map(pick));
  const rates = rounds.map(({ rate }) => rate);
  return {
    ...division,
    rate: median(rates),
    lowest: Math.min(...rates),
    highest: Math.max(...rates),
    servingUs: of((one) => one.servingUs),
    scanningUs: of((one) => one.scanningUs),
    busiestRan: of((one) => one.busiestRan),
    busiestWaited: of((one) => one.busiestWaited),
    leastRan: of((one) => one.leastRan),
    p50Us: of((one) => one.p50Us),
  };
}
