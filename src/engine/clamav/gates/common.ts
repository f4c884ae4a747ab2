// Bytes that tell nothing: a gate of them would hit in vain, whatever it is for.

const DIFFERENT_BYTES_MIN = 3;

/** Runs of one byte, of two in turn, bytes that count, and relocations are in everything, but not at every place. */
export function isEverywhere(offset: string, bytes: Uint8Array): boolean {
  return offset === '*' && (countDifferent(bytes) < DIFFERENT_BYTES_MIN || isEven(bytes) || isRelocations(bytes));
}

/** Which bytes were seen, by the number of the look that has seen them last: nothing has to be cleared. */
const seen = new Uint32Array(256);
let look = 0;

export function countDifferent(bytes: Uint8Array): number {
  look += 1;
  let different = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    if (seen[byte] !== look) different += 1;
    seen[byte] = look;
  }
  return different;
}

/** Bytes that are the same distance from each other. */
function isEven(bytes: Uint8Array): boolean {
  const step = ((bytes[1] ?? 0) - (bytes[0] ?? 0)) & 0xff;
  for (let at = 2; at < bytes.length; at += 1)
    if ((((bytes[at] ?? 0) - (bytes[at - 1] ?? 0)) & 0xff) !== step) return false;
  return true;
}

const RELOCATIONS_MIN = 4;
/** IMAGE_REL_BASED_HIGHLOW, the only type in programs of 32 bits. */
const RELOCATION_TYPE = 3;

/**
 * Where addresses lie in a page of a program for Windows, two bytes for each: the type in the highest four bits, then a place behind the one before.
 * A large program has thousands, and compilers put addresses side by side: the same rows come back in all of them.
 */
function isRelocations(bytes: Uint8Array): boolean {
  return areRelocations(bytes, 0) || areRelocations(bytes, 1);
}

function areRelocations(bytes: Uint8Array, start: number): boolean {
  let count = 0;
  let before = -1;
  for (let at = start; at + 1 < bytes.length; at += 2) {
    const entry = ((bytes[at + 1] ?? 0) << 8) | (bytes[at] ?? 0);
    if (entry >> 12 !== RELOCATION_TYPE || entry <= before) return false;
    before = entry;
    count += 1;
  }
  return count >= RELOCATIONS_MIN;
}
