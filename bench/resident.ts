// Memory of a process and everything below it, each with its share of what several have (proc(5), smaps_rollup).
import { readFileSync } from 'node:fs';
import { descendants } from './cpu.js';

const KIB = 1024;

export interface Resident {
  readonly name: string;
  readonly mib: number;
}

export function residentOf(root: number): readonly Resident[] {
  return descendants(root).map((pid) => {
    const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
    const name = readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
    return { name, mib: Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1] ?? 0) / KIB };
  });
}

export function sumOf(processes: readonly Resident[]): number {
  return processes.reduce((sum, { mib }) => sum + mib, 0);
}

/** Those that are worth a name, in their order. */
export function listOf(processes: readonly Resident[]): string {
  const large = processes.filter(({ mib }) => mib >= 1);
  return large.map(({ name, mib }) => `${name} ${mib.toFixed(0)}`).join(', ');
}
