// The connection to Redis, alone, behind Sentinels or as a cluster: nothing is queued, nothing is sent twice, scripts go by their SHA-1, no command waits for long,
// and after a failure none is tried until Redis takes writes again.
import { createHash, randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster, Redis } from 'ioredis';
import { type Address, type Login, redisPlaceOf } from '../../config/store-places.js';
import { endsWithin, within } from '../../waiting/within.js';
import { StoreAway, StoreError } from '../store-error.js';
import { reasonOfRefusal } from './refusals.js';

export type Client = Redis | Cluster;

export interface Script {
  /** What its key is in Redis. */
  readonly type: 'hash' | 'string';
  readonly text: string;
}

/** What EVALSHA knows scripts by. */
const digests = new WeakMap<Script, string>();

const CONNECT_TIMEOUT_MS = 2_000;
/** A master that hangs doesn't say that another one has taken its place. */
const SLOTS_REFRESH_MS = 5_000;

/** `url` as REDIS_URL has it. */
export function clientOf(url: string): Client {
  const place = redisPlaceOf(url);
  // What the driver says of it would quote it, password and all.
  if (place === null) throw new StoreError('REDIS_URL is not a valid URL, or a comma list of them');
  const common = {
    ...place.login,
    ...(place.isTls ? { tls: {} } : {}),
    // A command that got no answer is not sent again: it may have been run.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: CONNECT_TIMEOUT_MS,
    connectionName: 'sluice',
    // A master that became a replica: behind the same name, balancer or Sentinels there may be the new master.
    reconnectOnError: (error: Error) => /\bREADONLY\b/.test(error.message),
  };
  if (place.kind === 'cluster') {
    const settings = {
      enableOfflineQueue: false,
      // Scripts too: of a command outside of pipelines the driver leaves a failed ASKING unhandled, which ends the process.
      enableAutoPipelining: true,
      clusterRetryStrategy: retryMs,
      // Above zero, what was under way when a connection ended would be sent again.
      retryDelayOnFailover: 0,
      slotsRefreshTimeout: CONNECT_TIMEOUT_MS,
      redisOptions: common,
    };
    return refreshSlots(new Cluster([...place.nodes], settings));
  }
  const one = {
    ...common,
    db: place.database,
    enableOfflineQueue: false,
    enableAutoPipelining: true,
    // Units that are asked for in one turn of the event loop are gathered already (admission/redis-ledger.ts), and a second turn costs.
    autoPipeliningIgnoredCommands: ['evalsha', 'eval'],
    retryStrategy: retryMs,
  };
  if (place.kind === 'alone') return new Redis({ ...one, ...place.address });
  const { sentinels, sentinelLogin, name, isTls } = place;
  const client = new Redis({
    ...one,
    sentinels: [...sentinels],
    name,
    sentinelUsername: sentinelLogin.username,
    sentinelPassword: sentinelLogin.password,
    ...(isTls ? { sentinelTLS: {}, enableTLSForSentinelMode: true } : {}),
    sentinelRetryStrategy: retryMs,
    sentinelCommandTimeout: CONNECT_TIMEOUT_MS,
  });
  const tls = isTls ? { tls: {} } : {};
  for (const sentinel of sentinels) followMaster(client, name, { ...sentinel, ...sentinelLogin, ...tls });
  return client;
}

const retryMs = (times: number): number => Math.min(times * 50, 500);

/** Until the client ends. */
function refreshSlots(cluster: Cluster): Cluster {
  // Not by the driver's slotsRefreshInterval: a client that is disconnected while it asks would ask on for ever, once more each time.
  const refresh = setInterval(() => {
    if (cluster.status === 'ready') cluster.refreshSlotsCache();
  }, SLOTS_REFRESH_MS);
  refresh.unref();
  cluster.on('end', () => clearInterval(refresh));
  return cluster;
}

/**
 * A Sentinel says when another Redis has become the master. The old one may go on as if nothing had happened, for who is still connected to it.
 * Not by the driver's failoverDetector: that one prints each failure of a Sentinel, and follows the masters of others.
 */
