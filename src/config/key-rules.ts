// What an API key may of what its account may: until when, how much an hour, and for what.

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
