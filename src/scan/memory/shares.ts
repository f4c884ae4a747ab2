// How much of a memory an account may have: pure arithmetic over bytes, for the one who lends them.
import { CONTENT_LIMIT_BYTES } from '../../limits.js';

/** What an account has and what it would like to have. */
export interface Claim {
  /** Bytes that the account has of the shared part. */
  readonly ownBytes: number;
  /** Bytes that all accounts have of it. */
  readonly sharedBytes: number;
  /** Bytes more, those included that older uploads of the account are expected to need first. */
  readonly extraBytes: number;
  readonly isSmall: boolean;
}

export interface Shares {
  /** The part that is shared, which is the budget but for the finishing room. */
  readonly sharedBytes: number;
  /**
   * Room for one content of the largest size, for the first in line. It is lent for all that an upload may still need, so this upload
   * never waits again. Even when many half-received uploads want to grow, one of them can, and ends.
   */
  readonly finishingBytes: number;
  /** The most of the shared part that an account may fill with what arrived and waits; half of the reserve is then left. */
  readonly waitingLimitBytes: number;
  /** There is room for it, and the account may have it. */
  allows(claim: Claim): boolean;
  /** The account could have it if the others had nothing. */
  allowsAlone(claim: Claim): boolean;
}

/** Of what an account may have: large uploads leave the rest to small ones, which find room beside them. */
const LARGE_SHARE = 3 / 4;

/**
 * An account may have a fixed multiple of what stays free (dynamic thresholds, as switches share their buffers: Choudhury and Hahne
 * 1998). The multiple is such that an account alone leaves the reserve. With more accounts each one's limit falls by itself, and there
 * is always something left for the next.
 */
export function createShares(budgetBytes: number, reserveShare: number): Shares {
  const finishingBytes = Math.min(CONTENT_LIMIT_BYTES, budgetBytes);
  const reserveBytes = budgetBytes * reserveShare;
  const sharedBytes = budgetBytes - finishingBytes;
  const aloneBytes = Math.max(0, sharedBytes - reserveBytes);
  return {
    sharedBytes,
    finishingBytes,
    waitingLimitBytes: aloneBytes + reserveBytes / 2,
    allows({ ownBytes, sharedBytes: lentBytes, extraBytes, isSmall }) {
      const freeBytes = sharedBytes - lentBytes - extraBytes;
      const multiple = (aloneBytes / reserveBytes) * (isSmall ? 1 : LARGE_SHARE);
      return freeBytes >= 0 && ownBytes + extraBytes <= multiple * freeBytes;
    },
    allowsAlone(claim) {
      return this.allows({ ...claim, sharedBytes: claim.ownBytes });
    },
  };
}
