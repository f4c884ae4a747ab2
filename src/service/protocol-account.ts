// The account that the scans of a protocol without keys are of: found by its e-mail address, asked for a unit for each scan, and refused what its part of the queue has no room for.
import { createNamedAccount } from '../account/named-account.js';
import type { AccessControl } from '../admission/access.js';
import type { ScanPool } from '../engine/threads/pool.js';
import { Failure, Unavailable, type UnavailableReason } from '../errors.js';
import type { StreamAccount } from '../scan/stream-scan.js';
import type { Queries } from '../store/postgres.js';

export interface ProtocolParts {
  readonly access: Pick<AccessControl, 'asUser' | 'refuse'>;
  readonly pool: Pick<ScanPool, 'queue' | 'refusal'>;
  /** A scan was refused before its admission. */
  readonly onRefused: (reason: UnavailableReason) => void;
  /** Why, while there is no such account. */
  readonly missing: 'clamdAccountMissing' | 'icapAccountMissing';
}

export function openProtocolAccount(sql: Queries, email: string, parts: ProtocolParts): StreamAccount {
  const { access, pool, onRefused, missing } = parts;
  const account = createNamedAccount(sql, email);
  return {
    async admit() {
      const user = await account.find();
      // It may be made later, and removed at any time.
      if (user === null) throw new Unavailable(missing);
      if (user.suspended_at !== null) throw new Failure('accountSuspended');
      return await access.asUser({ userId: user.id, plan: user.plan, ownLimit: user.own_limit });
    },
    refusal(bytesMost) {
      const user = pool.queue.isCrowded ? account.known() : null;
      const reason = user === null ? null : pool.refusal(user.id, bytesMost);
      if (user === null || reason !== 'queueShareFull') return null;
      access.refuse(user.id);
      onRefused(reason);
      return new Unavailable(reason);
    },
  };
}
