// A cluster under load while its parts fail one after the other: what each fault costs, and whether units, revocations and rows stay exact.
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { openPostgres } from '../../src/store/postgres.js';
import { replayed, verify } from '../faults/kept-rows.js';
import { makeAccount } from '../fixtures/another-account.js';
import { response, startOrigin } from '../fixtures/origin.js';
import { startRedisCluster, startRedisSentinels } from '../fixtures/redis.js';
import { type Relay, startRelay } from '../fixtures/relay.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY } from '../fixtures/server.js';
import { signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { Account, Operator, type Place, Revocations, readHistory, setLimit } from './clients.js';
import { ask, startPair, urlAt } from './database.js';
import type { Cluster, Fault } from './faults.js';
import { databaseProxyOf, frontOf } from './haproxy.js';
import { makeNode, type Node } from './nodes.js';

export interface ClusterOptions {
  readonly faults: readonly (readonly [string, Fault])[];
  /** A Redis Cluster with replicas, or one master with replicas and Sentinels. */
  readonly redis: 'cluster' | 'sentinels';
  /** No fault begins later. */
  readonly secondsMost: number;
  /** Requests a second, of both accounts together. */
  readonly rate: number;
  readonly random: () => number;
  readonly onLine: (text: string) => void;
}

export interface ClusterReport {
  readonly faults: number;
  readonly faultsByName: Readonly<Record<string, number>>;
  readonly sent: number;
  readonly answered: number;
  readonly rows: number;
  readonly unitsTooMany: number;
  /** Taken for requests whose answer was lost. */
  readonly unitsLost: number;
  readonly revoked: number;
  readonly askedAfterRevocation: number;
  readonly acceptedAfterRevocation: number;
  readonly retriesMostOfNode: number;
  readonly problems: readonly string[];
}

type Undo = () => Promise<void>;

const NODES = 3;
/** Of three requests one is the second account's, whose hour runs out under each fault. */
const SECOND_SHARE = 1 / 3;
/** Scans that the second account is given under one fault: what it sends in about three seconds. */
const SECONDS_TO_LIMIT = 3;
const LOOKS_MAX = 10;
const LOOK_MS = 500;
/** For so long clients are looked at, also where a fault is over at once. */
const SEEN_MS = 2_000;
const SECOND_EMAIL = 'second@example.org';

export async function runCluster(options: ClusterOptions): Promise<ClusterReport> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-cluster-'));
  const undo: Undo[] = [async () => rmSync(folder, { recursive: true, force: true })];
  try {
    const cluster = await startCluster(folder, options.redis, undo);
    const origin = await startOrigin((connection) => {
      const body = connection.path === '/infected' ? eicar() : Buffer.from('what an origin has');
      void connection.send(response(body)).then(() => connection.end());
    });
    undo.push(() => origin.stop());
    const agent = new Agent({ keepAlive: true, maxSockets: 128 });
    undo.push(async () => void agent.destroy());
    const run = await beginRun(options, cluster, { port: cluster.front.port, originPort: origin.port, agent });
    return await run.whole();
  } finally {
    for (const step of undo.reverse()) {
      // Whatever went wrong before is what is thrown.
      await step().catch((error: unknown) => options.onLine(`at the end: ${error}`));
    }
  }
}

async function startCluster(folder: string, kind: ClusterOptions['redis'], undo: Undo[]): Promise<Cluster> {
  const database = await startPair();
  undo.push(() => database.stop());
  const redisRelays = new Map<number, Relay>();
  const announce = async (port: number): Promise<number> => {
    const relay = await startRelay(port);
    redisRelays.set(port, relay);
    return relay.port;
  };
  const redis =
    kind === 'cluster'
      ? await startRedisCluster({ hasReplicas: true, announce })
      : await startRedisSentinels({ announce });
  undo.push(async () => {
    await redis.stop();
    for (const relay of redisRelays.values()) relay.stop();
  });
  const databaseProxy = await databaseProxyOf(
    folder,
    database.ports.map((port) => `127.0.0.1:${port}`),
  );
  undo.push(() => databaseProxy.kill());
  const throughProxy = { url: urlAt(databaseProxy.port, database.name) };
  await until(() =>
    ask(throughProxy, 'SELECT 1').then(
      () => true,
      () => false,
    ),
  );
  const databaseUrl = (port: number): string => urlAt(port, database.name);
  const stores = { databasePort: databaseProxy.port, databaseUrl, redisUrl: redis.url };
  const make = async (name: string): Promise<Node> => {
    const node = await makeNode(folder, name, stores);
    undo.push(() => node.end());
    return node;
  };
  const nodes: Node[] = [];
  for (let number = 0; number < NODES; number += 1) nodes.push(await make(`node${number}`));
  const spare = await make('spare');
  const front = await frontOf(
    folder,
    [...nodes, spare].map(({ port }) => `127.0.0.1:${port}`),
  );
  undo.push(() => front.kill());
  for (const node of nodes) await node.start();
  return { nodes, spare, front, database, databaseProxy, redis, redisRelays };
}

