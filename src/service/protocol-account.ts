// The account that the scans of a protocol without keys are of: found by its e-mail address, and asked for a unit for each scan.
import { createNamedAccount } from '../account/named-account.js';
import type { Access, AccessControl } from '../admission/access.js';
import { Failure, Unavailable } from '../errors.js';
import type { Queries } from '../store/postgres.js';

/** Returns what takes a unit of it; that throws a Failure. `missing`: why, while there is no such account. */
export function admitFor(
  sql: Queries,
  email: string,
  access: AccessControl,
  missing: 'clamdAccountMissing' | 'icapAccountMissing',
): () => Promise<Access> {
  const account = createNamedAccount(sql, email);
  return async () => {
    const user = await account.find();
    // It may be made later, and removed at any time.
    if (user === null) throw new Unavailable(missing);
    if (user.suspended_at !== null) throw new Failure('accountSuspended');
    return await access.asUser({ userId: user.id, plan: user.plan, ownLimit: user.own_limit });
  };
}
