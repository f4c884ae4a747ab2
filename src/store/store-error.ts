// What goes wrong with a store: for the operator, never for a client, and never with a secret in it; and the one rule of what "the store is
// down" means for a request: a 503 with Retry-After, after five seconds at most.
import { codeOf } from '../error-text.js';
import { Failure, Unavailable } from '../errors.js';
import { within } from '../waiting/within.js';

export class StoreError extends Error {
  override readonly name = 'StoreError';

  /** Of what it tells of. */
  get code(): string | null {
    return codeOf(this.cause);
  }
}

/** Another process has the data directory. */
export class StoreInUse extends StoreError {}

/** The store can't be reached now. The caller asks another store, or answers with a 503. */
export class StoreAway extends Error {
  constructor(cause: unknown) {
    super('The store is not reachable', { cause });
    this.name = 'StoreAway';
  }
}

/** For work that may be left undone while the store is away. */
export function ignoreIfAway(error: unknown): void {
  if (!(error instanceof StoreAway)) throw error;
}

/** A Postgres that takes longer than this for one question is down for us. */
export const STORE_ANSWER_MS = 5_000;

/** Postgres' own codes have a digit, which EPIPE and CONNECTION_CLOSED have not. */
const SQL_STATE = /^(?=.*\d)[0-9A-Z]{5}$/;
/**
 * Of them: the connection (08), who may connect (28, 3D000), a standby (25006), a transaction that others ended (40), resources (53),
 * a lock (55P03), the operator (57), the system (58), a statement that a pooler has lost (26000, 42P05).
 */
const SQL_STATE_DOWN = /^(08|26000|28|3D000|25006|25P03|40|42P05|53|55P03|57|58)/;
/** The driver's words for a query that was put together wrongly: that is a bug of ours. */
const BUGS = new Set(['UNDEFINED_VALUE', 'NOT_TAGGED_CALL', 'MAX_PARAMETERS_EXCEEDED', 'INVALID_TRANSFORM']);

/** Throws Failure('unavailable') when the store is down or slow; a failure of the work itself passes. */
export async function guarded<T>(work: Promise<T>, timeoutMs = STORE_ANSWER_MS): Promise<T> {
  try {
    return await within(work, timeoutMs);
  } catch (error) {
    throw asFailure(error);
  }
}

/** What a client gets for it: Failure('unavailable') when the store is down, otherwise the error itself. */
export function asFailure(error: unknown): unknown {
  if (!isStoreDown(error)) return error;
  return new Unavailable('storeDown', { cause: error });
}

/** Whether the store, and neither the question nor our code, is the reason. */
export function isStoreDown(error: unknown): boolean {
  if (error instanceof Failure || error instanceof TypeError || error instanceof RangeError) return false;
  const code = codeOf(error);
  if (code === null || BUGS.has(code)) return false;
  return SQL_STATE.test(code) ? SQL_STATE_DOWN.test(code) : true;
}
