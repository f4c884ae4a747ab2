// The service under mixed traffic and faults for as long as is asked for: what each minute was like, and whether anything was lost, doubled or wrong, or grew.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Sql } from '../../src/store/postgres.js';
import { lookInto, replay, verify } from '../faults/kept-rows.js';
import { freePort } from '../fixtures/free-port.js';
import { response, startOrigin } from '../fixtures/origin.js';
import { startPostgres } from '../fixtures/postgres.js';
import { compilePreload } from '../fixtures/preload.js';
import { startRedis } from '../fixtures/redis.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer, type TestServer } from '../fixtures/server.js';
import { EMAIL } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { type Fault, faultsOf, type Stores } from './faults.js';
import { type Holdings, holdingsOf, type TemporaryFiles, temporaryFiles } from './observer.js';
import { type Minute, meanOf, type SoakReport, sayMinute } from './report.js';
import { Traffic } from './traffic.js';
import { sayGroup } from './unanswered.js';

export interface SoakOptions {
  readonly seconds: number;
  /** Requests a second. */
  readonly rate: number;
  readonly store: 'embedded' | 'outside';
  /** Between two faults; null: there are none. */
  readonly faultSeconds: number | null;
  /** Names of faults; null: all that there are. */
  readonly faults: readonly string[] | null;
  readonly random: () => number;
  readonly onLine: (text: string) => void;
}

/** Of the disk that is made full: the data folder of the service with its database. */
const DISK = '600M';
/** Of the last quarter's memory over the second one's: more is growth, but for what connections of PostgreSQL come to know. */
const GROWTH = 1.03;
const GROWTH_LEAST_MIB = 8;
/** More descriptors than before. */
const MORE_DESCRIPTORS = 70;
/** Each connection of PostgreSQL comes to keep the files of the tables open that it has read. */
const DESCRIPTORS_OF_CONNECTION = 100;
/** After it the clients end a connection of theirs. */
const IDLE_MS = 5_000;
/** A minute of the report; short runs have four of them as well. */
const SAMPLES_MIN = 4;

export async function runSoak(options: SoakOptions): Promise<SoakReport> {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-soak-'));
  const clock = mkdtempSync(join(tmpdir(), 'sluice-soak-clock-'));
  const isMounted =
    options.faults?.includes('full disk') !== false && options.faultSeconds !== null && mount(directory);
  const stores = options.store === 'outside' ? { postgres: await startPostgres(), redis: await startRedis() } : null;
  const url = (await stores?.postgres.database()) ?? null;
  const origin = await startOrigin((connection) => {
    const body = connection.path === '/infected' ? eicar() : Buffer.from('what an origin has');
    void connection.send(response(body)).then(() => connection.end());
  });
  // As docs/api.md wants it: the service ends connections that are idle for 8 s.
  const agent = new Agent({ keepAlive: true, maxSockets: 64, timeout: IDLE_MS });
  try {
    const service = await startService({ directory, clock }, url, stores);
    const temporary = temporaryFiles(service.server.pid, service.temporaryFolder);
    const traffic = new Traffic({ ...service, key: API_KEY, originPort: origin.port, agent }, options.random);
    const faults = faultsOf(service.server, {
      stores,
      smallDisk: isMounted ? directory : null,
      clockFile: service.clockFile,
    });
    const run = new Run(options, { server: service.server, traffic, faults, temporary });
    await run.whole();
    const code = await service.server.stop();
    if (code !== 0) run.problems.push(`the service ended with ${code}`);
    const left = temporary.left();
    if (left.length > 0) run.problems.push(`${left.length} temporary files are left: ${left.join(', ')}`);
    const rows = await look(directory, url, traffic, run.problems);
    const unanswered = traffic.unanswered.groups();
    for (const group of unanswered) options.onLine(sayGroup(group));
    if (options.faultSeconds === null && unanswered.length > 0)
      run.problems.push(`${unanswered.reduce((sum, { count }) => sum + count, 0)} had no answer, without a fault`);
    return {
      sent: traffic.sent,
      answered: traffic.answers.size + traffic.unnamed,
      rows,
      unanswered,
      faults: Object.fromEntries(run.happened),
      minutes: run.minutes,
      problems: [...traffic.problems, ...run.problems],
    };
  } finally {
    agent.destroy();
    await origin.stop();
    await stores?.redis.stop();
    await stores?.postgres.stop();
    if (isMounted) execFileSync('umount', [directory]);
    rmSync(directory, { recursive: true, force: true });
    rmSync(clock, { recursive: true, force: true });
  }
}

