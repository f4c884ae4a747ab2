// What an error says, for the log and for operators: anything can be thrown.

/** The `code` of a system error (`EACCES`) or of Postgres (`23505`); null: it has none. */
export function codeOf(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null;
}

/** As spawn, a worker and the addon say it. The kernel has one word for all its bounds on tasks. */
const NO_TASK = /^(EAGAIN|Resource temporarily unavailable)$|^spawn .* EAGAIN$/;

export const MORE_TASKS =
  'no further thread or process may be started. Raise what bounds them: TasksMax= of the unit, pids.max of the container, or ulimit -u';

/** As Postgres says that it takes no further connection (PostgreSQL 18, Appendix A): of a role, of a database, or of all. */
const TOO_MANY_CONNECTIONS = '53300';

const MORE_CONNECTIONS =
  "a server process takes up to ten, one that is replaced ten more for that time. Raise what bounds them: CONNECTION LIMIT of the role (ALTER ROLE) or of the database (ALTER DATABASE), max_connections, or PgBouncer's max_client_conn";

/** Postgres takes no further connection. */
export function isOneTooMany(error: unknown): boolean {
  if (!(error instanceof Error) || error.name !== 'PostgresError') return false;
  // PgBouncer has the code of a violated protocol for it.
  return codeOf(error) === TOO_MANY_CONNECTIONS || error.message.startsWith('no more connections allowed');
}

/** The kernel starts no further thread or process for us. */
export function lacksTasks(error: unknown): boolean {
  return error instanceof Error && NO_TASK.test(error.message);
}

export function messageOfError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // Node gives a failure to reach several addresses of one host an empty message and the reasons in a list.
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOfError).join(', ');
  const todo = todoOf(error);
  return todo === null ? error.message : `${error.message}: ${todo}`;
}

/** What an operator does against it, where the error itself doesn't say; null: nothing is known. */
export function todoOf(error: unknown): string | null {
  if (lacksTasks(error)) return MORE_TASKS;
  return isOneTooMany(error) ? MORE_CONNECTIONS : null;
}
