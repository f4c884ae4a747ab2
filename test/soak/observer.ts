// What the processes of a service hold, seen from outside (proc(5)): private memory, open descriptors, threads.
import { readdirSync, readFileSync } from 'node:fs';
import { childrenOf, programOf } from '../fixtures/processes.js';

export interface Held {
  /** Bytes that no other process has: what its end would give back. */
  readonly privateBytes: number;
  readonly descriptors: number;
  readonly threads: number;
}

/** By what the process is for; several of one kind are added up. */
export type Holdings = Readonly<Record<'supervisor' | 'server' | 'database', Held>>;

const NOTHING: Held = { privateBytes: 0, descriptors: 0, threads: 0 };

export function holdingsOf(supervisorPid: number): Holdings {
  const all = { supervisor: heldBy(supervisorPid), server: NOTHING, database: NOTHING };
  for (const pid of childrenOf(supervisorPid)) {
    const isDatabase = programOf(pid).endsWith('/postgres');
    const family = isDatabase ? [pid, ...childrenOf(pid)] : [pid];
    for (const each of family) {
      const kind = isDatabase ? 'database' : 'server';
      all[kind] = sum(all[kind], heldBy(each));
    }
  }
  return all;
}

function sum(one: Held, other: Held): Held {
  return {
    privateBytes: one.privateBytes + other.privateBytes,
    descriptors: one.descriptors + other.descriptors,
    threads: one.threads + other.threads,
  };
}

/** Nothing, where the process has ended meanwhile. */
function heldBy(pid: number): Held {
  try {
    const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1');
    const kilobytes = [...rollup.matchAll(/^Private_(?:Clean|Dirty):\s+(\d+) kB$/gm)];
    return {
      privateBytes: kilobytes.reduce((total, [, each]) => total + Number(each), 0) * 1024,
      descriptors: readdirSync(`/proc/${pid}/fd`).length,
      threads: readdirSync(`/proc/${pid}/task`).length,
    };
  } catch {
    return NOTHING;
  }
}
