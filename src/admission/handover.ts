// The counts of a process without Redis, handed from one server process to the next: while both live Postgres counts for
// both, which is slower and exact; before and after that the ledger in the one process does.

import { StoreAway } from '../store/store-error.js';
import type { Ledger } from './ledger.js';
import { type QuotaHours, seenIn } from './quota-hours.js';

export interface Handover {
  readonly ledger: Ledger;
  readonly hours: QuotaHours;
  /** From now on Postgres counts. What was counted here is to be mirrored to it next. */
  leave(): void;
  /** The mirror has written everything. */
  left(): void;
  /** Nobody else counts any more: from now on a ledger does, filled from Postgres. */
  arrive(): void;
}

/** `isAway`: another process counts still. */
export function createHandover(createLedger: () => Ledger, hours: QuotaHours, isAway: boolean): Handover {
  let ledger = createLedger();
  let state: 'here' | 'leaving' | 'away' = isAway ? 'away' : 'here';

  function here(): Ledger {
    if (state !== 'here') throw away();
    return ledger;
  }

  return {
    ledger: {
      take: (userId, keyHash) => (state === 'here' ? ledger.take(userId, keyHash) : Promise.reject(away())),
      look: async (userId) => await here().look(userId),
      async giveBack(userId, windowStartSeconds, keyId) {
        const left = await ledger.giveBack(userId, windowStartSeconds, keyId);
        // Postgres counts: it has to have it before the answer.
        if (state !== 'here' && left !== null) await hours.mirror(seenIn(userId, keyId, left));
        return left;
      },
      begin: async (userId) => await here().begin(userId),
      fill: async (userId, token, facts) => await here().fill(userId, token, facts),
      // While every request asks Postgres, nothing has to be passed on: Postgres has the change already.
      async revoke(userId, keyHash) {
        if (state === 'here') await ledger.revoke(userId, keyHash);
      },
      async setLimit(userId, hourlyLimit) {
        if (state === 'here') await ledger.setLimit(userId, hourlyLimit);
      },
      async setKey(userId, key) {
        if (state === 'here') await ledger.setKey(userId, key);
      },
      async raise(raised) {
        if (state === 'here') await ledger.raise(raised);
      },
      ownerOf: async (keyHash) => await ledger.ownerOf(keyHash),
      rememberOwner: async (keyHash, owner) => await ledger.rememberOwner(keyHash, owner),
    },
    hours: {
      ...hours,
      async take(userId, hourlyLimit, seen, keyId) {
        const count = await hours.take(userId, hourlyLimit, seen, keyId);
        // The ledger came back while Postgres counted.
        if (state === 'here') await ledger.raise([count]);
        return count;
      },
    },
    leave() {
      state = 'leaving';
    },
    left() {
      if (state === 'leaving') state = 'away';
    },
    arrive() {
      if (state === 'here') return;
      ledger = createLedger();
      state = 'here';
    },
  };
}

function away(): StoreAway {
  return new StoreAway(new Error('Another process takes over'));
}
