// `npm run bench:beside`: what small scans wait for beside large ones, and what the large ones lose by them; of the service and of clamd, in turns, one run.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Command, Option } from 'commander';
import { makeAccount } from '../test/fixtures/another-account.js';
import { startClamd } from '../test/fixtures/clamd.js';
import { positive, whole } from '../test/fixtures/option-values.js';
import { compile, loadProgram } from './compile.js';
import { askForFiles, askForPace, askForRun, type Measurement } from './contestants/contestant.js';
import { type Server, startServer } from './contestants/sluice.js';
import { privateMegabytes, untilIdle } from './cpu.js';
import { makeDatabase } from './database.js';
import { writeFigures } from './figures.js';
import { type FileSet, makeFileSet } from './files.js';
import { type LargeFiles, type LargeKind, makeLargeFiles } from './large-files.js';
import { type LineProcess, startLineProcess } from './line-process.js';
import { median } from './median.js';

/** As Debian's package configures it. */
const CLAMD_THREADS = 12;
const LARGE_CONNECTIONS = 4;
const SMALL_RATE = 100;
const WARM_UP_SECONDS = 2;

const cases = {
  'one account': { kind: 'pdf', byUrl: false, accounts: 1 },
  'two accounts': { kind: 'pdf', byUrl: false, accounts: 2 },
  'by URL': { kind: 'pdf', byUrl: true, accounts: 1 },
  archives: { kind: 'zip', byUrl: false, accounts: 1 },
} as const satisfies Record<string, { kind: LargeKind; byUrl: boolean; accounts: 1 | 2 }>;
type CaseName = keyof typeof cases;

/** One of the two that are measured, with its clients. */
interface Contestant {
  readonly name: string;
  readonly pid: number;
  small(seconds: number): Promise<Measurement>;
  large(seconds: number): Promise<Measurement>;
  stop(): Promise<void>;
}