async function beginRun(options: ClusterOptions, cluster: Cluster, place: Place): Promise<Run> {
  const url = `http://127.0.0.1:${cluster.nodes[0]?.port}`;
  const { userId } = await signIn(url);
  const first = new Account(place, { userId, key: API_KEY }, options.random);
  const second = new Account(place, await makeAccount(url, SECOND_EMAIL), options.random);
  return new Run(options, cluster, place, [first, second]);
}

class Run {
  readonly #options: ClusterOptions;
  readonly #cluster: Cluster;
  readonly #place: Place;
  readonly #first: Account;
  readonly #second: Account;
  readonly #operator: Operator;
  readonly #revocations: Revocations;
  readonly #problems: string[];
  #unitsTooMany: number;
  #retriesMostOfNode: number;
  readonly #happened: Map<string, number>;
  #isOver: boolean;
  #isSecondHeld: boolean;

  constructor(options: ClusterOptions, cluster: Cluster, place: Place, [first, second]: readonly [Account, Account]) {
    this.#options = options;
    this.#cluster = cluster;
    this.#place = place;
    this.#first = first;
    this.#second = second;
    this.#operator = new Operator(place.port);
    const ports = (): readonly number[] => cluster.nodes.filter((node) => node.isRunning).map(({ port }) => port);
    this.#revocations = new Revocations(first, this.#operator, ports, options.random);
    this.#problems = [];
    this.#unitsTooMany = 0;
    this.#retriesMostOfNode = 0;
    this.#happened = new Map();
    this.#isOver = false;
    this.#isSecondHeld = false;
  }

  get #faults(): number {
    return [...this.#happened.values()].reduce((sum, times) => sum + times, 0);
  }

