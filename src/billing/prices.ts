// What the plans cost, as Stripe says: asked now and then, and never waited for long.
import type { Log } from '../log.js';
import { withinOr } from '../waiting/within.js';
import { logProblem } from './failures.js';
import { type Price, type StripeApi, StripeProblem } from './shapes.js';

export interface Prices {
  of(priceId: string): Promise<ToldPrice>;
}

export interface ToldPrice {
  /** Null: not known, or it has no single amount. */
  readonly price: Price | null;
  /** Stripe has not said it: it has not answered yet, or has failed. It is asked again. */
  readonly isPending: boolean;
}

/** A price's amount never changes at Stripe; this is for the case that it ceases to have one. */
const FRESH_MS = 3_600_000;
/** After a failure Stripe is left alone for so long. */
const RETRY_MS = 30_000;
/** The plans are shown without prices rather than later. */
const WAIT_MS = 1_500;

const PENDING: ToldPrice = { price: null, isPending: true };

interface Entry {
  readonly told: ToldPrice;
  readonly askAgainAtMs: number;
}

export function createPrices(stripe: StripeApi, log: Log, now: () => number): Prices {
  const known = new Map<string, Entry>();
  const asked = new Map<string, Promise<ToldPrice>>();

  async function ask(priceId: string): Promise<ToldPrice> {
    try {
      const told = { price: await stripe.readPrice(priceId), isPending: false };
      known.set(priceId, { told, askAgainAtMs: now() + FRESH_MS });
      return told;
    } catch (error) {
      if (!(error instanceof StripeProblem)) throw error;
      // A price that STRIPE_PRICES names wrongly is found out here.
      logProblem(log, error);
      const told = known.get(priceId)?.told ?? PENDING;
      known.set(priceId, { told, askAgainAtMs: now() + RETRY_MS });
      return told;
    } finally {
      asked.delete(priceId);
    }
  }

  return {
    async of(priceId) {
      const entry = known.get(priceId);
      if (entry !== undefined && now() < entry.askAgainAtMs) return entry.told;
      const answer = asked.get(priceId) ?? ask(priceId);
      asked.set(priceId, answer);
      // The next caller finds what comes later.
      return await withinOr(answer, WAIT_MS, entry?.told ?? PENDING);
    },
  };
}
