// Inputs made of others: bytes changed, cut out, doubled, put in from another input or from a list of words.

export type Random = (below: number) => number;

export interface Mutation {
  readonly random: Random;
  readonly words: readonly string[];
  readonly limitBytes: number;
}

export function mutated(input: Buffer, other: Buffer, { random, words, limitBytes }: Mutation): Buffer {
  let bytes: Buffer = Buffer.from(input);
  for (let left = 1 + random(4); left > 0; left -= 1) bytes = changed(bytes, other, words, random);
  return bytes.subarray(0, limitBytes);
}

function changed(bytes: Buffer, other: Buffer, words: readonly string[], random: Random): Buffer {
  const at = random(bytes.length + 1);
  const length = Math.min(bytes.length - at, 1 + random(16));
  switch (random(8)) {
    case 0:
      return flipped(bytes, at, random(256));
    case 1:
      return between(bytes, at, length, Buffer.alloc(0));
    case 2:
      return between(bytes, at, 0, bytes.subarray(at, at + length));
    case 3:
      return between(bytes, at, 0, Buffer.from(words[random(words.length)] ?? '', 'latin1'));
    case 4:
      return between(bytes, at, length, Buffer.from(words[random(words.length)] ?? '', 'latin1'));
    case 5: {
      const from = random(other.length + 1);
      return between(bytes, at, random(2) === 0 ? 0 : length, other.subarray(from, from + 1 + random(64)));
    }
    case 6:
      return bytes.subarray(0, at);
    default:
      return between(bytes, at, 0, Buffer.from([random(256)]));
  }
}

function flipped(bytes: Buffer, at: number, value: number): Buffer {
  if (at < bytes.length) bytes[at] = value;
  return bytes;
}

function between(bytes: Buffer, at: number, dropped: number, put: Buffer): Buffer {
  return Buffer.concat([bytes.subarray(0, at), put, bytes.subarray(at + dropped)]);
}
