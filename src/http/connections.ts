// The connections of one server: how many there may be, what an address may have of them, and which end when others need room.
import { performance } from 'node:perf_hooks';
import type { KernelConnection } from './listener.js';

export interface ConnectionLimits {
  readonly limit: number;
  /** Of one address; null: as many as there are. */
  readonly perAddress: number | null;
  /** What counts as one address. */
  readonly groupOf: (address: string) => string;
}

/** What only the kernel can say and do. */
export interface Kernel {
  list(): readonly KernelConnection[];
  hangUp(descriptor: number): void;
}

export interface Connections {
  count(): number;
  isFull(): boolean;
  /** Counts one more; false: it is to be closed at once. */
  opened(addressOf: () => string): boolean;
  closed(): void;
  /** Ends up to so many that have no request, those first that have had none for longest. */
  makeRoom(wanted: number): void;
}

/** A client may take so long from its connection to its request before it is idle: more than the way around the world. */
const IDLE_MS = 300;
/** Between two looks at all connections, each of which costs microseconds for every one. */
const LOOK_MS = 200;
/** Of an address that goes on where it has about its share: so much of it is free after a look, for those that come until the next one. */
const SHARE_FREED = 1 / 4;

/** `kernel` null: nothing can be said of connections but how many there are, and what is beyond the limit is closed. */
export function createConnections(
  { limit, perAddress, groupOf }: ConnectionLimits,
  kernel: Kernel | null,
): Connections {
  let count = 0;
  let lookedMs = Number.NEGATIVE_INFINITY;
  /** By address, since the last look: too high by those that have ended. Null: nobody can have more than a share. */
  let counts: Map<string, number> | null = null;

  function look(): { readonly connections: readonly KernelConnection[]; readonly groups: ReadonlyMap<string, string> } {
    lookedMs = performance.now();
    const connections = kernel?.list() ?? [];
    const groups = new Map<string, string>();
    counts = new Map();
    for (const { address } of connections) {
      const group = groups.get(address) ?? groupOf(address);
      groups.set(address, group);
      counts.set(group, (counts.get(group) ?? 0) + 1);
    }
    return { connections, groups };
  }

  /** Returns how many. */
  function end(connections: readonly KernelConnection[], wanted: number): number {
    const idle = connections.filter(({ idleMs }) => idleMs >= IDLE_MS).sort((one, other) => other.idleMs - one.idleMs);
    const ended = idle.slice(0, wanted);
    for (const { descriptor } of ended) kernel?.hangUp(descriptor);
    return ended.length;
  }

  /** Whether one more of this address may stay; `share` is what it may have. */
  function isWithin(share: number, group: string): boolean {
    if (counts !== null) {
      counts.set(group, countOf(group) + 1);
      if (countOf(group) <= share) return true;
    }
    if (counts === null || performance.now() - lookedMs >= LOOK_MS) {
      // The new one is among those that the kernel knows.
      const { connections, groups } = look();
      const wanted = Math.max(1, Math.ceil(share * SHARE_FREED)) - (share + 1 - countOf(group));
      const own = connections.filter(({ address }) => groups.get(address) === group);
      const freed = end(own, Math.max(0, wanted));
      counts?.set(group, countOf(group) - freed);
      if (freed > 0 || countOf(group) <= share) return true;
    }
    counts?.set(group, countOf(group) - 1);
    return false;
  }

  function countOf(group: string): number {
    return counts?.get(group) ?? 0;
  }

  return {
    count: () => count,
    isFull: () => count >= limit,
    opened(addressOf) {
      count += 1;
      if (kernel === null) return count <= limit;
      if (perAddress !== null && count > perAddress) return isWithin(perAddress, groupOf(addressOf()));
      counts = null;
      return true;
    },
    closed() {
      count -= 1;
    },
    makeRoom(wanted) {
      if (performance.now() - lookedMs < LOOK_MS) return;
      end(look().connections, wanted);
    },
  };
}