/** A small file system of its own, where that is allowed; else the run goes on with one fault less, and says so. */
function mount(directory: string): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK},mode=0755`, 'soak', directory], { stdio: 'pipe' });
    return true;
  } catch {
    return false;
  }
}

async function startService(
  { directory, clock }: { readonly directory: string; readonly clock: string },
  url: string | null,
  stores: Stores | null,
) {
  const clockFile = join(clock, 'ahead');
  writeFileSync(clockFile, Buffer.alloc(8));
  const clamdSocket = join(directory, 'clamd.sock');
  const temporaryFolder = join(directory, 'tmp');
  const icapPort = await freePort();
  for (const folder of [join(directory, 'data'), temporaryFolder]) mkdirSync(folder, { recursive: true });
  const server = await startServer({
    isSupervised: true,
    directory,
    env: {
      LD_PRELOAD: compilePreload('wrong-clock', clock),
      CLOCK_FILE: clockFile,
      TMPDIR: temporaryFolder,
      PLANS: 'BUSINESS:900000000',
      BOOTSTRAP_EMAIL: EMAIL,
      CLAMD_SOCKET: clamdSocket,
      CLAMD_ACCOUNT: EMAIL,
      ICAP_PORT: String(icapPort),
      ICAP_ACCOUNT: EMAIL,
      // Full before the second quarter of an hour.
      VERDICT_CACHE_MB: '16',
      URL_ALLOW_NETWORKS: '127.0.0.0/8',
      ...(url === null || stores === null ? {} : { DATABASE_URL: url, REDIS_URL: stores.redis.url }),
    },
  });
  await server.printed(/"msg":"(ICAP)"/);
  return { server, port: server.port, clamdSocket, icapPort, clockFile, temporaryFolder };
}

interface RunParts {
  readonly server: TestServer;
  readonly traffic: Traffic;
  readonly faults: ReadonlyMap<string, Fault>;
  readonly temporary: TemporaryFiles;
}

/** One run: its traffic, its faults, and what its processes hold. */
class Run {
  readonly problems: string[] = [];
  readonly happened = new Map<string, number>();
  readonly minutes: Minute[] = [];
  readonly #options: SoakOptions;
  readonly #server: TestServer;
  readonly #traffic: Traffic;
  readonly #faults: ReadonlyMap<string, Fault>;
  readonly #temporary: TemporaryFiles;
  #isOver = false;

  constructor(options: SoakOptions, { server, traffic, faults, temporary }: RunParts) {
    this.#options = options;
    this.#server = server;
    this.#traffic = traffic;
    this.#faults = faults;
    this.#temporary = temporary;
  }

  async whole(): Promise<void> {
    const before = holdingsOf(this.#server.pid);
    const disturbing = this.#disturb();
    await this.#load();
    this.#isOver = true;
    await disturbing;
    await this.#traffic.settled();
    this.#sample(this.#options.seconds / 60);
    await this.#quiet();
    this.#judge(before, holdingsOf(this.#server.pid));
  }

  /** Requests begin at fixed times, whatever the answers do. */
  async #load(): Promise<void> {
    const { seconds, rate } = this.#options;
    const sampleMs = (Math.min(60, seconds / SAMPLES_MIN) || 1) * 1000;
    const begunMs = performance.now();
    let sampled = 0;
    for (let sent = 0; sent < seconds * rate; sent += 1) {
      const dueMs = begunMs + (sent * 1000) / rate;
      if (dueMs > performance.now()) await delay(dueMs - performance.now());
      this.#traffic.begin();
      if (performance.now() - begunMs > (sampled + 1) * sampleMs) {
        sampled += 1;
        this.#sample((sampled * sampleMs) / 60_000);
      }
    }
  }

  #sample(end: number): void {
    const tally = this.#traffic.next();
    const minute: Minute = {
      end,
      outcomes: Object.fromEntries(tally.outcomes),
      p50Ms: tally.at(0.5),
      p99Ms: tally.at(0.99),
      held: holdingsOf(this.#server.pid),
      temporaryFiles: this.#temporary.count(),
    };
    this.minutes.push(minute);
    this.#options.onLine(sayMinute(minute));
  }

  async #disturb(): Promise<void> {
    const { faultSeconds, random, faults } = this.#options;
    if (faultSeconds === null) return;
    const possible = [...this.#faults].filter(([name]) => faults === null || faults.includes(name));
    for (let number = 0; ; number += 1) {
      await this.#untilDue(faultSeconds);
      if (this.#isOver) return;
      // Each of them in turn at first, then by chance.
      const [name, fault] = possible[number] ?? possible[Math.floor(random() * possible.length)] ?? [];
      if (name === undefined || fault === undefined) throw new Error('There is no such fault');
      this.happened.set(name, (this.happened.get(name) ?? 0) + 1);
      this.#temporary.count();
      const missed = this.#traffic.minute.outcomes.get('no answer') ?? 0;
      this.#options.onLine(`fault: ${name}`);
      await fault.happen();
      await this.#ready();
      const minute = this.#traffic.minute.outcomes.get('no answer') ?? 0;
      if (fault.isSeamless && minute > missed) this.problems.push(`${minute - missed} had no answer beside a ${name}`);
    }
  }

  async #untilDue(seconds: number): Promise<void> {
    const dueMs = performance.now() + seconds * 1000;
    while (!this.#isOver && performance.now() < dueMs) await delay(100);
  }

  /** The service answers as before. */
  async #ready(): Promise<void> {
    await until(async () => {
      const answer = await fetch(`${this.#server.url}/readyz`).catch(() => null);
      return answer?.status === 200;
    });
  }

  /** All rows are in the database. */
  async #quiet(): Promise<void> {
    await until(async () => {
      const answer = await fetch(`${this.#server.url}/readyz`).catch(() => null);
      const { history }: { history?: { waitingRows?: number } } = Object(await answer?.json());
      return history?.waitingRows === 0;
    });
  }

  #judge(before: Holdings, after: Holdings): void {
    // A replaced process begins anew: what grows is asked of runs without faults.
    if (this.#options.faultSeconds !== null) return;
    const quarter = Math.floor(this.minutes.length / 4);
    for (const name of ['supervisor', 'server', 'database'] as const) {
      const most =
        name === 'database'
          ? DESCRIPTORS_OF_CONNECTION * after[name].threads
          : before[name].descriptors + MORE_DESCRIPTORS;
      if (after[name].descriptors > most) {
        this.problems.push(`${name}: ${before[name].descriptors} descriptors before, ${after[name].descriptors} after`);
      }
      const second = meanOf(this.minutes.slice(quarter, 2 * quarter).map(({ held }) => held[name]));
      const last = meanOf(this.minutes.slice(-quarter).map(({ held }) => held[name]));
      if (quarter >= 5 && last.mib > second.mib * GROWTH && last.mib > second.mib + GROWTH_LEAST_MIB) {
        this.problems.push(`${name} grew from ${second.said} to ${last.said}`);
      }
    }
  }
}

/** Every answer of HTTP has its row, and those of the other protocols are as many as they must be. */
async function look(directory: string, url: string | null, traffic: Traffic, problems: string[]): Promise<number> {
  let rows = 0;
  const check = async (sql: Sql): Promise<void> => {
    rows = await verify(sql, traffic.answers, (problem) => problems.push(problem));
  };
  const data = join(directory, 'data');
  if (url === null) await lookInto(data, check);
  else await replay(url, data, check);
  const answered = traffic.answers.size + traffic.unnamed;
  if (rows < answered || rows > traffic.sent) {
    problems.push(`${rows} rows of ${answered} answered and ${traffic.sent} sent`);
  }
  return rows;
}
