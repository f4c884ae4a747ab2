// The connection to Redis or Redis Cluster: no command waits for long, and after a failure none is tried until Redis answers again.
import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster, Redis } from 'ioredis';
import { LedgerAway } from './ledger.js';
import type { Script } from './redis-scripts.js';
import { messageOfError, StoreError } from './store-error.js';
import { within } from './within.js';

export interface RedisCommands {
  /** Runs a script over one key. Throws LedgerAway, at once while Redis is known to be away. */
  run(script: Script, key: string, ...args: (string | number)[]): Promise<unknown>;
  get(key: string): Promise<string | null>;
  set(key: string, value: string, seconds: number): Promise<void>;
}

export interface RedisConnection extends RedisCommands {
  /** Null: it answers. Otherwise since when and why not, without addresses or secrets. */
  problem(): string | null;
  close(): void;
}

export interface RedisSettings {
  /** As REDIS_URL has it. */
  readonly url: string;
  /**
   * Awaited before Redis is used again after it was away, and before its first use; only these commands reach it by then.
   * What it throws doesn't hold the return up.
   */
  readonly onReturn: (commands: RedisCommands) => Promise<void>;
  readonly onProblem: (message: string) => void;
}

/** A healthy Redis answers in well under a millisecond; whoever waits has Postgres to turn to. */
const COMMAND_TIMEOUT_MS = 500;
const CONNECT_TIMEOUT_MS = 2_000;
/** At the start, before the service goes on without it. */
const START_TIMEOUT_MS = 3_000;
const PROBE_INTERVAL_MS = 250;
/** Settling the books with Postgres; after that Redis is used again anyway. */
const RETURN_TIMEOUT_MS = 5_000;

type Client = Redis | Cluster;

export async function openRedis({ url, onReturn, onProblem }: RedisSettings): Promise<RedisConnection> {
  const client = clientOf(url);
  let state: { kind: 'up' } | { kind: 'away'; why: string } | { kind: 'closed' } = { kind: 'away', why: 'connecting' };
  // Why a connection fails is only said here; without a listener ioredis would print it.
  let reason: string | null = null;
  client.on('error', (error: unknown) => {
    reason = messageWithoutAddress(error);
    if (state.kind === 'up') away(error);
    else if (state.kind === 'away') state = { kind: 'away', why: reason };
  });

  function away(error: unknown): void {
    if (state.kind !== 'up') return;
    const why = messageWithoutAddress(error);
    state = { kind: 'away', why };
    onProblem(`Redis is away, keys and quota are served from Postgres: ${why}`);
    void comeBack();
  }

  /** Probes until Redis answers, settles the books, and lets it be used again. */
  async function comeBack(): Promise<void> {
    while (state.kind === 'away') {
      try {
        await within(answers(client), COMMAND_TIMEOUT_MS);
        break;
      } catch (error) {
        if (state.kind === 'away') state = { kind: 'away', why: reason ?? messageWithoutAddress(error) };
        await sleep(PROBE_INTERVAL_MS, undefined, { ref: false });
      }
    }
    if (state.kind !== 'away') return;
    reason = null;
    try {
      await within(onReturn(commandsOf(client, (command) => command())), RETURN_TIMEOUT_MS);
    } catch (error) {
      onProblem(`Redis is back, but what was counted meanwhile could not be settled: ${messageOfError(error)}`);
    }
    if (state.kind === 'away') state = { kind: 'up' };
  }

  async function attempt<T>(command: () => Promise<T>): Promise<T> {
    if (state.kind !== 'up') throw new LedgerAway(state.kind === 'away' ? state.why : 'closed');
    try {
      return await within(command(), COMMAND_TIMEOUT_MS);
    } catch (error) {
      away(error);
      throw new LedgerAway(error);
    }
  }

  // A probe that comes before the connection fails, and the next one only comes after a while.
  const connected = new Promise((resolve) => client.once('ready', resolve));
  await Promise.race([connected, sleep(PROBE_INTERVAL_MS, undefined, { ref: false })]);
  await Promise.race([comeBack(), sleep(START_TIMEOUT_MS, undefined, { ref: false })]);
  const problem = (): string | null => (state.kind === 'away' ? `Redis is away: ${state.why}` : null);
  const atStart = problem();
  if (atStart !== null) onProblem(`${atStart}; keys and quota are served from Postgres until it answers`);

  return {
    ...commandsOf(client, attempt),
    problem,
    close() {
      state = { kind: 'closed' };
      client.disconnect();
    },
  };
}

