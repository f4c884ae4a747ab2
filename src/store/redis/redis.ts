// The connection to Redis or Redis Cluster: no command waits for long, and after a failure none is tried until Redis takes writes again.
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { endsWithin, within } from '../../waiting/within.js';
import { StoreAway } from '../store-error.js';
import {
  type Client,
  clientOf,
  connectAgain,
  getValue,
  inOneWrite,
  isReply,
  messageWithoutAddress,
  runScript,
  setValue,
  tryWrites,
  watchConnections,
} from './client.js';
import type { Script } from './place.js';

export interface RedisCommands {
  /** Runs a script over one key. Throws StoreAway, at once while Redis is known to be away. */
  run(script: Script, key: string, ...args: (string | number)[]): Promise<unknown>;
  /** Scripts that are run within `send` travel together. */
  together(send: () => void): void;
  get(key: string): Promise<string | null>;
  set(key: string, value: string, seconds: number): Promise<void>;
}

export interface RedisConnection extends RedisCommands {
  /** Null: it answers. Otherwise since when and why not, without addresses or secrets. */
  problem(): string | null;
  close(): void;
}

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

export async function openRedis(settings: RedisSettings): Promise<RedisConnection> {
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
    ...commandsOf(client, link.attempt),
    problem: link.problem,
    close() {
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
    if (error !== null) reason = messageWithoutAddress(error);
    if (state.kind === 'up') away(error ?? new Error('The connection was lost'));
    else if (state.kind === 'away' && reason !== null) state = { kind: 'away', why: reason };
  });

  function away(error: unknown): void {
    if (state.kind !== 'up') return;
    const wasSteady = performance.now() - state.sinceMs >= STEADY_MS;
    restMs = wasSteady ? 0 : Math.min(Math.max(restMs * 2, PROBE_INTERVAL_MS), REST_MAX_MS);
    const why = messageWithoutAddress(error);
    state = { kind: 'away', why };
    onProblem(`Redis is away, keys and quota are served from Postgres: ${why}`);
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
        // What Redis itself says is newer than why a connection failed.
        const why = isReply(error) ? messageWithoutAddress(error) : (reason ?? messageWithoutAddress(error));
        if (state.kind === 'away') state = { kind: 'away', why };
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

function commandsOf(client: Client, attempt: <T>(command: () => Promise<T>) => Promise<T>): RedisCommands {
  return {
    run: (script, key, ...args) => attempt(() => runScript(client, script, key, args)),
    together: (send) => inOneWrite(client, send),
    get: (key) => attempt(() => getValue(client, key)),
    set: (key, value, seconds) => attempt(() => setValue(client, key, value, seconds)),
  };
}
