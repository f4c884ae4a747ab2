// How many downloads run at a time: a share for each user, and a bound on all of them, which are sockets and file descriptors.
import { Unavailable } from '../errors.js';

export interface DownloadSlots {
  /** Takes a slot and returns what gives it back. Throws Failure `unavailable`. */
  take(userId: string): () => void;
  readonly taken: number;
}

export interface SlotLimits {
  readonly perUser: number;
  readonly total: number;
}

export function createDownloadSlots({ perUser, total }: SlotLimits): DownloadSlots {
  const byUser = new Map<string, number>();
  let taken = 0;
  return {
    take(userId) {
      const own = byUser.get(userId) ?? 0;
      if (own >= perUser) throw new Unavailable('downloadShareTaken');
      if (taken >= total) throw new Unavailable('downloadSlotsTaken');
      byUser.set(userId, own + 1);
      taken += 1;
      let returned = false;
      return () => {
        if (returned) return;
        returned = true;
        taken -= 1;
        const left = (byUser.get(userId) ?? 1) - 1;
        if (left === 0) byUser.delete(userId);
        else byUser.set(userId, left);
      };
    },
    get taken() {
      return taken;
    },
  };
}
