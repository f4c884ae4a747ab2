// Numbers that are the same in every run with the same seed.

export interface Random {
  /** A whole number from 0 to below the bound. */
  below(bound: number): number;
  chance(share: number): boolean;
  pick<T>(choices: readonly T[]): T;
}

export function randomFrom(seed: number): Random {
  let state = seed >>> 0;
  // mulberry32
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (bound: number): number => Math.floor(next() * bound);
  return {
    below,
    chance: (share) => next() < share,
    pick(choices) {
      const chosen = choices[below(choices.length)];
      if (chosen === undefined) throw new Error('There is nothing to pick from');
      return chosen;
    },
  };
}
