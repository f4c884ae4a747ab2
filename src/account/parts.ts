// What the rooms of an account have of each other: what each of them takes is named where it is used.
import type { Plans } from '../config/plans.js';
import type { Exchange } from '../http/exchange.js';
import type { SqlOf } from '../store/postgres.js';
import type { KeyNodes } from './keys.js';
import type { Strangers, Throttle } from './throttle.js';
import type { Tokens } from './tokens.js';
import type { VerifyCurrent } from './users.js';

export interface AccountParts {
  readonly sqlOf: SqlOf;
  readonly strangers: Strangers;
  readonly throttle: Throttle;
  readonly tokens: Tokens;
  readonly verifyCurrent: VerifyCurrent;
  readonly plans: Plans;
  readonly baseUrl: string | null;
  readonly admission: KeyNodes;
  /** Deletes the account of its owner, with all that it has. Throws Failure `conflict` where it can't go. */
  readonly deleteAccount: DeleteOwn;
  /** Resolves when the database has what was recorded of the user's scans, the use of keys among it, or after a moment. */
  readonly settled: (userId: string) => Promise<void>;
  /** Where a request comes from, behind proxies that are trusted. */
  readonly addressOf: (exchange: Exchange) => string;
  readonly now: () => number;
}

export type DeleteOwn = (owner: {
  readonly userId: string;
  readonly email: string;
  readonly address: string;
}) => Promise<void>;
