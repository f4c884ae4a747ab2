// What happens to the parts of the cluster, one after the other.
import { setTimeout as delay } from 'node:timers/promises';
import type { PostgresServer } from '../fixtures/postgres.js';
import { type RedisGroup, type RedisSentinels, type RedisServer, roleOf } from '../fixtures/redis.js';
import type { Relay } from '../fixtures/relay.js';
import { follow, type Pair } from './database.js';
import type { Haproxy } from './haproxy.js';
import type { Node } from './nodes.js';

export interface Cluster {
  readonly nodes: readonly Node[];
  /** Which comes and goes. */
  readonly spare: Node;
  readonly front: Haproxy;
  readonly database: Pair;
  readonly databaseProxy: Haproxy;
  readonly redis: RedisGroup | RedisSentinels;
  /** By the port of the member. */
  readonly redisRelays: ReadonlyMap<number, Relay>;
}

export interface Fault {
  /** Whether it is a node alone, which costs its clients one retry at most. */
  readonly isOfNode: boolean;
  happen(cluster: Cluster, node: Node): Promise<void>;
}

const AWAY_MS = 2_000;
/** Longer than the members of the Redis Cluster, or Sentinels, wait before another one is elected. */
const FAILOVER_MS = 5_000;
/** So long commits wait for a standby that is gone: then the run does what an operator's watcher would do. */
const STANDBY_LOST_MS = 1_000;

export const faults: Readonly<Record<string, Fault>> = {
  'node killed': ofNode(async (_, node) => {
    await node.kill();
    await delay(AWAY_MS);
    await node.start();
  }),
  'server process killed': ofNode(async (_, node) => node.killServer()),
  'node paused': ofNode((_, node) => node.pause(AWAY_MS)),
  'upgrade of all nodes': ofNode(async ({ nodes }) => {
    for (const node of nodes) await node.upgrade();
  }),
  'node stopped and started': ofNode(async (_, node) => {
    const code = await node.stop();
    if (code !== 0) throw new Error(`A node ended with ${code}`);
    await node.start();
  }),
  'node added and removed': ofNode(async ({ spare }) => {
    await spare.start();
    await delay(AWAY_MS);
    const code = await spare.stop();
    if (code !== 0) throw new Error(`A node ended with ${code}`);
  }),
  'node cut off from Postgres': ofStore((_, { database }) => cut(database, AWAY_MS)),
  'HAProxy killed': ofStore(async ({ front }) => {
    await front.kill();
    await front.start();
  }),
  'HAProxy paused': ofStore(({ front }) => pause(front, AWAY_MS)),
  'Redis master killed': ofStore(async ({ redis }) => {
    const master = await masterOf(redis);
    await master.kill();
    await delay(FAILOVER_MS);
    await master.start();
  }),
  'Redis master back at once, empty': ofStore(async ({ redis }) => {
    const master = await masterOf(redis);
    await master.kill();
    await master.start();
  }),
  'Redis master paused': ofStore(async ({ redis }) => pause(await masterOf(redis), FAILOVER_MS)),
  'Redis replica killed': ofStore(async ({ redis }) => {
    const replica = await masterOf(redis, 'slave');
    await replica.kill();
    await delay(AWAY_MS);
    await replica.start();
  }),
  'Redis master cut off from clients': ofStore(async ({ redis, redisRelays }) => {
    await cut(relayOf(redisRelays, await masterOf(redis)), AWAY_MS);
  }),
  'Postgres killed, standby promoted': ofStore(({ database }) => database.failOver()),
  'Postgres paused': ofStore(({ database }) => pausePostgres(database.primary)),
  'Postgres standby killed': ofStore(async ({ database }) => {
    const { standby, primary } = database;
    await standby.crash();
    await delay(STANDBY_LOST_MS);
    await database.standAlone();
    await standby.start();
    await follow(primary);
  }),
  'proxy of Postgres killed': ofStore(async ({ databaseProxy }) => {
    await databaseProxy.kill();
    await delay(AWAY_MS);
    await databaseProxy.start();
  }),
};

/** What else may happen where Sentinels elect the master. */
export const sentinelFaults: Readonly<Record<string, Fault>> = {
  'Redis master cut off, another elected': ofStore(async ({ redis, redisRelays }) => {
    await cut(relayOf(redisRelays, await masterOf(redis)), FAILOVER_MS);
  }),
  'Sentinel killed': ofStore(async ({ redis }) => {
    const [sentinel] = 'sentinels' in redis ? redis.sentinels : [];
    if (sentinel === undefined) throw new Error('There are Sentinels');
    await sentinel.kill();
    await delay(AWAY_MS);
    await sentinel.start();
  }),
};

function ofNode(happen: Fault['happen']): Fault {
  return { isOfNode: true, happen };
}

function ofStore(happen: Fault['happen']): Fault {
  return { isOfNode: false, happen };
}

function relayOf(relays: Cluster['redisRelays'], { port }: RedisServer): Relay {
  const relay = relays.get(port);
  if (relay === undefined) throw new Error('Each member has a relay');
  return relay;
}

async function cut(relay: Relay, milliseconds: number): Promise<void> {
  relay.cut();
  await delay(milliseconds);
  relay.mend();
}

async function pause(part: { signal(signal: NodeJS.Signals): void }, milliseconds: number): Promise<void> {
  part.signal('SIGSTOP');
  await delay(milliseconds);
  part.signal('SIGCONT');
}

async function pausePostgres(server: PostgresServer): Promise<void> {
  server.pause();
  await delay(AWAY_MS);
  server.resume();
}

async function masterOf({ members }: RedisGroup, role = 'master'): Promise<RedisServer> {
  for (const member of members) {
    if ((await roleOf(member)) === role) return member;
  }
  throw new Error(`There is no ${role}`);
}
