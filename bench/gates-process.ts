// Process entry: one engine, with gates or without. Says what it took to load, then how long it scans each file of its orders.
import { readFileSync } from 'node:fs';
import { defaultEngineLimits, prepareEngine, scanBuffer } from '../src/engine/clamav/addon.js';
import { prepareGates } from '../src/engine/clamav/gates/prepare.js';

export interface Order {
  readonly database: string;
  readonly temporaryDirectory: string;
  /** Where the files of gates are kept; null: no gates. */
  readonly store: string | null;
}

export interface Loaded {
  readonly memoryKib: number;
  readonly processorMs: number;
}

/** One scan of each file. */
export type Scanned = readonly { readonly processorMs: number; readonly matches: boolean }[];

/** CL_VIRUS of clamav.h. */
const VIRUS = 1;

const order: Order = JSON.parse(process.argv[2] ?? '{}');
const { database, temporaryDirectory, store } = order;
process.on('disconnect', () => process.exit());

const made = store === null ? null : (await prepareGates([database], store)).options;
const memoryBefore = memoryKib();
const before = process.cpuUsage();
const limits = { ...defaultEngineLimits, maxScanTimeMs: 600_000 };
// Plain is libclamav as it is by default.
const singlePass = made !== null;
const prepared = await prepareEngine({ directories: [database], temporaryDirectory, limits, singlePass, ...made });
prepared.serve();
const loaded: Loaded = { processorMs: processorMsSince(before), memoryKib: memoryKib() - memoryBefore };
process.on('message', (paths: string[]) => {
  const scanned: Scanned = paths.map((path) => {
    const content = readFileSync(path);
    const begun = process.cpuUsage();
    const { code } = scanBuffer(content);
    return { processorMs: processorMsSince(begun), matches: code === VIRUS };
  });
  process.send?.(scanned);
});
process.send?.(loaded);

function processorMsSince(begun: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(begun);
  return (user + system) / 1_000;
}

/** Proportional set size: what this process alone has, and its part of what it shares. */
function memoryKib(): number {
  return Number(/^Pss:\s+(\d+)/m.exec(readFileSync('/proc/self/smaps_rollup', 'utf8'))?.[1]);
}
