// The cores that this process may use: those of the machine, or what a container is given of them.
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';

const CGROUPS = '/sys/fs/cgroup';

/** Newer versions of Node count so by themselves, Node 20 counts the cores of the machine. */
export function availableCores(): number {
  return coresWithin(availableParallelism(), processorQuota(readText));
}

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
