// The memory of request bodies that are no uploads: one budget for all connections, of which a part is closed to requests whose caller is not known.
import { BODIES_BYTES, BODIES_RESERVE_BYTES } from '../limits.js';

/** What one request holds of the budget. */
export interface Holding {
  /** Takes so many bytes more; false: there is no room, and nothing was taken. */
  take(bytes: number, part: BudgetPart): boolean;
  /** Gives all of it back. */
  giveBack(): void;
}

/** `open`: for strangers too; `whole`: with the reserve that strangers can't use up. */
export type BudgetPart = 'open' | 'whole';

/** Returns what opens the holding of a request. */
export function createBodyBudget(): () => Holding {
  let heldBytes = 0;
  return () => {
    let mineBytes = 0;
    return {
      take(bytes, part) {
        const limitBytes = part === 'whole' ? BODIES_BYTES : BODIES_BYTES - BODIES_RESERVE_BYTES;
        if (heldBytes + bytes > limitBytes) return false;
        heldBytes += bytes;
        mineBytes += bytes;
        return true;
      },
      giveBack() {
        heldBytes -= mineBytes;
        mineBytes = 0;
      },
    };
  };
}
