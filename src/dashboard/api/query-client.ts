// The cache of what the service has answered, and when it is asked again.
import { QueryCache, QueryClient } from '@tanstack/react-query';
import { Problem } from './problem.ts';

const RETRIES = 2;
/** What said that it can't answer now is asked again, where nobody says when. */
const AGAIN_SECONDS = 5;
const OPERATORS_ONLY = 'Operators only';

/** No answer, or one that says that a later one may be another. */
function isPassing(error: unknown): boolean {
  return error instanceof Problem && (error.status === 0 || error.status === 503);
}

/** Who is no operator any more finds no pages of operators, as soon as one of them asks. */
function askWhoItIs(error: unknown): void {
  if (error instanceof Problem && error.message === OPERATORS_ONLY)
    void queries.invalidateQueries({ queryKey: ['me'] });
}

export const queries = new QueryClient({
  queryCache: new QueryCache({ onError: askWhoItIs }),
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // Asked also where the browser says that it is offline: it doesn't know of servers on the same machine.
      networkMode: 'always',
      refetchInterval: ({ state: { error } }) =>
        error instanceof Problem && [429, 503].includes(error.status)
          ? 1_000 * (error.retryAfterSeconds ?? AGAIN_SECONDS)
          : false,
      retry: (count, error) => count < RETRIES && isPassing(error),
    },
    mutations: { networkMode: 'always' },
  },
});
