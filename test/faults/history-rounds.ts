// Rounds of load and disaster: the server, its supervisor and its database killed at random moments, its stores stopped for seconds or
// crashed, and the answers of clients compared with what is kept.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { openPostgres, type Sql } from '../../src/store/postgres.js';
import { type PostgresServer, startPostgres } from '../fixtures/postgres.js';
import { childrenOf, databaseOf, programOf } from '../fixtures/processes.js';
import { type RedisServer, startRedis } from '../fixtures/redis.js';
import { eicar } from '../fixtures/samples.js';
import { startServer, type TestServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';
import { type Answers, lookInto, replay, toldBy, verify } from './kept-rows.js';

export interface RoundsOptions {
  readonly store: 'postgres' | 'embedded';
  readonly rounds: number;
  /** From 0 to 1: where the moments and the faults come from. */
  readonly random: () => number;
  readonly onRound: (text: string) => void;
}

export interface RoundsReport {
  /** Answers with a scan id that clients have received. */
  readonly answered: number;
  readonly rows: number;
  /** Of them with a verdict, and of these infected. */
  readonly scanned: number;
  readonly infected: number;
  /** How the rounds ended, by what was killed. */
  readonly kills: Readonly<Record<Kill, number>>;
  /** Rounds in which a store hung for a while or was crashed, by which. */
  readonly outages: Readonly<Record<Outage, number>>;
  /** Empty when everything holds. */
  readonly problems: readonly string[];
}

const outages = ['database', 'redis', 'both', 'databaseCrash', 'redisCrash'] as const;
export type Outage = (typeof outages)[number];

const CLIENTS = 8;
/** With an embedded database it is killed as well, or it is left to end by itself, with or without the server that uses it. */
const kills = ['all', 'allButDatabase', 'supervisor'] as const;
export type Kill = (typeof kills)[number];

/** Under load before the fault. */
const LOAD_MAX_MS = 1_200;
const OUTAGE_MIN_MS = 500;
const OUTAGE_MAX_MS = 4_000;
/** The embedded store can only be looked into while no server has it. */
const EMBEDDED_CHECK_ROUNDS = 5;

export async function runRounds(options: RoundsOptions): Promise<RoundsReport> {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-faults-'));
  const stores = options.store === 'postgres' ? { postgres: await startPostgres(), redis: await startRedis() } : null;
  const url = (await stores?.postgres.database()) ?? null;
  const counts = {
    kills: { all: 0, allButDatabase: 0, supervisor: 0 },
    outages: { database: 0, redis: 0, both: 0, databaseCrash: 0, redisCrash: 0 },
  };
  const answers: Answers = new Map();
  const problems: string[] = [];
  let rows = 0;
  const check = async (sql: Sql, round: number): Promise<void> => {
    rows = await verify(sql, answers, (problem) => problems.push(`round ${round}: ${problem}`));
  };
  try {
    for (let round = 1; round <= options.rounds; round += 1) {
      const server = await startServer({
        isSupervised: true,
        directory,
        env: environmentOf(url, stores?.redis ?? null),
      });
      if (url !== null) {
        const store = await openPostgres({ kind: 'url', url });
        await drained(server);
        await check(store.sql, round);
        await store.close();
      }
      const load = startLoad(server, answers);
      await load.begun;
      await delay(options.random() * LOAD_MAX_MS);
      const faults = stores === null ? embeddedFaults(server) : faultsOf(stores);
      const fault = await disturb(faults, options.random, counts.outages);
      const killed = stores === null ? (kills[Math.floor(options.random() * kills.length)] ?? 'all') : 'all';
      await kill(server, killed);
      counts.kills[killed] += 1;
      fault.resume();
      await load.stop();
      options.onRound(
        `round ${round}: ${fault.text}, killed ${killed}, ${answers.size} answered, ${rows} rows, ${problems.length} problems`,
      );
      const isCheck = url === null && (round % EMBEDDED_CHECK_ROUNDS === 0 || round === options.rounds);
      if (isCheck) await lookInto(join(directory, 'data'), (sql) => check(sql, round));
    }
    if (url !== null) await replay(url, join(directory, 'data'), (sql) => check(sql, options.rounds));
  } finally {
    await resume(stores);
    await stores?.redis.stop();
    await stores?.postgres.stop();
    rmSync(directory, { recursive: true, force: true });
  }
  const told = [...answers.values()].filter(({ status }) => status === 200);
  const infected = told.filter((answer) => answer.infected).length;
  return { answered: answers.size, rows, scanned: told.length, infected, ...counts, problems };
}

interface Stores {
  readonly postgres: PostgresServer;
  readonly redis: RedisServer;
}

function environmentOf(url: string | null, redis: RedisServer | null): Record<string, string> {
  const quota = { PLANS: 'BUSINESS:900000000' };
  if (url === null || redis === null) return quota;
  return { ...quota, DATABASE_URL: url, REDIS_URL: redis.url, BOOTSTRAP_EMAIL: 'faults@example.com' };
}

/** What can be done to a store: stopped and let go again; where `resume` is missing it comes back by itself. */
interface Fault {
  readonly begin: () => Promise<void> | void;
  readonly resume?: () => void;
}

type Faults = Readonly<Partial<Record<Outage, Fault>>>;

function faultsOf({ postgres, redis }: Stores): Faults {
  return {
    database: { begin: postgres.pause, resume: postgres.resume },
    redis: { begin: () => redis.signal('SIGSTOP'), resume: () => redis.signal('SIGCONT') },
    both: {
      begin() {
        postgres.pause();
        redis.signal('SIGSTOP');
      },
      resume() {
        postgres.resume();
        redis.signal('SIGCONT');
      },
    },
    databaseCrash: { begin: () => postgres.restart() },
    redisCrash: {
      async begin() {
        await redis.kill();
        await redis.start();
      },
    },
  };
}

/** The processes of the embedded database: as they would be on a machine that has no time for them, and killed. */
function embeddedFaults(server: TestServer): Faults {
  const postmaster = databaseOf(server.pid);
  const stopped: number[] = [];
  return {
    database: {
      begin() {
        // The parent first: what it starts meanwhile would be missed.
        process.kill(postmaster, 'SIGSTOP');
        stopped.push(postmaster, ...childrenOf(postmaster));
        for (const pid of stopped) process.kill(pid, 'SIGSTOP');
      },
      resume() {
        for (const pid of stopped) if (existsSync(`/proc/${pid}`)) process.kill(pid, 'SIGCONT');
      },
    },
    databaseCrash: { begin: () => void process.kill(postmaster, 'SIGKILL') },
  };
}

interface Disturbance {
  readonly text: string;
  /** What is still to be done when the server is dead. */
  readonly resume: () => void;
}

/** In half of the rounds a store fails before the server is killed: for seconds, or by a crash of its own. */
async function disturb(faults: Faults, random: () => number, counts: Record<Outage, number>): Promise<Disturbance> {
  const possible = outages.filter((outage) => faults[outage] !== undefined);
  const choice = Math.floor(random() * 2 * possible.length);
  const name = possible[choice];
  const fault = name === undefined ? undefined : faults[name];
  if (name === undefined || fault === undefined) return { text: 'nothing', resume: () => undefined };
  counts[name] += 1;
  await fault.begin();
  const { resume: letGo } = fault;
  await delay(OUTAGE_MIN_MS + random() * (OUTAGE_MAX_MS - OUTAGE_MIN_MS));
  // In half of them it comes back while the server lives.
  if (letGo !== undefined && random() < 0.5) return { text: `${name} meanwhile`, resume: letGo };
  letGo?.();
  await delay(random() * LOAD_MAX_MS);
  return { text: `${name} before`, resume: () => undefined };
}

async function resume(stores: Stores | null): Promise<void> {
  stores?.postgres.resume();
  stores?.redis.signal('SIGCONT');
}

/** The supervisor last, where more is killed: the server is given no moment to notice that something is gone. */
async function kill(server: TestServer, what: Kill): Promise<void> {
  for (const child of what === 'supervisor' ? [] : childrenOf(server.pid).reverse()) {
    // One that is stopped would keep the next one waiting for its end.
    if (what === 'all' || !programOf(child).endsWith('/postgres')) process.kill(child, 'SIGKILL');
  }
  await server.stop('SIGKILL');
}

interface Load {
  /** Resolves with the first answer. */
  readonly begun: Promise<void>;
  /** Resolves when every client has noticed that the server is gone. */
  stop(): Promise<void>;
}

function startLoad(server: TestServer, answers: Answers): Load {
  const contents: (Buffer | string)[] = ['hello', eicar(), 'x'.repeat(5_000), ''];
  let begin: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const client = async (number: number): Promise<void> => {
    for (let sent = number; ; sent += 1) {
      try {
        const filename = `${number}-${sent}.txt`;
        const content = contents[sent % contents.length] ?? '';
        const { status, headers, body } = await upload(server.url, content, { filename });
        const id = headers.get('x-scan-id');
        if (id !== null) answers.set(id, toldBy(status, body, filename));
        begin();
      } catch {
        return; // The server is dead, and with it this connection.
      }
    }
  };
  const clients = Promise.all(Array.from({ length: CLIENTS }, (_, number) => client(number)));
  return { begun, stop: async () => void (await clients) };
}

/** Resolves when nothing of the rounds before waits in the journal. */
async function drained(server: TestServer): Promise<void> {
  await until(async () => {
    const response = await fetch(`${server.url}/readyz`);
    const { history } = Object(await response.json());
    return history.waitingRows === 0;
  });
}
