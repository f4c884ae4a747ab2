// What an error says, for the log and for operators: anything can be thrown.

/** The `code` of a system error (`EACCES`) or of Postgres (`23505`); null: it has none. */
export function codeOf(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null;
}

export function messageOfError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // Node gives a failure to reach several addresses of one host an empty message and the reasons in a list.
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOfError).join(', ');
  return error.message;
}
