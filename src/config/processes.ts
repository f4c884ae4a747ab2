// PROCESSES=auto: how many server processes a machine is divided into. The rule is pure: what the machine has comes in.

const GIB = 1024 ** 3;

/**
 * Scan threads that one serving thread feeds with files as they are, 268,791 signatures and gates that have learned. Contents of 1 KB keep
 * one or two busy, large ones more (docs/benchmarks.md, "How many scan threads can one serving thread feed?").
 */
export const THREADS_OF_A_PROCESS = 4;

/** 1.2 GiB of a production database, as much again while newer signatures load, and 0.6 for contents and for Node. */
export const BYTES_OF_A_PROCESS = 3 * GIB;

/** As PROCESSES may be set. */
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
  /** What the number comes from. */
  readonly because: 'cores' | 'memory' | 'SCAN_THREADS' | 'REDIS_URL is not set';
}

/** As many processes as serving threads are needed for the cores, but no more than there is memory for. At least one. */
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
