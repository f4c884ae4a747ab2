// `npm run bench:growth`: what the service takes for 1 KB, and what memory it has, as the work behind it grows: scans, requests of all sizes by two protocols, accounts, rows of history, signatures, connections. About a quarter of an hour.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command, Option } from 'commander';
import { createKey } from '../src/account/keys.js';
import { ownSignaturesDirectory } from '../src/paths.js';
import { openPostgres } from '../src/store/postgres.js';
import { freePort } from '../test/fixtures/free-port.js';
import { newUser } from '../test/fixtures/new-user.js';
import { startPostgres } from '../test/fixtures/postgres.js';
import { compile, loadProgram } from './compile.js';
import { askForFiles, askForPace, askForRun } from './contestants/contestant.js';
import { type Server, startServer } from './contestants/sluice.js';
import { privateMegabytes, untilIdle } from './cpu.js';
import { makeDatabase } from './database.js';
import { tableOf, writeFigures } from './figures.js';
import { makeFileSet } from './files.js';
import { growthPlan, type Growing as Name, growing as names } from './growth-plan.js';
import { fill } from './history/fill.js';
import { type LineProcess, startLineProcess } from './line-process.js';
import { median } from './median.js';
import { scenarios } from './scenarios.js';

const {
  database = ownSignaturesDirectory,
  figures,
  into,
  only,
  quick,
} = new Command('npm run bench:growth --')
  .description('What the service takes of 1 KB, and its memory, as the work behind it grows.')
  .option('--signatures, --database <dir>', 'folder with signatures (default: the project’s own)')
  .option('--figures', 'keep the table under docs/figures/, for the documents', false)
  .option('--into <dir>', 'keep the table in this folder')
  .option('--quick', 'two steps of each but the mixed requests, and shorter rounds: less than a minute', false)
  .addOption(new Option('--only <name>', 'one of them').choices(names))
  .parse()
  .opts<{ database?: string; figures: boolean; into?: string; only?: Name; quick: boolean }>();

const CONNECTIONS = 32;
/** Scans a second at which an answer is timed: far from the capacity, so that only the service's own work counts. */
const RATE = 1_000;
const PLANS = 'FREE:999999999,BENCH:999999999';
const ACCOUNT = 'bench@example.org';
/** Memory of contents and threads that stand in for others go back within it: what is left is what the requests have left. */
const REST_SECONDS = 20;
/** At one time, of what is inserted. */
const AT_ONCE = 10;

const { rounds, roundSeconds, warmUpSeconds, paceSeconds, steps } = growthPlan(quick);

const folder = await mkdtemp(join(tmpdir(), 'sluice-growth-'));
const files = await makeFileSet(
  { name: '1KB', files: { kind: 'unique', sizeBytes: 1024 } },
  folder,
  async () => () => true,
);
const rows: string[][] = [];

interface Running {
  readonly server: Server;
  readonly client: LineProcess;
  stop(): Promise<void>;
}

async function start(
  env: Readonly<Record<string, string>> = {},
  { databaseDirectory = resolve(database), openFiles = null as number | null, isWarm = true } = {},
): Promise<Running> {
  const setting = { databaseDirectory, threads: availableParallelism(), folder, openFiles };
  const server = await startServer(setting, { VERDICT_CACHE_MB: '0', PLANS, ...env });
  const client = startLineProcess(await compile(loadProgram));
  await client.ask(`http ${server.port} ${server.apiKey}`);
  await askForFiles(client, files);
  if (isWarm) await askForRun(client, `run ${warmUpSeconds} ${CONNECTIONS} keep`);
  return {
    server,
    client,
    async stop() {
      await client.stop();
      await server.stop();
    },
  };
}

/** `memoryBefore`: in megabytes, where what is timed must not count. */
async function look(
  name: Name,
  count: number,
  { server, client }: Running,
  memoryBefore: number | null = null,
): Promise<void> {
  const rates: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    await untilIdle(server.pid);
    const { scans, seconds, errors, firstError } = await askForRun(client, `run ${roundSeconds} ${CONNECTIONS} keep`);
    if (errors > 0) throw new Error(firstError);
    rates.push(scans / seconds);
  }
  await untilIdle(server.pid);
  const { p50Us = 0, p99Us = 0, errors, firstError } = await askForPace(client, paceSeconds, RATE);
  if (errors > 0) throw new Error(firstError);
  await untilIdle(server.pid);
  const megabytes = memoryBefore ?? privateMegabytes(server.pid);
  const measured = [median(rates).toFixed(0), (p50Us / 1000).toFixed(2), (p99Us / 1000).toFixed(2)];
  rows.push([name, String(count), ...measured, megabytes.toFixed(0)]);
  process.stdout.write(`${rows.at(-1)?.join('  ')}\n`);
}

async function growScans(): Promise<void> {
  const running = await start();
  let done = 0;
  try {
    for (const count of steps.scans) {
      while (done < count) {
        const { scans } = await askForRun(running.client, `run ${roundSeconds} ${CONNECTIONS} keep`);
        done += scans;
      }
      await look('scans', count, running);
    }
  } finally {
    await running.stop();
  }
}

