// What the processes of a service hold, seen from outside (proc(5)): private memory, open descriptors, threads, temporary files.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
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

/** Where engines unpack: in memory, where the machine has room for it. */
const MEMORY_DIRECTORY = '/dev/shm';
const ENGINE_FOLDER = /^sluice-engine-(\d+)-/;

/** Files that scans have made and not removed yet, by all processes of the service. */
export interface TemporaryFiles {
  /** How many there are now. */
  count(): number;
  /** When the service has ended: what is still there. */
  left(): string[];
}

/** `own`: the service's folder for temporary files, which nobody else uses. */
export function temporaryFiles(supervisorPid: number, own: string): TemporaryFiles {
  const servers = new Set<number>();
  const inMemory = (): string[] => readdirSync(MEMORY_DIRECTORY).filter((name) => servers.has(ownerOf(name)));
  return {
    count() {
      for (const pid of childrenOf(supervisorPid)) servers.add(pid);
      const folders = [own, ...inMemory().map((name) => join(MEMORY_DIRECTORY, name))];
      return folders.reduce((count, folder) => count + namesIn(folder).length, 0);
    },
    left: () => [...inMemory(), ...namesIn(own)],
  };
}

function ownerOf(name: string): number {
  return Number(ENGINE_FOLDER.exec(name)?.[1]);
}

/** Nothing, where the process has removed its folder meanwhile. */
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
