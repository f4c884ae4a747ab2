// The memory of request bodies that are no uploads: one budget for all connections, of which a part is closed to requests whose caller is not known.
import { BODIES_BYTES, BODIES_RESERVE_BYTES } from '../limits.js';

/** `open`: for strangers too; `whole`: with the reserve that strangers can't use up. */
export type BudgetPart = 'open' | 'whole';

/** Where bytes of bodies count. */
export type BodyRoom = Pick<BodyBudget, 'take' | 'giveBack'>;

export class BodyBudget {
  #heldBytes = 0;

  /** Takes so many bytes; false: there is no room, and nothing was taken. */
  take(bytes: number, part: BudgetPart): boolean {
    const limitBytes = part === 'whole' ? BODIES_BYTES : BODIES_BYTES - BODIES_RESERVE_BYTES;
    if (this.#heldBytes + bytes > limitBytes) return false;
    this.#heldBytes += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#heldBytes -= bytes;
  }
}