  async whole(): Promise<ClusterReport> {
    const isOver = (): boolean => this.#isOver;
    const loading = this.#load();
    const revoking = this.#revocations.run(isOver);
    const reading = readHistory(this.#place, this.#second.key, isOver);
    try {
      await this.#disturb();
    } finally {
      this.#isOver = true;
    }
    await Promise.all([loading, revoking]);
    const history = await reading;
    for (const { traffic } of [this.#first, this.#second]) await traffic.settled();
    await this.#allReady();
    for (const node of this.#cluster.nodes) {
      const code = await node.stop();
      if (code !== 0) this.#problems.push(`a node ended with ${code}`);
    }
    return await this.#report([...history.problems, ...this.#revocations.problems]);
  }

  /** Requests begin at fixed times, whatever the answers do. */
  async #load(): Promise<void> {
    const { rate, random } = this.#options;
    const begunMs = performance.now();
    for (let sent = 0; !this.#isOver; sent += 1) {
      const dueMs = begunMs + (sent * 1000) / rate;
      if (dueMs > performance.now()) await delay(dueMs - performance.now());
      const isSecond = random() < SECOND_SHARE;
      if (!(isSecond && this.#isSecondHeld)) (isSecond ? this.#second : this.#first).traffic.begin();
    }
  }

  async #disturb(): Promise<void> {
    const { faults, secondsMost, random } = this.#options;
    const { nodes } = this.#cluster;
    const endMs = performance.now() + secondsMost * 1000;
    for (const [name, fault] of faults) {
      if (performance.now() > endMs) return;
      const node = nodes[Math.floor(random() * nodes.length)];
      if (node === undefined) throw new Error('There are nodes');
      await this.#one(name, fault, node);
    }
  }

  async #one(name: string, fault: Fault, node: Node): Promise<void> {
    // Nobody makes keys as fast as the run does.
    await ask(this.#cluster.database, 'DELETE FROM sign_in_attempts');
    await this.#renewLimit();
    const traffics = [this.#first.traffic, this.#second.traffic];
    for (const traffic of traffics) traffic.next();
    const begunMs = performance.now();
    await fault.happen(this.#cluster, node);
    const overMs = performance.now();
    await this.#allReady();
    const readyMs = performance.now();
    await delay(Math.max(0, begunMs + SEEN_MS - readyMs));
    const tallies = traffics.map((traffic) => traffic.next());
    const units = [await this.#tooMany(this.#first), await this.#tooMany(this.#second)];
    const most = Math.max(...tallies.map(({ retriesMost }) => retriesMost));
    const outcomes = sumsOf(tallies.map((tally) => tally.outcomes));
    const retried = sumsOf(tallies.map((tally) => tally.retried));
    this.#happened.set(name, (this.#happened.get(name) ?? 0) + 1);
    if (fault.isOfNode) this.#retriesMostOfNode = Math.max(this.#retriesMostOfNode, most);
    this.#options.onLine(
      `${this.#faults} ${name}: ${seconds(overMs - begunMs)} s, all ready ${seconds(readyMs - overMs)} s later; ` +
        `${listOf(outcomes)}; tried again: ${listOf(retried) || 'none'}, ${most} times of one request at most; ` +
        `units too many ${units.join(' and ')}; accepted after a revocation ${this.#revocations.acceptedAfter}`,
    );
  }

  /** Nothing of the second account is under way meanwhile, so that it is exact. */
  async #renewLimit(): Promise<void> {
    this.#isSecondHeld = true;
    await this.#second.traffic.settled();
    const { used } = await this.#second.balance();
    const allowed = Math.ceil(this.#options.rate * SECOND_SHARE * SECONDS_TO_LIMIT);
    await setLimit(this.#operator, this.#second, used + allowed);
    this.#isSecondHeld = false;
  }

  /** What one of two stores has counted the other one knows within seconds. */
  async #tooMany(account: Account): Promise<number> {
    let { used, given } = await account.balance();
    for (let look = 0; given > used && look < LOOKS_MAX; look += 1) {
      await delay(LOOK_MS);
      ({ used, given } = await account.balance());
    }
    const many = Math.max(0, given - used);
    this.#unitsTooMany += many;
    if (many > 0) this.#problems.push(`${given} scans were given for ${used} units`);
    return many;
  }

  async #allReady(): Promise<void> {
    const { nodes, redis } = this.#cluster;
    for (const node of nodes) {
      const said = node.hasDied();
      if (said !== null) throw new Error(`A node has ended by itself: ${said}`);
    }
    await until(() => redis.isWhole());
    for (const node of nodes) await node.ready();
  }

  /** Every answer has one row that says the same, and the units of all hours are at least as many as the scans. */
  async #report(problems: readonly string[]): Promise<ClusterReport> {
    const { database } = this.#cluster;
    const accounts = [this.#first, this.#second];
    const answers = new Map(accounts.flatMap(({ traffic }) => [...traffic.answers]));
    const store = await openPostgres({ kind: 'url', url: database.url });
    const all = [...this.#problems, ...problems, ...accounts.flatMap(({ traffic }) => traffic.problems)];
    let unitsLost = 0;
    try {
      for (const { dataFolder } of [...this.#cluster.nodes, this.#cluster.spare]) {
        const waited = await replayed(store.sql, dataFolder);
        if (waited > 0) this.#options.onLine(`${waited} rows waited in the journal of a node that had stopped`);
      }
      const rows = await verify(store.sql, answers, (problem) => all.push(problem));
      for (const { id, given } of accounts) {
        for (const [reset, scans] of given) {
          const [hour] = await store.sql<{ units: number }[]>`
            SELECT mirrored - returned + direct - direct_returned AS units FROM quota_hours
            WHERE user_id = ${id} AND window_start = ${reset - 3600}`;
          const units = hour?.units ?? 0;
          if (scans > units) all.push(`${scans} scans of an hour that has ${units} units`);
          unitsLost += units - scans;
        }
      }
      return {
        faults: this.#faults,
        faultsByName: Object.fromEntries(this.#happened),
        sent: accounts.reduce((sum, { traffic }) => sum + traffic.sent, 0),
        answered: answers.size,
        rows,
        unitsTooMany: this.#unitsTooMany,
        unitsLost,
        revoked: this.#revocations.revoked,
        askedAfterRevocation: this.#revocations.askedAfter,
        acceptedAfterRevocation: this.#revocations.acceptedAfter,
        retriesMostOfNode: this.#retriesMostOfNode,
        problems: all,
      };
    } finally {
      await store.close();
    }
  }
}

function sumsOf(all: readonly ReadonlyMap<string, number>[]): Map<string, number> {
  const sums = new Map<string, number>();
  for (const [name, count] of all.flatMap((one) => [...one])) sums.set(name, (sums.get(name) ?? 0) + count);
  return sums;
}

function listOf(counts: ReadonlyMap<string, number>): string {
  return [...counts].map(([name, count]) => `${name} ${count}`).join(', ');
}

function seconds(milliseconds: number): string {
  return (milliseconds / 1000).toFixed(1);
}
