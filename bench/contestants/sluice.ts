// Contestant: the real service, `sluice serve` with its embedded store and its default settings, over HTTP keep-alive.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, open, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { mainPath } from '../../src/paths.js';
import { freePort } from '../../test/fixtures/free-port.js';
import { startPostgres } from '../../test/fixtures/postgres.js';
import { startRedis } from '../../test/fixtures/redis.js';
import { compile, loadProgram } from '../compile.js';
import { descendants } from '../cpu.js';
import { copyLearned } from '../learned.js';
import { endProcess, pidOf, startLineProcess } from '../line-process.js';
import {
  askForFiles,
  askForPace,
  askForRun,
  type Contestant,
  type PacedContestant,
  type Setting,
} from './contestant.js';
import { speakTo } from './socket-client.js';

const READY_TIMEOUT_MS = 180_000;
const LOG_CHARACTERS = 2_000;
const ACCOUNT = 'bench@example.org';

export interface SluiceContestant extends PacedContestant {
  readonly url: string;
}

/** The service as it comes, but for what it remembers: every scan is one. */
export function startForgetfulSluice(setting: Setting, connections: number): Promise<SluiceContestant> {
  return startSluice(setting, connections, { VERDICT_CACHE_MB: '0' });
}

/** The same with what was learned of other files. */
export async function startLearnedSluice(setting: Setting, connections: number): Promise<Contestant> {
  return { ...(await startForgetfulSluice(setting, connections)), name: 'sluice-learned' };
}

/** The same by clamd's protocol, over a UNIX socket. */
export function startSluiceClamd(
  setting: Setting,
  connections: number,
  env: Readonly<Record<string, string>> = {},
): Promise<PacedContestant> {
  return startBySocket('sluice-clamd', setting, connections, { VERDICT_CACHE_MB: '0', ...env });
}

/** With its memory of verdicts. */
export function startRememberingSluiceClamd(setting: Setting, connections: number): Promise<PacedContestant> {
  return startBySocket('sluice-clamd-cache', setting, connections, {});
}

async function startBySocket(
  name: string,
  setting: Setting,
  connections: number,
  env: Readonly<Record<string, string>>,
): Promise<PacedContestant> {
  const socketPath = join(await mkdtemp(join(tmpdir(), 'sluice-bench-')), 'clamd.sock');
  const settings = { CLAMD_SOCKET: socketPath, CLAMD_ACCOUNT: ACCOUNT, BOOTSTRAP_EMAIL: ACCOUNT };
  const { pid, stop } = await startServer(setting, { ...settings, ...env });
  return await speakTo({ name, pid, socketPath, stop }, connections);
}

/** The same over node:http. */
export async function startNodeSluice(setting: Setting, connections: number): Promise<Contestant> {
  const env = { VERDICT_CACHE_MB: '0', HTTP_SERVER: 'node' };
  return { ...(await startSluice(setting, connections, env)), name: 'sluice-node' };
}

/** The same without gates. */
export async function startPlainSluice(setting: Setting, connections: number): Promise<Contestant> {
  const env = { VERDICT_CACHE_MB: '0', ENGINE_GATES: 'off' };
  return { ...(await startSluice(setting, connections, env)), name: 'sluice-plain' };
}

/** The service as it comes, with Redis and Postgres, as several nodes would have them. */
export async function startSluiceWithStores(setting: Setting, connections: number): Promise<SluiceContestant> {
  return await startBesideStores(setting, connections, { name: 'sluice-cache', env: {} });
}

/** The same, but for what it remembers: every scan is one. The stores' own CPU time is not in its figure. */
export async function startForgetfulSluiceWithStores(
  setting: Setting,
  connections: number,
  env: Readonly<Record<string, string>> = {},
): Promise<SluiceContestant> {
  return await startBesideStores(setting, connections, {
    name: 'sluice-stores',
    env: { VERDICT_CACHE_MB: '0', ...env },
  });
}

async function startBesideStores(
  setting: Setting,
  connections: number,
  { name, env: settings }: { readonly name: string; readonly env: Readonly<Record<string, string>> },
): Promise<SluiceContestant> {
  const [postgres, redis] = await Promise.all([startPostgres(), startRedis()]);
  const stopStores = async (): Promise<void> => {
    await redis.stop();
    await postgres.stop();
  };
  try {
    const env = { ...settings, DATABASE_URL: await postgres.database(), REDIS_URL: redis.url };
    const sluice = await startSluice(setting, connections, env);
    return {
      ...sluice,
      name,
      async stop() {
        await sluice.stop();
        await stopStores();
      },
    };
  } catch (error) {
    await stopStores();
    throw error;
  }
}

