// Why a store can't be opened: for the operator at the start, never for a client, and never with a secret in it.

export class StoreError extends Error {
  constructor(message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = 'StoreError';
  }
}

/** Another process has the data directory. */
export class StoreInUse extends StoreError {}

export function messageOfError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // Node gives a failure to reach several addresses of one host an empty message and the reasons in a list.
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOfError).join(', ');
  return error.message;
}

/** The `code` of a system error (`EACCES`) or of Postgres (`23505`), also of one that a StoreError tells of. */
export function codeOf(error: unknown): string | null {
  if (error instanceof StoreError) return codeOf(error.cause);
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null;
}