/** By HTTP and by clamd's protocol in turns. Nothing else comes before the first memory. */
async function growMixed(): Promise<void> {
  const [mixed] = scenarios.filter(({ name }) => name === 'mixed');
  if (mixed === undefined) throw new Error('There is a scenario of that name');
  const mixedFiles = await makeFileSet(mixed, folder, async () => () => true);
  const socket = join(folder, 'clamd.sock');
  const running = await start(
    { CLAMD_SOCKET: socket, CLAMD_ACCOUNT: ACCOUNT, BOOTSTRAP_EMAIL: ACCOUNT },
    { isWarm: false },
  );
  const { server } = running;
  const program = await compile(loadProgram);
  const clients = [`http ${server.port} ${server.apiKey}`, `clamd ${socket}`].map((target) => ({
    target,
    client: startLineProcess(program),
  }));
  let done = 0;
  try {
    for (const { target, client } of clients) {
      await client.ask(target);
      await askForFiles(client, mixedFiles);
    }
    for (const count of steps.mixed) {
      while (done < count) {
        for (const { client } of clients) {
          const run = await askForRun(client, `run ${roundSeconds} ${CONNECTIONS} keep`);
          if (run.errors > 0) throw new Error(run.firstError);
          done += run.scans;
        }
      }
      await sleep(REST_SECONDS * 1000);
      await look('mixed', count, running, privateMegabytes(server.pid));
    }
  } finally {
    for (const { client } of clients) await client.stop();
    await running.stop();
  }
}

async function growAccounts(): Promise<void> {
  const postgres = await startPostgres();
  const url = await postgres.database();
  const running = await start({ DATABASE_URL: url });
  const { sql, close } = await openPostgres({ kind: 'url', url });
  const keys: string[] = [];
  const addKey = async (number: number): Promise<void> => {
    const userId = await newUser(sql, `account-${number}@example.com`);
    keys.push((await createKey(sql, { userId, name: 'bench' })).value);
  };
  try {
    for (const count of steps.accounts) {
      while (keys.length < count) {
        const some = Math.min(AT_ONCE, count - keys.length);
        await Promise.all(Array.from({ length: some }, (_, index) => addKey(keys.length + index)));
      }
      const list = join(folder, 'keys');
      await writeFile(list, keys.map((key) => `${key}\n`).join(''));
      await running.client.ask(`keys ${list}`);
      await look('accounts', count, running);
    }
  } finally {
    await close();
    await running.stop();
    await postgres.stop();
  }
}

async function growRows(): Promise<void> {
  const postgres = await startPostgres();
  try {
    for (const count of steps.rows) {
      const url = await postgres.database();
      const { sql, close } = await openPostgres({ kind: 'url', url });
      if (count > 0) await fill(sql, count, Date.now());
      await close();
      const running = await start({ DATABASE_URL: url });
      await look('rows', count, running).finally(() => running.stop());
    }
  } finally {
    await postgres.stop();
  }
}

async function growSignatures(): Promise<void> {
  for (const fileHashes of steps.signatures) {
    const databaseDirectory = join(folder, `signatures-${fileHashes}`);
    await makeDatabase(resolve(database), { fileHashes }, databaseDirectory);
    const running = await start({}, { databaseDirectory });
    await look('signatures', fileHashes, running).finally(() => running.stop());
    await rm(databaseDirectory, { recursive: true });
  }
}

async function growConnections(): Promise<void> {
  const clamd = await freePort();
  const most = Math.max(...steps.connections);
  const running = await start(
    { CLAMD_PORT: String(clamd), CLAMD_ACCOUNT: ACCOUNT, BOOTSTRAP_EMAIL: ACCOUNT },
    { openFiles: 2 * most + 2_000 },
  );
  const crowd = startLineProcess(process.execPath, { args: [join(import.meta.dirname, 'crowd-process.js')] });
  try {
    for (const count of steps.connections) {
      const open = await crowd.ask(`open ${clamd} ${clamd} ${count / 2} 0`);
      if (Number.parseInt(open, 10) !== count) throw new Error(`${open} connections are open`);
      await look('connections', count, running);
      await crowd.ask('close');
    }
  } finally {
    await crowd.stop();
    await running.stop();
  }
}

const grow: Readonly<Record<Name, () => Promise<void>>> = {
  scans: growScans,
  mixed: growMixed,
  accounts: growAccounts,
  rows: growRows,
  signatures: growSignatures,
  connections: growConnections,
};

try {
  for (const name of names) if ((only === undefined || name === only) && steps[name].length > 0) await grow[name]();
} finally {
  await rm(folder, { recursive: true, force: true });
}
const given = database === ownSignaturesDirectory ? '' : ' --database DIR';
const command = `npm run bench:growth --${given}${only === undefined ? '' : ` --only ${only}`} --figures`;
const columns = ['of', 'so many', 'scans/s', 'p50 ms', 'p99 ms', 'MB'];
process.stdout.write(`${tableOf({ command, date: 'now', machine: 'this machine', columns, rows })}\n`);
if (figures || into !== undefined)
  writeFigures(only === undefined ? 'growth' : `growth-${only}`, { command, columns, rows }, into);
