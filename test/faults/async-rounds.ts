// Rounds of accepted scans and kills: servers end at random moments, and what they had accepted is compared with what has become of it.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { contentsOf, Scan, scanById, scanLater } from '../fixtures/async-scans.js';
import { startPostgres } from '../fixtures/postgres.js';
import { childrenOf, serverOf } from '../fixtures/processes.js';
import { type Receiver, startReceiver } from '../fixtures/receiver.js';
import { startRedis } from '../fixtures/redis.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer, type TestServer } from '../fixtures/server.js';
import { askInTurn, post } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';

export interface AsyncRoundsOptions {
  /** `postgres`: two nodes over Postgres and Redis. */
  readonly store: 'postgres' | 'embedded';
  /** Accepted scans in all. */
  readonly scans: number;
  /** A server is killed when about so many more are accepted. */
  readonly scansBetweenKills: number;
  /** From 0 to 1. */
  readonly random: () => number;
  readonly onRound: (text: string) => void;
}

export interface AsyncRoundsReport {
  /** Answers with 202 that clients have received. */
  readonly accepted: number;
  readonly infected: number;
  /** Of the server process alone, which its supervisor starts again; and of all, with the supervisor and its database. */
  readonly kills: { readonly server: number; readonly all: number };
  /** Messages that the receiver has got of them; more than one of a kind where an attempt was cut off. */
  readonly messages: number;
  /** Empty when everything holds. */
  readonly problems: readonly string[];
}

const CLIENTS = 6;
/** After a kill is due: within the work on the scans that were accepted last. */
const KILL_WITHIN_MS = 150;
const REFUSED_EACH = 30;

/** One node, which is started again after its end. */
interface Node {
  readonly directory: string;
  server: TestServer;
  /** Not while it is started again. */
  isUp: boolean;
}

/** By scan id: whether it is to be infected. */
type Accepted = Map<string, boolean>;

export async function runAsyncRounds(options: AsyncRoundsOptions): Promise<AsyncRoundsReport> {
  const { store, scans, scansBetweenKills, random, onRound } = options;
  const receiver = await startReceiver();
  const stores = store === 'postgres' ? ([await startPostgres(), await startRedis()] as const) : null;
  const quota = { PLANS: 'BUSINESS:900000000', URL_ALLOW_NETWORKS: '127.0.0.1/32' };
  const env =
    stores === null
      ? quota
      : {
          ...quota,
          DATABASE_URL: await stores[0].database(),
          REDIS_URL: stores[1].url,
          BOOTSTRAP_EMAIL: 'faults@example.com',
        };
  const start = (directory: string): Promise<TestServer> => startServer({ isSupervised: true, directory, env });
  const nodes: Node[] = [];
  const accepted: Accepted = new Map();
  const kills = { server: 0, all: 0 };
  try {
    for (let count = stores === null ? 1 : 2; count > 0; count -= 1) {
      const directory = mkdtempSync(join(tmpdir(), 'sluice-async-'));
      nodes.push({ directory, server: await start(directory), isUp: true });
    }
    // Some of its answers are failures: what is told again must be in order, too.
    receiver.answer = () => (receiver.messages.length % REFUSED_EACH === 0 ? 500 : 204);
    await makeWebhook(nodes, receiver);
    const load = startLoad(nodes, accepted, scans);
    for (let due = scansBetweenKills; due < scans; due += scansBetweenKills) {
      await until(() => accepted.size >= due);
      await delay(random() * KILL_WITHIN_MS);
      const node = nodes[Math.floor(random() * nodes.length)];
      if (node === undefined) break;
      const what = random() < 0.7 ? 'server' : 'all';
      kills[what] += 1;
      await kill(node, what, start);
      onRound(`${accepted.size} accepted, killed ${what}`);
    }
    await load;
    receiver.answer = () => 204;
    const problems = [...(await verify(nodes, accepted)), ...(await verifyMessages(receiver, accepted))];
    const infected = [...accepted.values()].filter(Boolean).length;
    return { accepted: accepted.size, infected, kills, messages: receiver.messages.length, problems };
  } finally {
    for (const { server, directory } of nodes) {
      await server.stop();
      rmSync(directory, { recursive: true, force: true });
    }
    for (const each of stores ?? []) await each.stop();
    await receiver.stop();
  }
}