/** `env`: settings that aren't the default ones. */
export async function startSluice(
  setting: Setting,
  connections: number,
  env: Readonly<Record<string, string>> = {},
): Promise<SluiceContestant> {
  const program = await compile(loadProgram);
  const server = await startServer(setting, env);
  const client = startLineProcess(program);
  async function stop(): Promise<void> {
    await client.stop();
    await server.stop();
  }
  try {
    await client.ask(`http ${server.port} ${server.apiKey}`);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    name: 'sluice',
    url: `http://127.0.0.1:${server.port}`,
    pid: server.pid,
    connections,
    async use(files) {
      await askForFiles(client, files);
      return null;
    },
    run: (seconds) => askForRun(client, `run ${seconds} ${connections} keep`),
    pace: (seconds, rate) => askForPace(client, seconds, rate),
    stop,
  };
}

export interface Server {
  readonly pid: number;
  readonly port: number;
  readonly apiKey: string;
  /** What the load of the signatures took. */
  readonly loadSeconds: number;
  stop(): Promise<void>;
}

/** `env` is what differs from the service as it comes. */
export async function startServer(
  { databaseDirectory, threads, folder, gatesStore = null, openFiles = null }: Setting,
  env: Readonly<Record<string, string>> = {},
): Promise<Server> {
  const own = await mkdtemp(join(folder, 'sluice-'));
  const dataDirectory = join(own, 'data');
  if (gatesStore !== null) await copyLearned(gatesStore, join(dataDirectory, 'gates'));
  const port = await freePort();
  const apiKey = randomBytes(16).toString('hex');
  const logPath = join(own, 'log');
  const log = await open(logPath, 'w');
  const limit = openFiles === null ? '' : `ulimit -n ${openFiles} && `;
  // It ends with the bench, also with one that is killed.
  const run = `${limit}exec setpriv --pdeathsig TERM "$0" "$@"`;
  const child = spawn('sh', ['-c', run, process.execPath, mainPath, 'serve'], {
    // Nothing of the caller's settings: the service as it comes, with a quota that isn't reached.
    env: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      PORT: String(port),
      DATA_DIR: dataDirectory,
      SIGNATURES_DIR: databaseDirectory,
      SCAN_THREADS: String(threads),
      PLANS: 'FREE:50,BENCH:999999999',
      BOOTSTRAP_PLAN: 'BENCH',
      BOOTSTRAP_API_KEY: apiKey,
      ...env,
    },
    stdio: ['ignore', log.fd, log.fd],
  });
  await log.close();
  let failure: string | null = null;
  child.on('error', (error) => {
    failure = error.message;
  });
  child.on('exit', (code, signal) => {
    failure ??= `it ended with ${code ?? signal}`;
  });

  const deadline = Date.now() + READY_TIMEOUT_MS;
  const processes = Number(env['PROCESSES'] ?? 1);
  while (!(await isReady(port)) || (await readyProcesses(logPath)) < processes) {
    if (failure !== null || Date.now() > deadline) {
      await endServer(child);
      const said = (await readFile(logPath, 'utf8')).slice(-LOG_CHARACTERS);
      throw new Error(`sluice does not start: ${failure ?? 'it does not become ready'}\n${said}`);
    }
    await sleep(100);
  }
  const loadSeconds = Number(/"loadMillis":(\d+)/.exec(await readFile(logPath, 'utf8'))?.[1]) / 1000;
  return { pid: pidOf(child), port, apiKey, loadSeconds, stop: () => endServer(child) };
}

/** Ends the supervisor; should it leave its server behind, that one too, by its pid. */
async function endServer(child: ChildProcess): Promise<void> {
  const below = descendants(pidOf(child)).slice(1);
  await endProcess(child);
  for (const pid of below) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch (error) {
      const gone = error instanceof Error && 'code' in error && error.code === 'ESRCH';
      if (!gone) throw error;
    }
  }
}

async function isReady(port: number): Promise<boolean> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/readyz`, { signal: AbortSignal.timeout(1_000) });
    await response.arrayBuffer();
    return response.status === 200;
  } catch {
    return false; // Not listening yet.
  }
}

/** /readyz is of one process; in the log each of them says when it listens, and when it has its signatures. */
async function readyProcesses(logPath: string): Promise<number> {
  const log = await readFile(logPath, 'utf8');
  return Math.min(...['listening', 'signatures loaded'].map((message) => log.split(`"msg":"${message}"`).length - 1));
}
