// When keys were used last, as this process knows: a list shows it at once, though it comes to Postgres with the scan's row, a moment later.

import { recentTable } from '../recent-table.js';

export interface KeyUse {
  used(keyId: string, atMs: number): void;
  /** Null: nothing is known here. */
  recent(keyId: string): Date | null;
}

/** Keys that are remembered, some 200 bytes each; the one that was used longest ago makes room: Postgres knows it since. */
export const RECENT_KEYS = 10_000;

export function createKeyUse(): KeyUse {
  const lastMs = recentTable<number>(RECENT_KEYS);
  return {
    used(keyId, atMs) {
      lastMs.set(keyId, Math.max(atMs, lastMs.peek(keyId) ?? atMs));
    },
    recent(keyId) {
      const atMs = lastMs.peek(keyId);
      return atMs === undefined ? null : new Date(atMs);
    },
  };
}
