// UUIDs for what is made thousands of times a second (RFC 9562), from random bytes that are fetched many at a time: a call for 16 bytes costs more than all else of an id.
import { randomFillSync } from 'node:crypto';

const ID_BYTES = 16;
const POOL_BYTES = 1024 * ID_BYTES;
const HEX = Buffer.from('0123456789abcdef');
const DASH = 0x2d;
/** Of a millisecond's ids the first one counts from a random number below half of what 12 bits hold. */
const COUNT_MAX = 0xfff;
/** A clock that is set back by less is waited for, so that ids stay in their order. */
const CORRECTION_MS = 1_000;

const pool = Buffer.alloc(POOL_BYTES);
/** From there on nobody has had them. */
let used = 0;
randomFillSync(pool);
const text = Buffer.alloc(36);
let lastMs = 0;
let count = 0;

/** Version 4: random. */
export function randomId(): string {
  const at = used;
  pool[at + 6] = 0x40 | ((pool[at + 6] ?? 0) & 0x0f);
  return written();
}

/** Version 7: its time is now, and of two ids of this process the later one is the larger one, unless the clock was set back in between. */
export function timeId(): string {
  const at = used;
  const nowMs = Date.now();
  if (nowMs > lastMs || nowMs < lastMs - CORRECTION_MS) {
    lastMs = nowMs;
    count = (((pool[at + 6] ?? 0) & 0x07) << 8) | (pool[at + 7] ?? 0);
  } else if (count === COUNT_MAX) {
    lastMs += 1;
    count = 0;
  } else count += 1;
  const high = Math.floor(lastMs / 0x10000);
  pool[at] = high >>> 24;
  pool[at + 1] = high >>> 16;
  pool[at + 2] = high >>> 8;
  pool[at + 3] = high;
  pool[at + 4] = lastMs >>> 8;
  pool[at + 5] = lastMs;
  pool[at + 6] = 0x70 | (count >>> 8);
  pool[at + 7] = count;
  return written();
}

/** The bytes are an id's: the next one gets others. */
function written(): string {
  const at = used;
  pool[at + 8] = 0x80 | ((pool[at + 8] ?? 0) & 0x3f);
  let to = 0;
  for (let index = 0; index < ID_BYTES; index += 1) {
    if (index === 4 || index === 6 || index === 8 || index === 10) text[to++] = DASH;
    const byte = pool[at + index] ?? 0;
    text[to++] = HEX[byte >>> 4] ?? 0;
    text[to++] = HEX[byte & 0x0f] ?? 0;
  }
  used += ID_BYTES;
  if (used === POOL_BYTES) {
    randomFillSync(pool);
    used = 0;
  }
  return text.toString('latin1');
}