function followMaster(client: Redis, name: string, sentinel: Address & Login & { readonly tls?: object }): void {
  const watcher = new Redis({
    ...sentinel,
    connectTimeout: CONNECT_TIMEOUT_MS,
    connectionName: 'sluice',
    retryStrategy: retryMs,
    maxRetriesPerRequest: null,
  });
  // The client itself asks all of them for the master, and reports where none answers.
  watcher.on('error', () => undefined);
  watcher.on('message', (_channel, text: string) => {
    if (text.startsWith(`${name} `)) connectAgain(client);
  });
  watcher.subscribe('+switch-master').catch(() => undefined);
  client.on('end', () => watcher.disconnect());
}

function digestOf(script: Script): string {
  const known = digests.get(script) ?? createHash('sha1').update(script.text).digest('hex');
  digests.set(script, known);
  return known;
}

/** Each step is sent once by the SHA-1 of its text, and only where Redis doesn't have it by the text. */
export async function runScript(
  client: Client,
  script: Script,
  key: string,
  args: readonly (string | number)[],
): Promise<unknown> {
  try {
    return await send(client, 'evalsha', digestOf(script), 1, key, ...args);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
    return await send(client, 'eval', script.text, 1, key, ...args);
  }
}

/** Scripts that are run while `send` runs travel together. In a cluster they do so anyway. */
export function inOneWrite(client: Client, send: () => void): void {
  // Without a connection there is none.
  const stream: Redis['stream'] | undefined = client instanceof Cluster ? undefined : client.stream;
  stream?.cork();
  try {
    send();
  } finally {
    stream?.uncork();
  }
}

export async function getValue(client: Client, key: string): Promise<string | null> {
  const value = await send(client, 'get', key);
  return typeof value === 'string' ? value : null;
}

export async function setValue(client: Client, key: string, value: string, seconds: number): Promise<void> {
  await send(client, 'set', key, value, 'EX', seconds);
}

/**
 * Another node has the key's slot, or is about to: the command was not run. The last are the driver's words when it would send
 * commands on together that now belong to several nodes.
 */
const ELSEWHERE = /^(MOVED|ASK|TRYAGAIN) |same slots allocation group/;

/**
 * Commands of one moment travel together, and of those the driver follows no redirection unless all of them meet the same one.
 * What was redirected is sent again alone, which it does follow.
 */
async function send(client: Client, ...command: [name: string, ...args: (string | number)[]]): Promise<unknown> {
  try {
    return await client.call(...command);
  } catch (error) {
    if (!(error instanceof Error && ELSEWHERE.test(error.message))) throw error;
    const [reply] =
      (await client
        .pipeline()
        .call(...command)
        .exec()) ?? [];
    if (reply === undefined) throw error;
    if (reply[0] !== null) throw reply[0];
    return reply[1];
  }
}

/** Who has a slot of the cluster, as far as the driver knows; null: it is no cluster. */
export function mastersBySlot(client: Client): ((slot: number) => string | undefined) | null {
  return client instanceof Cluster ? (slot) => client.slots[slot]?.[0] : null;
}

/** Calls `onLoss` with every error, and with null when a connection ends: what was counted there may be gone when it is back. */
function watchConnections(client: Client, onLoss: (error: unknown) => void): void {
  client.on('error', onLoss);
  const ended = (): void => onLoss(null);
  client.on('close', ended);
  if (!(client instanceof Cluster)) return;
  // A master that ends or is replaced; the others' connections stay. Replicas aren't asked.
  client.on('-node', (node: Redis) => {
    if (node.options.readOnly !== true) ended();
  });
}

/** Ends the connections and makes new ones; one that doesn't end is destroyed. What is being connected is left alone. */
function connectAgain(client: Client): void {
  if (client.status === 'ready' || client.status === 'connect') client.disconnect(true);
}

/** Whether Redis answered, with a refusal. */
const isReply = (error: unknown): boolean => error instanceof Error && error.name === 'ReplyError';

/*
 * Whether Redis takes writes is tried with one on each master: one that is full, a replica or can't save still answers PING and reads.
 */

/** Seconds that the key of a probe is kept: nobody reads it. */
const PROBE_SECONDS = 60;

/** A write as the others make it, refused where they would be. */
const probeScript: Script = {
  type: 'hash',
  text: `
redis.call('HSET', KEYS[1], 'at', redis.call('TIME')[1])
redis.call('EXPIRE', KEYS[1], ${PROBE_SECONDS})
return 1
`,
};

