// Which admissions may be expected: as many at once as the user's last answer left units.
import { recentTable } from '../recent-table.js';

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

/** `usersMax`: a user that has made room is expected again after the next answer. */
export function createExpectations(usersMax: number): Expectations {
  const users = recentTable<Standing>(usersMax);

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
      return standing !== undefined && standing.left > 0 && standing.asking <= standing.left;
    },
  };
}
