// What an account may: a plan's scans an hour, and the prices at Stripe that pay for it; and what of that a key of it may.

export interface Plan {
  readonly name: string;
  /** Scans per hour of an account, with all its keys. */
  readonly hourlyLimit: number;
  /** Ids of prices: the first one is sold, the others are those of earlier subscribers. Empty: the plan can't be bought. */
  readonly prices: readonly string[];
}

/** In the order of the configuration; at least one has no price. */
export type Plans = readonly Plan[];

/** `limits` and `prices` are PLANS and STRIPE_PRICES as they were read; null: nothing is sold. */
export function plansOf(
  limits: ReadonlyMap<string, number>,
  prices: ReadonlyMap<string, readonly string[]> | null,
): Plans {
  return [...limits].map(([name, hourlyLimit]) => ({ name, hourlyLimit, prices: prices?.get(name) ?? [] }));
}

/** Null: the configuration has no such plan. */
export const planNamed = (plans: Plans, name: string): Plan | null => plans.find((plan) => plan.name === name) ?? null;

/** Scans per hour. A plan that the configuration no longer has counts as the smallest that it has. */
export function hourlyLimitOf(plans: Plans, name: string): number {
  return planNamed(plans, name)?.hourlyLimit ?? Math.min(...plans.map(({ hourlyLimit }) => hourlyLimit));
}

export interface Allowance {
  readonly plan: string;
  /** Scans per hour in place of the plan's; null: the plan decides. */
  readonly ownLimit: number | null;
  readonly isSuspended: boolean;
}

/** The limit of an account that is suspended. No plan and no account's own limit is that small. */
export const SUSPENDED_LIMIT = 0;

/** Scans per hour of an account. */
export function limitOf(plans: Plans, { plan, ownLimit, isSuspended }: Allowance): number {
  if (isSuspended) return SUSPENDED_LIMIT;
  return ownLimit ?? hourlyLimitOf(plans, plan);
}

/** The plan that a price pays for; null: none of ours. */
export function planOfPrice(plans: Plans, priceId: string): Plan | null {
  return plans.find(({ prices }) => prices.includes(priceId)) ?? null;
}

/** What an account has that nobody chose a plan for, or that no longer pays: the smallest plan without a price. */
export function freePlanOf(plans: Plans): Plan {
  const [first, ...others] = plans.filter(({ prices }) => prices.length === 0);
  if (first === undefined) throw new Error('The configuration has no plan without a price');
  return others.reduce((one, other) => (other.hourlyLimit < one.hourlyLimit ? other : one), first);
}

export const KEY_SCOPES = ['scan', 'read'] as const;
export type KeyScope = (typeof KEY_SCOPES)[number];

export interface KeyLimits {
  /** Epoch seconds from which on it is refused; null: never. */
  readonly expiresAtSeconds: number | null;
  /** Scans per hour of the key alone; null: what its account has. */
  readonly hourlyLimit: number | null;
  readonly scopes: readonly KeyScope[];
}

export class KeyRules implements KeyLimits {
  readonly expiresAtSeconds: number | null;
  readonly hourlyLimit: number | null;
  readonly scopes: readonly KeyScope[];
  /** One form for each meaning, in which ledgers keep and compare them: `SECONDS LIMIT SCOPES`, with `-` for what isn't bounded. */
  readonly text: string;

  constructor({ expiresAtSeconds, hourlyLimit, scopes }: KeyLimits) {
    this.expiresAtSeconds = expiresAtSeconds;
    this.hourlyLimit = hourlyLimit;
    this.scopes = KEY_SCOPES.filter((scope) => scopes.includes(scope));
    this.text = `${expiresAtSeconds ?? '-'} ${hourlyLimit ?? '-'} ${this.scopes.join(',')}`;
  }

  isOver(nowSeconds: number): boolean {
    return this.expiresAtSeconds !== null && nowSeconds >= this.expiresAtSeconds;
  }

  allows(scope: KeyScope): boolean {
    return this.scopes.includes(scope);
  }
}

/** Undefined: the key may all that its account may. */
export function rulesOf(limits: KeyLimits): KeyRules | undefined {
  const { expiresAtSeconds, hourlyLimit, scopes } = limits;
  const isBounded =
    expiresAtSeconds !== null || hourlyLimit !== null || !KEY_SCOPES.every((one) => scopes.includes(one));
  return isBounded ? new KeyRules(limits) : undefined;
}
