// Which scans have their unit back: those that the service failed, and of those that never arrived whole a number per account and hour.
import type { Access } from '../admission/access.js';
import { Failure } from '../errors.js';
import { UNFINISHED_REFUNDS_PER_HOUR } from '../limits.js';
import { recentTable } from '../recent-table.js';

type Admitted = Extract<Access, { outcome: 'admitted' }>;
type Quota = Admitted['quota'];

interface EndedRequest {
  readonly isGone: boolean;
  /** The whole of it had arrived. */
  readonly isWhole: boolean;
}

export type Refunds = ReturnType<typeof createRefunds>;

/** Accounts and hours whose count is remembered, some 200 bytes each; the one that was used least recently makes room. */
const COUNTS_MAX = 100_000;

/** Counts in this process alone: an account that sends to several processes has the number from each. */
export function createRefunds() {
  const counts = recentTable<number>(COUNTS_MAX);

  /** The hour is the unit's: a body that ends in the next one counts for the one in which it began. */
  function isLeft({ userId, quota }: Admitted): boolean {
    const hour = `${userId} ${quota.resetEpochSeconds}`;
    const count = counts.get(hour) ?? 0;
    if (count === UNFINISHED_REFUNDS_PER_HOUR) return false;
    counts.set(hour, count + 1);
    return true;
  }

  return {
    /** Gives the unit back if the error is a reason for that; resolves with the quota then. */
    async settle(problem: unknown, access: Admitted, request: EndedRequest): Promise<Quota> {
      const reason = reasonFor(problem, request);
      const isGivenBack = reason === 'failed' || (reason === 'unfinished' && isLeft(access));
      return isGivenBack ? await access.refund() : access.quota;
    },
  };
}

/** `unfinished`: the request never arrived whole. Null: it was complete and wrong. */
function reasonFor(error: unknown, { isGone, isWhole }: EndedRequest): 'failed' | 'unfinished' | null {
  if (error instanceof Failure && error.status >= 500) return 'failed';
  if (error instanceof Failure && error.code === 'uploadTooSlow') return 'unfinished';
  // A client that leaves after a whole request pays for it. Otherwise it could have URLs fetched in our name without end.
  if (isGone) return isWhole ? null : 'unfinished';
  return error instanceof Failure ? null : 'failed';
}
