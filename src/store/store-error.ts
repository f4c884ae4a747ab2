// Why a store can't be opened or reached: for the operator, never for a client, and never with a secret in it.

export class StoreError extends Error {
  constructor(message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = 'StoreError';
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

/** The `code` of a system error (`EACCES`) or of Postgres (`23505`), also of one that a StoreError tells of. */
export function codeOf(error: unknown): string | null {
  if (error instanceof StoreError) return codeOf(error.cause);
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null;
}