const SLOTS = 16_384;
/** Tags that are tried for one that is at home on each master: a master with 16 slots is missed once in 10^8 times. */
const TAGS_MAX = 20_000;

/** Rejects when a master can't be reached or refuses the write. `name`: nobody else's, so that nodes don't meet in one key. */
async function tryWrites(client: Client, name: string): Promise<void> {
  const masters = mastersBySlot(client);
  const keys = masters === null ? [`sluice:probe:${name}`] : keysOfMasters(masters, name);
  await Promise.all(keys.map((key) => runScript(client, probeScript, key, [])));
}

/** One key for each master that has slots. */
function keysOfMasters(masterOf: (slot: number) => string | undefined, name: string): string[] {
  const masters = new Set<string>();
  for (let slot = 0; slot < SLOTS; slot += 1) {
    const master = masterOf(slot);
    if (master === undefined) throw new Error('The cluster is not whole');
    masters.add(master);
  }
  const keys: string[] = [];
  for (let tag = 0; tag < TAGS_MAX && masters.size > 0; tag += 1) {
    const master = masterOf(slotOf(`probe:${tag}`));
    if (master !== undefined && masters.delete(master)) keys.push(`sluice:{probe:${tag}}:${name}`);
  }
  return keys;
}

/** CRC-16/XMODEM, as the specification of Redis Cluster has it. */
function slotOf(tag: string): number {
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : crc << 1;
  }
  return crc % SLOTS;
}

export type RedisCommands = ReturnType<typeof commandsOf>;

interface RedisSettings {
  readonly url: string;
  /** Awaited before Redis is used again after it was away, and before its first use. Redis may go away meanwhile: then it is called again. It doesn't reject. */
  readonly onReturn: () => Promise<void>;
  readonly onProblem: (message: string) => void;
  /** For tests: how long a command waits for its answer, in milliseconds. */
  readonly answerMs?: number;
}

/** A healthy Redis answers in well under a millisecond. A request that has waited longer can ask Postgres. */
const ANSWER_MS = 500;
/** At the start, before the service goes on without it. */
const START_TIMEOUT_MS = 3_000;
const PROBE_INTERVAL_MS = 250;
/**
 * After so long without any answer the connection is given up. Its other end may be gone without a word, and the system would
 * go on sending for a quarter of an hour. A watch on each command would cost all of them. Far above a slow handshake.
 */
const SILENCE_MS = 4_000;
/** A Redis that goes away again sooner than this isn't steady: it is left alone for a while, twice as long each time. */
const STEADY_MS = 60_000;
/** And not longer than this: Postgres serves meanwhile, and the log gets a line or two each time. */
const REST_MAX_MS = 10_000;

export async function openRedis(settings: RedisSettings) {
  const { url, onProblem, answerMs = ANSWER_MS } = settings;
  const client = clientOf(url);
  const link = createLink(client, { ...settings, answerMs });
  // A probe that comes before the connection fails, and the next one only comes after a while.
  const connected = new Promise((resolve) => client.once('ready', resolve));
  await endsWithin(connected, PROBE_INTERVAL_MS);
  await endsWithin(link.comeBack(), START_TIMEOUT_MS);
  const atStart = link.problem();
  if (atStart !== null) onProblem(`${atStart}; keys and quota are served from Postgres until it answers`);
  return {
    ...commandsOf(client, link.attempt, onProblem),
    /** Null: it answers. Otherwise since when and why not, without addresses or secrets. */
    problem: link.problem,
    close(): void {
      link.close();
      client.disconnect();
    },
  };
}

type LinkState =
  | { readonly kind: 'up'; readonly sinceMs: number }
  | { readonly kind: 'away'; readonly why: string }
  | { readonly kind: 'closed' };

