// Whose key a request has that takes no unit: asked of Postgres each time, so that a key that has ended is refused at once, within a rate for each account.
import { Failure } from '../errors.js';
import type { AuthenticateKey } from '../http/key-caller.js';
import { READS_PER_SECOND } from '../limits.js';
import { liveKey } from './access.js';
import type { Lookups } from './lookups.js';
import type { ReadRate } from './read-rate.js';

export function createKeyAccess(find: Lookups['find'], rate: ReadRate): AuthenticateKey {
  return async ({ headers }) => {
    const key = await liveKey(headers.get('x-api-key'), find, 'read');
    const waitSeconds = await rate(key.userId);
    if (waitSeconds > 0) throw new Failure('tooManyRequests', String(READS_PER_SECOND), waitSeconds);
    return key;
  };
}
