// What the plans cost, as Stripe says: asked now and then, and never waited for long.
import type { Log } from '../log.js';
import { withinOr } from '../waiting/within.js';
import { logProblem } from './failures.js';
import { type Price, type StripeApi, StripeProblem } from './shapes.js';

export interface Prices {
  /** Null: not known, or it has no single amount. */
  of(priceId: string): Promise<Price | null>;
}

/** A price's amount never changes at Stripe; this is for the case that it ceases to have one. */
const FRESH_MS = 3_600_000;
/** After a failure Stripe is left alone for so long. */
const RETRY_MS = 30_000;
/** The plans are shown without prices rather than later. */
const WAIT_MS = 1_500;

interface Entry {
  readonly price: Price | null;
  readonly askAgainAtMs: number;
}

export function createPrices(stripe: StripeApi, log: Log, now: () => number): Prices {
  const known = new Map<string, Entry>();
  const asked = new Map<string, Promise<Price | null>>();

  async function ask(priceId: string): Promise<Price | null> {
    try {
      const price = await stripe.readPrice(priceId);
      known.set(priceId, { price, askAgainAtMs: now() + FRESH_MS });
      return price;
    } catch (error) {
      if (!(error instanceof StripeProblem)) throw error;
      // A price that STRIPE_PRICES names wrongly is found out here.
      logProblem(log, error);
      const price = known.get(priceId)?.price ?? null;
      known.set(priceId, { price, askAgainAtMs: now() + RETRY_MS });
      return price;
    } finally {
      asked.delete(priceId);
    }
  }

  return {
    async of(priceId) {
      const entry = known.get(priceId);
      if (entry !== undefined && now() < entry.askAgainAtMs) return entry.price;
      const answer = asked.get(priceId) ?? ask(priceId);
      asked.set(priceId, answer);
      // The next caller finds what comes later.
      return await withinOr(answer, WAIT_MS, entry?.price ?? null);
    },
  };
}