/** Whether Redis may be used; away at first. */
function createLink(client: Client, settings: Omit<Required<RedisSettings>, 'url'>) {
  const { onReturn, onProblem, answerMs } = settings;
  const name = randomUUID();
  let state: LinkState = { kind: 'away', why: 'connecting' };
  // Why a connection fails is only said here; without a listener ioredis would print it.
  let reason: string | null = null;
  let losses = 0;
  let restMs = 0;
  watchConnections(client, (error) => {
    losses += 1;
    if (error !== null) reason = reasonOfRefusal(error);
    if (state.kind === 'up') away(error ?? new Error('The connection was lost'));
    else if (state.kind === 'away' && reason !== null) state = { kind: 'away', why: reason };
  });

  function away(error: unknown): void {
    if (state.kind !== 'up') return;
    restMs = restAfter(performance.now() - state.sinceMs, restMs);
    state = { kind: 'away', why: reasonOfRefusal(error) };
    onProblem(`Redis is away, keys and quota are served from Postgres: ${state.why}`);
    void comeBack();
  }

  async function comeBack(): Promise<void> {
    let pauseMs = restMs;
    let heardMs = performance.now();
    while (state.kind === 'away') {
      if (pauseMs > 0) await sleep(pauseMs, undefined, { ref: false });
      pauseMs = PROBE_INTERVAL_MS;
      const lossesBefore = losses;
      try {
        await within(tryWrites(client, name), answerMs);
      } catch (error) {
        // What Redis itself says is newer than why a connection failed; what the driver says without a connection is no reason.
        const isNew = isReply(error) || (reason === null && client.status === 'ready');
        const why = isNew ? reasonOfRefusal(error) : reason;
        if (state.kind === 'away') state = { kind: 'away', why: why ?? state.why };
        if (isReply(error)) heardMs = performance.now();
        if (performance.now() - heardMs < SILENCE_MS) continue;
        heardMs = performance.now();
        connectAgain(client);
        continue;
      }
      reason = null;
      await onReturn();
      // It may have been lost again.
      if (losses !== lossesBefore) continue;
      if (state.kind === 'away') state = { kind: 'up', sinceMs: performance.now() };
    }
  }

  return {
    /** Runs a command; throws StoreAway, at once while Redis is known to be away. */
    async attempt<T>(command: () => Promise<T>): Promise<T> {
      if (state.kind !== 'up') throw new StoreAway(state.kind === 'away' ? state.why : 'closed');
      try {
        return await within(command(), answerMs);
      } catch (error) {
        away(error);
        throw new StoreAway(error);
      }
    },
    /** Probes until Redis takes writes, and lets it be used again when who uses it is ready for that. */
    comeBack,
    problem: (): string | null => (state.kind === 'away' ? `Redis is away: ${state.why}` : null),
    close(): void {
      state = { kind: 'closed' };
    },
  };
}

/** How long to leave it alone after it was up for so long; before that it was left alone for `lastMs`. */
function restAfter(upMs: number, lastMs: number): number {
  return upMs >= STEADY_MS ? 0 : Math.min(Math.max(lastMs * 2, PROBE_INTERVAL_MS), REST_MAX_MS);
}

/** ARGV: the type that it is to have. Returns the one that it had. */
const dropScript: Script = {
  type: 'hash',
  text: `local found = redis.call('TYPE', KEYS[1]).ok if found ~= ARGV[1] then redis.call('DEL', KEYS[1]) end return found`,
};

function commandsOf(
  client: Client,
  attempt: <T>(command: () => Promise<T>) => Promise<T>,
  onProblem: (message: string) => void,
) {
  /** Whoever has put something else under one of our names: Postgres has what was there, and nothing of a script was run. */
  async function withoutForeign<T>(type: Script['type'], key: string, command: () => Promise<T>): Promise<T> {
    try {
      return await command();
    } catch (error) {
      if (!(error instanceof Error && /\bWRONGTYPE\b/.test(error.message))) throw error;
      const found = await runScript(client, dropScript, key, [type]);
      if (found !== type)
        onProblem(`${key} in Redis was of the type ${found}, which Sluice has not made: it is removed`);
      return await command();
    }
  }

  return {
    /** Runs a script over one key. Throws StoreAway, at once while Redis is known to be away. */
    run: (script: Script, key: string, ...args: (string | number)[]): Promise<unknown> =>
      attempt(() => withoutForeign(script.type, key, () => runScript(client, script, key, args))),
    /** Scripts that are run within `send` travel together. */
    together: (send: () => void): void => inOneWrite(client, send),
    get: (key: string) => attempt(() => withoutForeign('string', key, () => getValue(client, key))),
    set: (key: string, value: string, seconds: number) => attempt(() => setValue(client, key, value, seconds)),
  };
}
