// When keys were used last, as this process knows: a list shows it at once, though it comes to Postgres with the scan's row, a moment later.

export interface KeyUse {
  used(keyId: string, atMs: number): void;
  /** Null: nothing is known here. */
  recent(keyId: string): Date | null;
}

/** Keys that are remembered, some 200 bytes each; the one that was used longest ago makes room: Postgres knows it since. */
export const RECENT_KEYS = 10_000;

export function createKeyUse(): KeyUse {
  const lastMs = new Map<string, number>();
  return {
    used(keyId, atMs) {
      const latestMs = Math.max(atMs, lastMs.get(keyId) ?? atMs);
      lastMs.delete(keyId);
      lastMs.set(keyId, latestMs);
      if (lastMs.size <= RECENT_KEYS) return;
      for (const first of lastMs.keys()) {
        lastMs.delete(first);
        break;
      }
    },
    recent(keyId) {
      const atMs = lastMs.get(keyId);
      return atMs === undefined ? null : new Date(atMs);
    },
  };
}
