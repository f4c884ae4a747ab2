// The nodes of the run, each with a data folder of its own, over the stores that all share.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { freePort } from '../fixtures/free-port.js';
import { childrenOf } from '../fixtures/processes.js';
import { type Relay, startRelay } from '../fixtures/relay.js';
import { startServer, type TestServer } from '../fixtures/server.js';
import { EMAIL } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';

export interface Stores {
  readonly databasePort: number;
  readonly databaseUrl: (port: number) => string;
  readonly redisUrl: string;
}

const PROCESSES = 2;
const Readiness = z.object({
  admission: z.object({ status: z.string() }),
  history: z.object({ waitingRows: z.number() }),
});

export class Node {
  readonly port: number;
  readonly folder: string;
  /** Between it and the database. */
  readonly database: Relay;
  readonly #env: Readonly<Record<string, string>>;
  #server: TestServer | null;

  constructor(port: number, folder: string, database: Relay, { databaseUrl, redisUrl }: Stores) {
    this.port = port;
    this.folder = folder;
    this.database = database;
    this.#server = null;
    this.#env = {
      PORT: String(port),
      PROCESSES: String(PROCESSES),
      SCAN_THREADS: '1',
      DATABASE_URL: databaseUrl(database.port),
      REDIS_URL: redisUrl,
      TRUSTED_PROXIES: '127.0.0.1/32',
      PLANS: 'BUSINESS:900000000',
      BOOTSTRAP_EMAIL: EMAIL,
      REGISTRATION: 'open',
      URL_ALLOW_NETWORKS: '127.0.0.0/8',
    };
  }

  get dataFolder(): string {
    return join(this.folder, 'data');
  }

  get isRunning(): boolean {
    return this.#server !== null;
  }

  async start(): Promise<void> {
    this.#server = await startServer({ isSupervised: true, directory: this.folder, env: this.#env });
    await this.ready();
  }

  /** As an operator stops it: answers what runs. */
  async stop(): Promise<number | null> {
    const server = this.#running();
    this.#server = null;
    return await server.stop();
  }

  /** All of its processes at once, as the end of its machine. */
  async kill(): Promise<void> {
    const server = this.#running();
    this.#server = null;
    // The supervisor first: it would begin others.
    for (const pid of [server.pid, ...childrenOf(server.pid)]) process.kill(pid, 'SIGKILL');
    await server.stop('SIGKILL');
  }

  killServer(): void {
    process.kill(this.#running().serverPid(), 'SIGKILL');
  }

  async pause(milliseconds: number): Promise<void> {
    const { pid } = this.#running();
    const all = [pid, ...childrenOf(pid)];
    for (const each of all) process.kill(each, 'SIGSTOP');
    await delay(milliseconds);
    for (const each of all) process.kill(each, 'SIGCONT');
  }

  /** Each of its processes is replaced by a new one. */
  async upgrade(): Promise<void> {
    const { pid } = this.#running();
    const before = childrenOf(pid);
    process.kill(pid, 'SIGUSR2');
    await until(() => {
      const now = childrenOf(pid);
      return now.length >= PROCESSES && now.every((each) => !before.includes(each));
    });
    await this.ready();
  }

  /** All of its processes are there, it serves with all stores, and nothing waits for the database. */
  async ready(): Promise<void> {
    await until(async () => {
      // A process that can't start while the database is away is started again, later each time.
      if (childrenOf(this.#running().pid).length < PROCESSES) return false;
      const said = await this.#readiness();
      return said?.admission.status === 'ready' && said.history.waitingRows < WAITING_ROWS_MOST;
    });
  }

  async #readiness(): Promise<z.infer<typeof Readiness> | null> {
    const answer = await fetch(`http://127.0.0.1:${this.port}/readyz`, {
      headers: { Connection: 'close' },
      signal: AbortSignal.timeout(10_000),
    }).catch(() => null);
    return answer?.status === 200 ? (Readiness.safeParse(await answer.json().catch(() => null)).data ?? null) : null;
  }

  /** After whatever has happened to it. */
  async end(): Promise<void> {
    if (this.#server !== null && this.hasDied() === null) await this.kill();
    this.database.stop();
  }

  /** What a node has said at last that has ended by itself; null: it hasn't. */
  hasDied(): string | null {
    if (this.#server === null || existsSync(`/proc/${this.#server.pid}`)) return null;
    return this.#server.output().slice(-LAST_WORDS);
  }

  #running(): TestServer {
    if (this.#server === null) throw new Error('The node does not run');
    return this.#server;
  }
}

const LAST_WORDS = 2_000;
/** Under load there are always some. */
const WAITING_ROWS_MOST = 50;

export async function makeNode(folder: string, name: string, stores: Stores): Promise<Node> {
  return new Node(await freePort(), join(folder, name), await startRelay(stores.databasePort), stores);
}
