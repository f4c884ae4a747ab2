// A preload (node --import FILE?counts=...&folder=...) of `npm run bench:count`: the server process says over a socket what it has counted.
import { register } from 'node:module';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { GCProfiler, type GCProfilerResult } from 'node:v8';
import { isMainThread } from 'node:worker_threads';
import type { Counts } from './counts.js';

const { searchParams } = new URL(import.meta.url);
const folder = searchParams.get('folder') ?? '.';

interface OfModule {
  readonly names: readonly string[];
  readonly own: Uint32Array;
}

const modules = new Map<string, OfModule>();
const made = { count: 0 };

/** What the modules with counters ask for. */
Object.assign(globalThis, {
  sluiceCounting: {
    of(name: string, names: readonly string[]) {
      const own = new Uint32Array(names.length);
      modules.set(name, { names, own });
      return { own, made };
    },
  },
});

if (searchParams.get('counts') === 'yes') register('./hooks.js', import.meta.url);

let profiler: GCProfiler | null = null;
let usedBytes = 0;

function begin(): void {
  for (const { own } of modules.values()) own.fill(0);
  made.count = 0;
  profiler = new GCProfiler();
  profiler.start();
  usedBytes = process.memoryUsage().heapUsed;
}

/** What was allocated: what each collection found beyond what the one before it had left. */
function heapBytes(): Pick<Counts, 'allocatedBytes' | 'promotedBytes'> {
  let left = usedBytes;
  let bytes = 0;
  let promotedBytes = 0;
  for (const { gcType, beforeGC, afterGC } of profiler?.stop().statistics ?? []) {
    bytes += beforeGC.heapStatistics.usedHeapSize - left;
    left = afterGC.heapStatistics.usedHeapSize;
    if (gcType === 'Scavenge') promotedBytes += oldBytes(afterGC) - oldBytes(beforeGC);
  }
  return { allocatedBytes: bytes + process.memoryUsage().heapUsed - left, promotedBytes };
}

function oldBytes({ heapSpaceStatistics }: GCProfilerResult['statistics'][number]['beforeGC']): number {
  return heapSpaceStatistics.find(({ spaceName }) => spaceName === 'old_space')?.spaceUsedSize ?? 0;
}

function end(): Counts {
  const entered: Record<string, number> = {};
  for (const [name, { names, own }] of modules) {
    for (const [index, count] of own.entries()) if (count > 0) entered[`${name} ${names[index]}`] = count;
  }
  return { entered, closures: made.count, ...heapBytes() };
}

if (isMainThread) {
  const server = createServer((socket) => {
    socket.setEncoding('utf8').on('data', (command) => {
      if (String(command).startsWith('begin')) begin();
      socket.write(`${JSON.stringify(String(command).startsWith('begin') ? {} : end())}\n`);
    });
  });
  server.listen(join(folder, `count-${process.pid}`));
  server.unref();
}
