// Scans that crash the server, one after the other: how long until a new connection has its verdict, and where the time goes.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { faultEnvironment, faulty } from '../fixtures/faults.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startRedis } from '../fixtures/redis.js';
import { startServer, type TestServer } from '../fixtures/server.js';
import { PAUSE_MS } from '../fixtures/steady-scans.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

export interface CrashOptions {
  readonly rounds: number;
  /** `first`: of a server that was well until then, so each round has a server of its own; `series`: all of one server. */
  readonly kind: 'first' | 'series';
  /** Clients that scan meanwhile. */
  readonly clients: number;
  readonly env?: Readonly<Record<string, string>>;
  readonly onRound: (text: string) => void;
}

/** Milliseconds of one crash. */
export interface Recovery {
  /** From the reset that the client of the crash saw to the first 200 on a connection made after it. */
  readonly back: number;
  /** From the reset to the supervisor's knowing. */
  readonly noticed: number;
  /** Waited by the supervisor. */
  readonly delayed: number;
  /** From its decision to the first line of the new process: Node's start, and the modules that it begins with. */
  readonly booted: number;
  /** From there to listening: the other modules, stores, accounts. */
  readonly listening: number;
  /** From the first line to signatures that serve, beside the one above. */
  readonly loaded: number;
  /** What the engine itself says of its load. */
  readonly engine: number;
}

export interface CrashReport {
  readonly recoveries: readonly Recovery[];
  /** What the clients beside the crashes got; `reset`: no answer. */
  readonly others: Readonly<Record<string, number>>;
  readonly problems: readonly string[];
}

const line = z.object({
  time: z.string().transform((text) => Date.parse(text)),
  msg: z.string(),
  delayMs: z.number().optional(),
  loadMillis: z.number().optional(),
});
type Line = z.infer<typeof line>;

export async function runCrashes({ rounds, kind, clients, env = {}, onRound }: CrashOptions): Promise<CrashReport> {
  const postgres = await startPostgres();
  const redis = await startRedis();
  const directory = mkdtempSync(join(tmpdir(), 'sluice-crashes-'));
  const recoveries: Recovery[] = [];
  const others: Record<string, number> = {};
  const problems: string[] = [];
  const settings = {
    isSupervised: true,
    directory,
    env: {
      ...faultEnvironment,
      DATABASE_URL: await postgres.database(),
      REDIS_URL: redis.url,
      BOOTSTRAP_PLAN: 'HUGE',
      PLANS: 'HUGE:10000000',
      SCAN_THREADS: '2',
      ...env,
    },
  };
  let server: TestServer | null = null;
  try {
    for (let round = 0; round < rounds; round += 1) {
      server ??= await startServer(settings);
      const recovery = await crashOnce(server, round, { clients, others, problems });
      recoveries.push(recovery);
      onRound(JSON.stringify(recovery));
      if (kind === 'series') continue;
      await server.stop();
      server = null;
    }
  } finally {
    await server?.stop('SIGKILL');
    await Promise.all([postgres.stop(), redis.stop()]);
    rmSync(directory, { recursive: true, force: true });
  }
  for (const outcome of Object.keys(others)) {
    if (!['200', '503', 'reset'].includes(outcome)) problems.push(`a client beside the crashes got ${outcome}`);
  }
  return { recoveries, others, problems };
}

interface Around {
  readonly clients: number;
  readonly others: Record<string, number>;
  readonly problems: string[];
}

async function crashOnce(server: TestServer, round: number, { clients, others, problems }: Around): Promise<Recovery> {
  const seen = server.output().length;
  let isOver = false;
  const beside = Array.from({ length: clients }, async (_, client) => {
    for (let serial = 0; !isOver; serial += 1) {
      const outcome = await upload(server.url, `content ${round} ${client} ${serial}`).then(
        ({ status }) => String(status),
        () => 'reset',
      );
      others[outcome] = (others[outcome] ?? 0) + 1;
      await delay(PAUSE_MS);
    }
  });
  const crashed = await upload(server.url, faulty('crash segv', String(round))).then(
    ({ status }) => status,
    () => null,
  );
  const resetAt = Date.now();
  if (crashed !== null) problems.push(`round ${round}: the content that crashes has the answer ${crashed}`);
  let serial = 0;
  // Nobody listens for a moment where the listener isn't shared.
  await until(async () => {
    serial += 1;
    const status = await upload(server.url, `after ${round} ${serial}`).then(
      (answer) => answer.status,
      () => null,
    );
    if (status !== null && status !== 200 && status !== 503) {
      problems.push(`round ${round}: ${status} after the crash`);
    }
    return status === 200;
  });
  const back = Date.now() - resetAt;
  isOver = true;
  await Promise.all(beside);
  // The log of an answer comes after it.
  for (const msg of ['server ended, restarting', 'starting', 'listening', 'signatures loaded']) {
    await server.printed(new RegExp(`^[\\s\\S]{${seen}}[\\s\\S]*"msg":"(${msg})"`));
  }
  return { back, ...partsOf(linesOf(server.output().slice(seen)), resetAt) };
}

function linesOf(text: string): Line[] {
  return text.split('\n').flatMap((json) => {
    try {
      const read = line.safeParse(JSON.parse(json));
      return read.success ? [read.data] : [];
    } catch {
      return [];
    }
  });
}

function partsOf(lines: readonly Line[], resetAt: number): Omit<Recovery, 'back'> {
  const find = (msg: string): Line => {
    const found = lines.find((one) => one.msg === msg);
    if (found === undefined) throw new Error(`Nothing in the log says "${msg}"`);
    return found;
  };
  const [ended, starting] = [find('server ended, restarting'), find('starting')];
  const [listening, loaded] = [find('listening'), find('signatures loaded')];
  return {
    noticed: ended.time - resetAt,
    delayed: ended.delayMs ?? 0,
    booted: starting.time - ended.time - (ended.delayMs ?? 0),
    listening: listening.time - starting.time,
    loaded: loaded.time - starting.time,
    engine: Math.round(loaded.loadMillis ?? 0),
  };
}

/** The median of each part. */
export function medians(recoveries: readonly Recovery[]): Recovery {
  const of = (part: keyof Recovery): number =>
    recoveries.map((one) => one[part]).sort((one, other) => one - other)[Math.floor(recoveries.length / 2)] ??
    Number.NaN;
  return {
    back: of('back'),
    noticed: of('noticed'),
    delayed: of('delayed'),
    booted: of('booted'),
    listening: of('listening'),
    loaded: of('loaded'),
    engine: of('engine'),
  };
}