function commandsOf(client: Client, attempt: <T>(command: () => Promise<T>) => Promise<T>): RedisCommands {
  return {
    run: (script, key, ...args) => attempt(() => runScript(client, script, key, args)),
    get: (key) => attempt(() => client.get(key)),
    async set(key, value, seconds) {
      await attempt(() => client.set(key, value, 'EX', seconds));
    },
  };
}

/** Each step is sent once by the SHA-1 of its text, and only where Redis doesn't have it by the text. */
async function runScript(client: Client, script: Script, key: string, args: (string | number)[]): Promise<unknown> {
  try {
    return await client.evalsha(script.sha1, 1, key, ...args);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
    return await client.eval(script.text, 1, key, ...args);
  }
}

async function answers(client: Client): Promise<void> {
  if (!(client instanceof Cluster)) {
    await client.ping();
    return;
  }
  const masters = client.nodes('master');
  if (masters.length === 0) throw new Error('No node of the cluster answers');
  for (const text of await Promise.all(masters.map((node) => node.cluster('INFO')))) {
    if (!String(text).includes('cluster_state:ok')) throw new Error('The cluster is not whole');
  }
}

function clientOf(url: string): Client {
  const common = {
    // A command that got no answer is not sent again: it may have been run.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: CONNECT_TIMEOUT_MS,
    connectionName: 'sluice',
  };
  const retry = (times: number): number => Math.min(times * 50, 500);
  const urls = url.split(',').map((one) => parse(one.trim()));
  const [first] = urls;
  if (first === undefined) throw new StoreError('REDIS_URL is empty');
  const login = {
    ...(first.username === '' ? {} : { username: decodeURIComponent(first.username) }),
    ...(first.password === '' ? {} : { password: decodeURIComponent(first.password) }),
    ...(first.protocol.startsWith('rediss') ? { tls: {} } : {}),
  };
  const place = ({ hostname, port }: URL) => ({
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? 6379 : Number(port),
  });
  if (urls.length === 1 && !first.protocol.includes('+cluster')) {
    return new Redis({
      ...common,
      ...login,
      ...place(first),
      db: Number(first.pathname.slice(1) || 0),
      enableOfflineQueue: false,
      enableAutoPipelining: true,
      retryStrategy: retry,
    });
  }
  return new Cluster(urls.map(place), {
    enableOfflineQueue: false,
    enableAutoPipelining: true,
    clusterRetryStrategy: retry,
    // A command whose slot moves is sent on; whoever waits longer than COMMAND_TIMEOUT_MS turns to Postgres.
    retryDelayOnFailover: 100,
    slotsRefreshTimeout: CONNECT_TIMEOUT_MS,
    redisOptions: { ...common, ...login },
  });
}

function parse(url: string): URL {
  try {
    return new URL(url);
  } catch {
    // The driver's own complaint would quote it, password and all.
    throw new StoreError('REDIS_URL is not a valid URL, or a comma list of them');
  }
}

/** Anybody may read it in /readyz: what Redis or the system says has addresses in it, the code of it hasn't. */
function messageWithoutAddress(error: unknown): string {
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code;
  const message = messageOfError(error);
  return /^[A-Z]+ /.exec(message)?.[0].trim() ?? message.replace(/\S*\d+\.\d+\.\d+\.\d+\S*/g, 'ADDRESS');
}
