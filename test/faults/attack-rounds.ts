// Everything that three accounts and strangers can do to a server at once, beside an account that behaves: what that one gets, and how late.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { Pool } from 'undici';
import { z } from 'zod';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer, type TestServer } from '../fixtures/server.js';
import { bearer, post, readSignIn } from '../fixtures/sign-in.js';
import type { Account } from './attack-clients.js';
import { scan } from './form.js';

export interface AttackOptions {
  readonly seconds: number;
  readonly onSecond: (text: string) => void;
}

export interface AttackReport {
  /** What the account that behaves got, by status; `failed`: no answer. */
  readonly answers: Outcomes;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly slowestMs: number;
  /** The most that the server process held. */
  readonly residentMiB: number;
  /** Starts of the server process: one, or it was restarted. */
  readonly starts: number;
  /** What each attacker got, by outcome. */
  readonly attackers: Readonly<Record<string, Outcomes>>;
  readonly problems: readonly string[];
}

/** Scans a second of the account that behaves, whatever became of the ones before. */
const SCANS_PER_SECOND = 20;
/** A scan without an answer by then has failed. */
const ANSWER_MS = 30_000;
/** A stop signal that comes within 250 ms of another one is the same request. */
const SECOND_SIGNAL_MS = 500;
const MIB = 1024 * 1024;
/** Every tenth scan is of EICAR, so that a wrong verdict shows. */
const INFECTED_EVERY = 10;

export async function runAttack({ seconds, onSecond }: AttackOptions): Promise<AttackReport> {
  const plans = 'FREE:900000000,BUSINESS:900000000';
  const server = await startServer({ isSupervised: true, env: { PLANS: plans, REGISTRATION: 'open' } });
  const behaved = createBehaved(server);
  let residentMiB = 0;
  try {
    await behaved.scan(0);
    const attackers = await startAttackers({
      port: server.port,
      dripper: await register(server, 11),
      archiver: await register(server, 12),
      liar: await register(server, 13),
    });
    const startedMs = performance.now();
    for (let second = 1; second <= seconds; second += 1) {
      for (let tick = 0; tick < SCANS_PER_SECOND; tick += 1) {
        behaved.begin();
        const dueMs = startedMs + (second - 1 + (tick + 1) / SCANS_PER_SECOND) * 1000;
        await pause(Math.max(0, dueMs - performance.now()));
      }
      residentMiB = Math.max(residentMiB, Math.round(residentBytes(server) / MIB));
      onSecond(`${second} of ${seconds} s: ${JSON.stringify(behaved.answers)}, ${residentMiB} MiB at most`);
    }
    await behaved.settled();
    const outcomes = await attackers.stop();
    // All that this one sends is EICAR, or can't be read as a file.
    if ('clean' in (outcomes['wrong'] ?? {})) behaved.problems.push('EICAR was called clean');
    return {
      ...behaved.report(),
      residentMiB,
      starts: server.output().match(/"msg":"starting"/g)?.length ?? 0,
      attackers: outcomes,
      problems: behaved.problems,
    };
  } finally {
    await behaved.close();
    await stopAtOnce(server);
  }
}

/** What the archives have in the queue would keep all cores for another half a minute, and nobody waits for it: the second signal ends it. */
async function stopAtOnce(server: TestServer): Promise<void> {
  process.kill(server.pid, 'SIGTERM');
  await pause(SECOND_SIGNAL_MS);
  await server.stop();
}

type Outcomes = Readonly<Record<string, number>>;
const outcomesShape = z.record(z.string(), z.record(z.string(), z.number()));

interface AttackOrder {
  readonly port: number;
  readonly dripper: Account;
  readonly archiver: Account;
  readonly liar: Account;
}

async function startAttackers(order: AttackOrder): Promise<{ stop(): Promise<Readonly<Record<string, Outcomes>>> }> {
  const worker = new Worker(new URL('./attack-worker.js', import.meta.url), { workerData: order });
  await once(worker, 'message');
  return {
    async stop() {
      const told = once(worker, 'message');
      worker.postMessage('stop');
      const [outcomes] = await told;
      await worker.terminate();
      return outcomesShape.parse(outcomes);
    },
  };
}

/** Scans at a steady rate from an address of its own, and what came back. */
function createBehaved(server: TestServer) {
  const pool = new Pool(server.url, {
    connections: 64,
    connect: { localAddress: '127.0.0.10' },
    headersTimeout: ANSWER_MS,
  });
  const answers: Record<string, number> = {};
  const tookMs: number[] = [];
  const problems: string[] = [];
  const open = new Set<Promise<void>>();
  let serial = 0;

  async function scanOne(number: number): Promise<void> {
    const isEicar = number % INFECTED_EVERY === INFECTED_EVERY - 1;
    const askedMs = performance.now();
    const { status, infected } = await scan(pool, isEicar ? eicar() : randomBytes(1024), { key: API_KEY });
    tookMs.push(performance.now() - askedMs);
    answers[status] = (answers[status] ?? 0) + 1;
    if (status === 200 && infected !== isEicar) problems.push(`scan ${number}: infected is ${infected}`);
  }

  return {
    answers,
    problems,
    scan: scanOne,
    begin(): void {
      serial += 1;
      const one = scanOne(serial).catch((error: unknown) => {
        answers['failed'] = (answers['failed'] ?? 0) + 1;
        problems.push(`scan failed: ${String(error)}`);
      });
      open.add(one);
      void one.finally(() => open.delete(one));
    },
    async settled(): Promise<void> {
      await Promise.all(open);
    },
    report() {
      const sorted = [...tookMs].sort((a, b) => a - b);
      const at = (share: number): number => Math.round(sorted[Math.floor((sorted.length - 1) * share)] ?? 0);
      return { answers, p50Ms: at(0.5), p99Ms: at(0.99), slowestMs: at(1) };
    },
    close: () => pool.close(),
  };
}

const created = z.object({ value: z.string() });

/** A new account with a key, at a loopback address of its own. */
async function register({ url }: TestServer, host: number): Promise<Account> {
  const form = { email: `attacker-${host}@example.com`, password: 'a password of an attacker' };
  const { accessToken } = readSignIn(await post(`${url}/web/auth/register`, form));
  const { body } = await post(`${url}/web/keys`, { name: 'attack' }, bearer(accessToken));
  return { key: created.parse(body).value, address: `127.0.0.${host}` };
}

/** 0 while it is being restarted. */
function residentBytes(server: TestServer): number {
  try {
    return server.residentBytes();
  } catch {
    return 0;
  }
}
