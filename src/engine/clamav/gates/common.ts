// Bytes that tell nothing: a gate of them would hit in vain, whatever it is for.

const DIFFERENT_BYTES_MIN = 3;

/** Runs of one byte, of two in turn, and of bytes that count are in everything, but not at every place. */
export function isEverywhere(offset: string, bytes: Uint8Array): boolean {
  return offset === '*' && (countDifferent(bytes) < DIFFERENT_BYTES_MIN || isEven(bytes));
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
