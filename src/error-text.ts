// What an error says, for the log and for operators: anything can be thrown.

/** The `code` of a system error (`EACCES`) or of Postgres (`23505`); null: it has none. */
export function codeOf(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null;
}

/** As spawn, a worker and the addon say it. The kernel has one word for all its bounds on tasks. */
const NO_TASK = /^(EAGAIN|Resource temporarily unavailable)$|^spawn .* EAGAIN$/;

export const MORE_TASKS =
  'no further thread or process may be started. Raise what bounds them: TasksMax= of the unit, pids.max of the container, or ulimit -u';

/** The kernel starts no further thread or process for us. */
export function lacksTasks(error: unknown): boolean {
  return error instanceof Error && NO_TASK.test(error.message);
}

export function messageOfError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // Node gives a failure to reach several addresses of one host an empty message and the reasons in a list.
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOfError).join(', ');
  if (!lacksTasks(error)) return error.message;
  return `${error.message}: ${MORE_TASKS}`;
}
