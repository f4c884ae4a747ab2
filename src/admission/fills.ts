// Fills the ledger with what Postgres has of a key and its user. It takes one step for each key at a time, and never writes what is older than a change.
import { guarded } from '../store/guard.js';
import type { KeyOwner, KeyRecord, QuotaHour } from './admission.js';
import type { Ledger } from './ledger.js';
import type { Lookups } from './lookups.js';
import type { QuotaHours } from './quota-hours.js';

export interface FillParts {
  readonly ledger: Ledger;
  readonly lookups: Lookups;
  readonly hours: QuotaHours;
  /** What Postgres says now of a user's limit; null: it knows no such user. */
  readonly limitOf: (userId: string) => Promise<number | null>;
}

/** Both throw StoreAway when the ledger is away, and Failure('unavailable') when Postgres is. */
export interface Fills {
  /** Tells the ledger what Postgres says now of the key and its user; null when the key isn't live any more. */
  key(keyHash: string, owner: KeyOwner): Promise<KeyRecord | null>;
  /** The same for a user who is signed in: the caller read the limit before the token, so it is read again. Returns the limit. */
  user(userId: string, hourlyLimit: number): Promise<number>;
  /** What Postgres knows of the user's hours. */
  readHours(userId: string): Promise<QuotaHour[]>;
}

export function createFills({ ledger, lookups, hours, limitOf }: FillParts): Fills {
  const running = new Map<string, Promise<KeyRecord | null>>();

  async function readAndFill(keyHash: string, { userId, keyId }: KeyOwner): Promise<KeyRecord | null> {
    const token = await ledger.begin(userId);
    const [record, known] = await Promise.all([lookups.find(keyHash), readHours(userId)]);
    if (record === null) return null;
    const key = { hash: keyHash, keyId };
    // Refused: something changed in between, and the request that needs it asks again.
    const isFilled = await ledger.fill(userId, token, { key, hourlyLimit: record.hourlyLimit, hours: known });
    if (isFilled) await ledger.rememberOwner(keyHash, { userId, keyId });
    return record;
  }

  async function readHours(userId: string): Promise<QuotaHour[]> {
    return await guarded(hours.read(userId));
  }

  return {
    key(keyHash, owner) {
      const known = running.get(keyHash);
      if (known !== undefined) return known;
      const filling = readAndFill(keyHash, owner).finally(() => running.delete(keyHash));
      running.set(keyHash, filling);
      return filling;
    },
    async user(userId, hourlyLimit) {
      const token = await ledger.begin(userId);
      const [limit, known] = await Promise.all([guarded(limitOf(userId)), readHours(userId)]);
      await ledger.fill(userId, token, { key: null, hourlyLimit: limit ?? hourlyLimit, hours: known });
      return limit ?? hourlyLimit;
    },
    readHours,
  };
}