/** Clients that ask until so many scans are accepted; what is answered otherwise, or not at all, is asked again. */
async function startLoad(nodes: readonly Node[], accepted: Accepted, scans: number): Promise<void> {
  let sent = 0;
  const client = async (number: number): Promise<void> => {
    while (accepted.size < scans) {
      sent += 1;
      const node = nodes[(number + sent) % nodes.length];
      const isInfected = sent % 3 === 0;
      const text = isInfected ? eicar() : `${number} ${sent} `.repeat(1 + (sent % 7) * 3_000);
      try {
        if (node === undefined || !node.isUp) throw new Error('It is started again');
        const answer = await scanLater(node.server.url, text, { filename: `${sent}.txt` });
        if (answer.status === 202) accepted.set(Scan.parse(answer.body).id, isInfected);
      } catch {
        // A server that is dead, or not there again.
        await delay(20);
      }
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, (_, number) => client(number)));
}

async function kill(
  node: Node,
  what: 'server' | 'all',
  start: (directory: string) => Promise<TestServer>,
): Promise<void> {
  const { pid } = node.server;
  if (what === 'server') {
    // It may be on its way back from the kill before.
    process.kill(await until(() => serverIn(pid)), 'SIGKILL');
    return;
  }
  node.isUp = false;
  for (const child of childrenOf(pid).reverse()) process.kill(child, 'SIGKILL');
  await node.server.stop('SIGKILL');
  node.server = await start(node.directory);
  node.isUp = true;
}

async function makeWebhook([node]: readonly Node[], receiver: Receiver): Promise<void> {
  const made = await post(`${node?.server.url}/api/v1/webhooks`, { url: receiver.url() }, { 'X-API-KEY': API_KEY });
  receiver.secret = z.object({ secret: z.string() }).parse(made.body).secret;
}

/** Each scan was told at least once, and the first time in order: an infection after the verdict. */
async function verifyMessages(receiver: Receiver, accepted: Accepted): Promise<string[]> {
  const told = (): Map<string, string[]> => {
    const types = new Map<string, string[]>();
    for (const { message } of receiver.messages) {
      const known = types.get(message.data.id) ?? [];
      types.set(message.data.id, [...known.filter((type) => type !== message.type), message.type]);
    }
    return types;
  };
  const isMissing = (types: Map<string, string[]>): [string, boolean][] =>
    [...accepted].filter(([id, isInfected]) => types.get(id)?.length !== (isInfected ? 2 : 1));
  await until(() => isMissing(told()).length === 0).catch(() => undefined);
  const problems = isMissing(told()).map(([id]) => `${id} was not told: ${told().get(id)?.join(', ') ?? 'nothing'}`);
  for (const [id, types] of told()) {
    if (accepted.has(id) && types.length === 2 && types.at(-1) !== 'scan.infected')
      problems.push(`${id} in another order`);
  }
  if (receiver.forged > 0) problems.push(`${receiver.forged} messages are not signed as they should be`);
  return problems;
}

function serverIn(supervisorPid: number): number | null {
  try {
    return serverOf(supervisorPid);
  } catch {
    return null;
  }
}

const Page = z.object({ content: z.array(Scan), next: z.string().nullable() });

async function verify(nodes: readonly Node[], accepted: Accepted): Promise<string[]> {
  const problems: string[] = [];
  const [first] = nodes;
  if (first === undefined) return ['There is no node'];
  const { server } = first;
  for (const [id, isInfected] of accepted) {
    const scan = await until(async () => {
      // Null: over a connection of a process that was killed.
      const answer = await scanById(server.url, id, { wait: 60 }).catch(() => null);
      if (answer === null) return null;
      const { status, body } = answer;
      if (status !== 200) return { state: `status ${status}`, infected: null };
      const found = Scan.parse(body);
      return found.state === 'queued' || found.state === 'running' ? null : found;
    });
    if (scan.state !== 'completed' || scan.infected !== isInfected) {
      problems.push(`${id} should be ${isInfected ? 'infected' : 'clean'}: ${JSON.stringify(scan)}`);
    }
  }
  const rows = await countRows(server);
  for (const id of accepted.keys()) if (rows.get(id) !== 1) problems.push(`${id} has ${rows.get(id) ?? 0} rows`);
  for (const { directory } of nodes) {
    // The last one goes when the database has its verdict.
    const left = await until(() => contentsOf(directory).length === 0).catch(() => contentsOf(directory));
    if (left !== true) problems.push(`contents are left: ${left.join(', ')}`);
    const traces = readFileSync(join(directory, 'data', 'async', 'node'), 'utf8');
    if (traces === '') problems.push('the node has no id');
  }
  return problems;
}

/** How many rows each scan has. */
async function countRows({ url }: TestServer): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  let cursor: string | null = '';
  while (cursor !== null) {
    const query: string = cursor === '' ? '' : `&cursor=${cursor}`;
    const headers = { 'X-API-KEY': API_KEY };
    const page = Page.parse((await askInTurn(`${url}/api/v1/scans?limit=200${query}`, { headers })).body);
    for (const { id } of page.content) counts.set(id, (counts.get(id) ?? 0) + 1);
    cursor = page.next;
  }
  return counts;
}
