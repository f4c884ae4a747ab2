// Whether Redis takes writes, tried with one on each master: one that is full, a replica or can't save still answers PING and reads.
import { type Client, mastersBySlot, runScript } from './client.js';
import { script } from './script.js';

/** Seconds that the key of a probe is kept: nobody reads it. */
const PROBE_SECONDS = 60;

/** A write as the others make it, refused where they would be. */
const probeScript = script(`
redis.call('HSET', KEYS[1], 'at', redis.call('TIME')[1])
redis.call('EXPIRE', KEYS[1], ${PROBE_SECONDS})
return 1
`);

const SLOTS = 16_384;
/** Tags that are tried for one that is at home on each master: a master with 16 slots is missed once in 10^8 times. */
const TAGS_MAX = 20_000;

/** Rejects when a master can't be reached or refuses the write. `name`: nobody else's, so that nodes don't meet in one key. */
export async function tryWrites(client: Client, name: string): Promise<void> {
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
