// Numbers that are the same in every run with the same seed.
import { generator } from '../fixtures/random.js';

export interface Random {
  /** A whole number from 0 to below the bound. */
  below(bound: number): number;
  chance(share: number): boolean;
  pick<T>(choices: readonly T[]): T;
}

export function randomFrom(seed: number): Random {
  const next = generator(seed);
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
