// What the machine, or a container on it, gives the service: cores, memory, and with PROCESSES=auto how many server processes it is divided into.
import { readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { dirname, join } from 'node:path';

const CGROUPS = '/sys/fs/cgroup';

/** Newer versions of Node count so by themselves, Node 20 counts the cores of the machine. */
export const availableCores = (): number => coresWithin(availableParallelism(), processorQuota(readText));

/** Whole ones, since a thread for a part of one would wait for it; at least one. */
export function coresWithin(cores: number, quota: number | null): number {
  return quota === null ? cores : Math.max(1, Math.min(cores, Math.floor(quota)));
}

/**
 * The least that a control group of this process, or one above it, allows, in cores; null: none has a limit, or they are not of version 2.
 * https://docs.kernel.org/admin-guide/cgroup-v2.html, cpu.max: "QUOTA PERIOD" in microseconds, or "max PERIOD".
 */
export function processorQuota(read: (path: string) => string | null): number | null {
  const own = /^0::(\/.*)$/m.exec(read('/proc/self/cgroup') ?? '')?.[1];
  if (own === undefined) return null;
  const quotas: number[] = [];
  for (let path = own; ; path = dirname(path)) {
    const [, quota, period] = /^(\d+) (\d+)\s*$/.exec(read(join(CGROUPS, path, 'cpu.max')) ?? '') ?? [];
    if (quota !== undefined && period !== undefined) quotas.push(Number(quota) / Number(period));
    if (path === dirname(path)) break;
  }
  return quotas.length === 0 ? null : Math.min(...quotas);
}

/** Null: there is no such file, or it is not for us. */
function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

const GIB = 1024 ** 3;

/**
 * Scan threads that one serving thread feeds with files as they are, 268,791 signatures and gates that have learned. Contents of 1 KB keep
 * one or two busy, large ones more (docs/benchmarks.md, "How many scan threads can one serving thread feed?").
 */
export const THREADS_OF_A_PROCESS = 4;

/** 1.2 GiB of a production database, as much again while newer signatures load, and 0.6 for contents and for Node. */
export const BYTES_OF_A_PROCESS = 3 * GIB;

/** Of the machine's memory, or the container's, for all server processes together; the rest is for the stores and the kernel. */
const MEMORY_SHARE = 0.8;

/** In bytes. */
export function memoryOfServers(): number {
  // What the cgroup allows, 0 where there is no limit (Node takes it from memory.max).
  const allowed = process.constrainedMemory();
  const available = allowed > 0 && allowed < totalmem() ? allowed : totalmem();
  return available * MEMORY_SHARE;
}

const PROCESSES_MAX = 64;

export interface Machine {
  readonly cores: number;
  /** For all server processes together. */
  readonly memoryBytes: number;
  /** Several processes count in it; without it each would give the whole quota. */
  readonly hasRedis: boolean;
  /** What one process may take; null: not known, as much as production needs. */
  readonly processBytes: number | null;
  /** Scan threads of one process; null: the cores are divided among the processes. */
  readonly scanThreads: number | null;
}

export interface ProcessChoice {
  readonly processes: number;
  readonly because: 'cores' | 'memory' | 'SCAN_THREADS' | 'REDIS_URL is not set';
}

/** PROCESSES=auto: as many processes as serving threads are needed for the cores, but no more than there is memory for. At least one. The rule is pure: what the machine has comes in. */
export function chooseProcesses(machine: Machine): ProcessChoice {
  const { cores, memoryBytes, hasRedis, processBytes, scanThreads } = machine;
  const wanted = Math.ceil(cores / THREADS_OF_A_PROCESS);
  if (wanted > 1 && !hasRedis) return { processes: 1, because: 'REDIS_URL is not set' };
  const byMemory = Math.floor(memoryBytes / (processBytes ?? BYTES_OF_A_PROCESS));
  // More threads than cores would only take turns.
  const byThreads = scanThreads === null ? wanted : Math.floor(cores / scanThreads);
  const processes = Math.max(1, Math.min(wanted, byMemory, byThreads, PROCESSES_MAX));
  if (processes >= Math.min(wanted, PROCESSES_MAX)) return { processes, because: 'cores' };
  return { processes, because: byMemory <= byThreads ? 'memory' : 'SCAN_THREADS' };
}
