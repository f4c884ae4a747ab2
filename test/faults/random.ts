// Random numbers from a seed, so that a run that failed can be run again.

/** Mulberry32; each call from 0 to 1. */
export function generator(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** The same as whole numbers: each call from 0 on, below what it is given. */
export function wholeNumbers(start: number): (below: number) => number {
  const next = generator(start);
  return (below) => Math.floor(next() * below);
}