interface Rounds {
  readonly contestant: Contestant;
  readonly p50s: number[];
  readonly p99s: number[];
  readonly aloneP50s: number[];
  readonly aloneP99s: number[];
  readonly shares: number[];
  readonly largeRates: number[];
  readonly beforeMb: number;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

async function openClients(program: string, target: readonly [string, string], files: readonly [FileSet, FileSet]) {
  const clients = [startLineProcess(program), startLineProcess(program)] as const;
  for (const at of [0, 1] as const) {
    await clients[at].ask(target[at]);
    await askForFiles(clients[at], files[at]);
  }
  return clients;
}

async function startClamdSide(database: string, small: FileSet, large: FileSet): Promise<Contestant> {
  const program = await compile(loadProgram);
  const clamd = await startClamd({ databaseDirectory: database, threads: CLAMD_THREADS });
  const target = `clamd ${clamd.socketPath}`;
  const [one, other] = await openClients(program, [target, target], [small, large]);
  return {
    name: 'clamd',
    pid: clamd.pid,
    small: (seconds) => askForPace(one, seconds, SMALL_RATE),
    large: (seconds) => askForRun(other, `run ${seconds} ${LARGE_CONNECTIONS} keep`),
    async stop() {
      await one.stop();
      await other.stop();
      await clamd.stop();
    },
  };
}

/** A closed loop of clients that send the URLs of the files. */
async function runUrls(server: Server, urls: readonly string[], seconds: number): Promise<Measurement> {
  const begin = performance.now();
  const tally = { scans: 0, errors: 0, firstError: '' };
  async function lane(at: number): Promise<void> {
    for (let next = at; performance.now() - begin < seconds * 1000; next += 1) {
      const body = new FormData();
      body.set('url', urls[next % urls.length] ?? '');
      const headers = { 'X-API-KEY': server.apiKey };
      const response = await fetch(`http://127.0.0.1:${server.port}/api/v1/scans`, { method: 'POST', headers, body });
      const text = await response.text();
      tally.scans += 1;
      if (response.status === 200) continue;
      tally.errors += 1;
      tally.firstError ||= text;
    }
  }
  await Promise.all(Array.from({ length: LARGE_CONNECTIONS }, (_, at) => lane(at)));
  return { ...tally, seconds: (performance.now() - begin) / 1000 };
}

async function startOrigin(paths: readonly string[]) {
  const contents = await Promise.all(paths.map((path) => readFile(path)));
  const server = createServer((request, response) => {
    response.end(contents[Number(request.url?.slice(1)) % contents.length]);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const bound = server.address();
  if (bound === null || typeof bound === 'string') throw new Error('the origin has no port');
  return {
    urls: contents.map((_, index) => `http://127.0.0.1:${bound.port}/${index}`),
    stop: (): void => void server.close(),
  };
}

async function startSluiceSide(
  name: CaseName,
  setting: { database: string; folder: string },
  small: FileSet,
  large: LargeFiles,
): Promise<Contestant> {
  const { byUrl, accounts } = cases[name];
  const program = await compile(loadProgram);
  const origin = byUrl ? await startOrigin(large.paths) : null;
  const server = await startServer(
    { databaseDirectory: setting.database, threads: availableParallelism(), folder: setting.folder },
    {
      VERDICT_CACHE_MB: '0',
      URL_ALLOW_NETWORKS: '127.0.0.0/8',
      REGISTRATION: 'open',
      PLANS: 'FREE:999999999,BENCH:999999999',
    },
  );
  const target = (key: string): string => `http ${server.port} ${key}`;
  const second = accounts === 2 ? await makeAccount(`http://127.0.0.1:${server.port}`, 'second@example.com') : null;
  const smallKey = second?.key ?? server.apiKey;
  const [one, other]: readonly LineProcess[] = await openClients(
    program,
    [target(smallKey), target(server.apiKey)],
    [small, large],
  );
  if (one === undefined || other === undefined) throw new Error('there are no clients');
  return {
    name: 'sluice',
    pid: server.pid,
    small: (seconds) => askForPace(one, seconds, SMALL_RATE),
    large: (seconds) =>
      origin === null
        ? askForRun(other, `run ${seconds} ${LARGE_CONNECTIONS} keep`)
        : runUrls(server, origin.urls, seconds),
    async stop() {
      await one.stop();
      await other.stop();
      await server.stop();
      origin?.stop();
    },
  };
}

/** The small ones alone, the large ones alone, both together. */
async function runRound(rounds: Rounds, seconds: number): Promise<void> {
  const { contestant } = rounds;
  const alone = await contestant.small(seconds);
  const large = await contestant.large(seconds);
  await untilIdle(contestant.pid);
  const [small, beside] = await Promise.all([contestant.small(seconds), contestant.large(seconds)]);
  await untilIdle(contestant.pid);
  const failed = [alone, large, small, beside].find(({ errors }) => errors > 0);
  if (failed !== undefined) {
    // It counts nowhere.
    print(`  a round of ${contestant.name} failed: ${failed.firstError}`);
    return;
  }
  rounds.aloneP50s.push((alone.p50Us ?? Number.NaN) / 1000);
  rounds.aloneP99s.push((alone.p99Us ?? Number.NaN) / 1000);
  rounds.p50s.push((small.p50Us ?? Number.NaN) / 1000);
  rounds.p99s.push((small.p99Us ?? Number.NaN) / 1000);
  rounds.largeRates.push(large.scans / large.seconds);
  rounds.shares.push(beside.scans / beside.seconds / (large.scans / large.seconds));
}

function rowOf(name: CaseName, { contestant, p50s, p99s, aloneP50s, shares, largeRates }: Rounds): string[] {
  const two = (values: readonly number[]): string => median(values).toFixed(2);
  return [name, contestant.name, two(p50s), two(p99s), two(aloneP50s), two(largeRates), two(shares)];
}

const columns = ['', '', 'p50 ms', 'p99 ms', 'p50 ms alone', 'large ones a second alone', 'of it beside'];

function describe(rounds: Rounds): string {
  const ms = (values: readonly number[]): string => `${median(values).toFixed(2)} ms`;
  const memory = `${rounds.beforeMb.toFixed(0)} MB before, ${privateMegabytes(rounds.contestant.pid).toFixed(0)} after`;
  return (
    `  ${rounds.contestant.name}: 1 KB beside p50 ${ms(rounds.p50s)}, p99 ${ms(rounds.p99s)}; alone ${ms(rounds.aloneP50s)}, ` +
    `${ms(rounds.aloneP99s)}; large ${median(rounds.largeRates).toFixed(2)}/s alone, ${median(rounds.shares).toFixed(2)} of it beside; ${memory}`
  );
}

interface Options {
  readonly database: string;
  readonly rounds: number;
  readonly seconds: number;
  readonly contestant?: 'sluice' | 'clamd';
  readonly only?: CaseName;
  readonly figures?: string;
}

const command = new Command('bench:beside')
  .description(`1 KB ${SMALL_RATE} times a second beside ${LARGE_CONNECTIONS} connections of large contents`)
  .option('--signatures, --database <folder>', 'signatures, .gz unpacked', 'signatures')
  .option('--rounds <count>', 'rounds of each contestant', whole, 5)
  .option('--seconds <seconds>', 'of each measurement', positive, 8)
  .addOption(new Option('--contestant <name>', 'one alone').choices(['sluice', 'clamd']))
  .addOption(new Option('--only <case>', 'one case').choices(Object.keys(cases)))
  .option('--figures <name>', 'keep the table under docs/figures/, for the documents')
  .parse();
const options: Options = command.opts();

const rows: string[][] = [];
const folder = await mkdtemp(join(tmpdir(), 'sluice-beside-'));
try {
  const database = join(folder, 'database');
  await makeDatabase(resolve(options.database), {}, database);
  const scenario = { name: '1KB', files: { kind: 'unique', sizeBytes: 1024 } } as const;
  const small = await makeFileSet(scenario, folder, async () => () => true);
  for (const name of Object.keys(cases).filter((one): one is CaseName => one in cases)) {
    if (options.only !== undefined && options.only !== name) continue;
    const large = await makeLargeFiles(cases[name].kind, folder);
    print(`${name}: ${large.count} files, ${(large.totalBytes / large.count / 1024 / 1024).toFixed(1)} MB on average`);
    const sides: Rounds[] = [];
    try {
      const starts = {
        sluice: () => startSluiceSide(name, { database, folder }, small, large),
        clamd: () => startClamdSide(database, small, large),
      };
      for (const one of ['sluice', 'clamd'] as const) {
        if (options.contestant !== undefined && options.contestant !== one) continue;
        const contestant = await starts[one]();
        await contestant.small(WARM_UP_SECONDS);
        const beforeMb = privateMegabytes(contestant.pid);
        const empty = { p50s: [], p99s: [], aloneP50s: [], aloneP99s: [], shares: [], largeRates: [] };
        sides.push({ contestant, beforeMb, ...empty });
      }
      for (let round = 0; round < options.rounds; round += 1) {
        for (const side of round % 2 === 0 ? sides : [...sides].reverse()) await runRound(side, options.seconds);
      }
      for (const side of sides) print(describe(side));
      rows.push(...sides.map((side) => rowOf(name, side)));
    } finally {
      for (const { contestant } of sides) await contestant.stop();
    }
  }
  if (options.figures !== undefined) {
    const asked = `--database DIR --rounds ${options.rounds} --seconds ${options.seconds}`;
    writeFigures(options.figures, { command: `npm run bench:beside -- ${asked}`, columns, rows });
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
