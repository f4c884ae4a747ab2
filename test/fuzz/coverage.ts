// How much of our own code has been reached: counters that a hook of the loader (hooks.ts) puts into each module.
import { register } from 'node:module';

/** The global that has the counters, by file. */
export const COUNTERS = 'sluiceFuzzCounters';

interface FileCounters {
  /** Statements. */
  readonly s: Readonly<Record<string, number>>;
  /** Branches. */
  readonly b: Readonly<Record<string, readonly number[]>>;
}

/** To be called before the modules are imported. */
export function countModules(): void {
  register('./hooks.js', import.meta.url);
}

/** Statements and branches that were reached so far. */
export function reached(): number {
  const files: Readonly<Record<string, FileCounters>> = Reflect.get(globalThis, COUNTERS) ?? {};
  let count = 0;
  for (const { s, b } of Object.values(files)) {
    for (const id in s) if (s[id] !== 0) count += 1;
    for (const id in b) for (const each of b[id] ?? []) if (each !== 0) count += 1;
  }
  return count;
}
