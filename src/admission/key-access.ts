// Whose key a request has that takes no unit: asked of Postgres each time, so that a key that has ended is refused at once, within a rate for each account.
import { Failure } from '../errors.js';
import type { AuthenticateKey } from '../http/key-caller.js';
import { READS_PER_SECOND } from '../limits.js';
import { createRate } from '../waiting/rate.js';
import { liveKey } from './access.js';
import { REMEMBERED_MAX } from './admission.js';
import type { Lookups } from './lookups.js';

/** `clock`: milliseconds that only grow. */
export function createKeyAccess(find: Lookups['find'], clock: () => number): AuthenticateKey {
  const rate = createRate(
    { burst: READS_PER_SECOND, everyMs: 1000 / READS_PER_SECOND, subjectsMax: REMEMBERED_MAX },
    clock,
  );
  return async ({ headers }) => {
    const key = await liveKey(headers.get('x-api-key'), find, 'read');
    const waitSeconds = rate.take(key.userId);
    if (waitSeconds > 0) throw new Failure('tooManyRequests', String(READS_PER_SECOND), waitSeconds);
    return key;
  };
}
