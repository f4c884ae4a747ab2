// Which admissions may be expected: as many at once as the user's last answer left units.

import { LRUCache } from 'lru-cache';

export interface Expectations {
  /** One more is asked for; `left`, when it is answered: the units that there are after it, 0 when it wasn't admitted. */
  begin(userId: string): (left: number) => void;
  /** Those that are being asked for, this one among them, can all be admitted. */
  allow(userId: string): boolean;
}

interface Standing {
  left: number;
  asking: number;
}

/** Users that are remembered, some 150 bytes each; the one that was asked for least recently makes room, and is expected again after its next answer. */
const USERS_MAX = 100_000;

export function createExpectations(): Expectations {
  const users = new LRUCache<string, Standing>({ max: USERS_MAX });

  function standingOf(userId: string): Standing {
    const known = users.get(userId);
    if (known !== undefined) return known;
    const standing = { left: 0, asking: 0 };
    users.set(userId, standing);
    return standing;
  }

  return {
    begin(userId) {
      const standing = standingOf(userId);
      standing.asking += 1;
      return (left) => {
        standing.asking -= 1;
        standing.left = left;
      };
    },
    allow(userId) {
      const standing = users.peek(userId);
      return standing !== undefined && standing.asking <= standing.left;
    },
  };
}
