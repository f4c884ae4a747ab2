// PROCESSES=auto: the rule on machines as there are, and what it never does on any machine.
import fc from 'fast-check';
import t from 'tap';
import {
  BYTES_OF_A_PROCESS,
  chooseProcesses,
  type Machine,
  type ProcessChoice,
  THREADS_OF_A_PROCESS,
  temporaryBytes,
} from '../../src/config/config.js';

const MIB = 1024 ** 2;
const GIB = 1024 * MIB;

interface Case extends ProcessChoice, Partial<Omit<Machine, 'memoryBytes'>> {
  readonly cores: number;
  readonly memoryGib: number;
}

const cases: readonly Case[] = [
  { cores: 1, memoryGib: 1, processes: 1, because: 'cores' },
  { cores: 2, memoryGib: 8, processes: 1, because: 'cores' },
  { cores: 4, memoryGib: 32, processes: 1, because: 'cores' },
  { cores: 5, memoryGib: 32, processes: 2, because: 'cores' },
  { cores: 8, memoryGib: 32, processes: 2, because: 'cores' },
  { cores: 9, memoryGib: 32, processes: 3, because: 'cores' },
  { cores: 64, memoryGib: 256, processes: 16, because: 'cores' },
  { cores: 1024, memoryGib: 4096, processes: 64, because: 'cores' },
  { cores: 8, memoryGib: 6, processes: 2, because: 'cores' },
  { cores: 8, memoryGib: 5.9, processes: 1, because: 'memory' },
  { cores: 64, memoryGib: 12, processes: 4, because: 'memory' },
  { cores: 64, memoryGib: 0.5, processes: 1, because: 'memory' },
  { cores: 16, memoryGib: 64, hasRedis: false, processes: 1, because: 'REDIS_URL is not set' },
  { cores: 4, memoryGib: 64, hasRedis: false, processes: 1, because: 'cores' },
  { cores: 16, memoryGib: 8, processBytes: 2 * GIB, processes: 4, because: 'cores' },
  { cores: 16, memoryGib: 8, processBytes: 4 * GIB, processes: 2, because: 'memory' },
  { cores: 16, memoryGib: 64, scanThreads: 16, processes: 1, because: 'SCAN_THREADS' },
  { cores: 32, memoryGib: 64, scanThreads: 12, processes: 2, because: 'SCAN_THREADS' },
  { cores: 16, memoryGib: 64, scanThreads: 2, processes: 4, because: 'cores' },
  { cores: 4, memoryGib: 64, scanThreads: 32, processes: 1, because: 'cores' },
];

for (const { processes, because, memoryGib, ...given } of cases) {
  t.test(`${JSON.stringify({ memoryGib, ...given })}: ${processes}, by ${because}`, async (t) => {
    const machine = { hasRedis: true, processBytes: null, scanThreads: null, ...given, memoryBytes: memoryGib * GIB };
    t.strictSame(chooseProcesses(machine), { processes, because });
  });
}

const machines: fc.Arbitrary<Machine> = fc.record({
  cores: fc.integer({ min: 1, max: 2048 }),
  memoryBytes: fc.double({ min: 0.1 * GIB, max: 8192 * GIB, noNaN: true }),
  hasRedis: fc.boolean(),
  processBytes: fc.option(fc.integer({ min: 1024 ** 2, max: 64 * GIB })),
  scanThreads: fc.option(fc.integer({ min: 1, max: 256 })),
});

t.test('more than one process always has its memory, its cores and a Redis', async (t) => {
  let several = 0;
  fc.assert(
    fc.property(machines, (machine) => {
      const { processes } = chooseProcesses(machine);
      if (!Number.isInteger(processes) || processes < 1 || processes > 64) return false;
      if (processes === 1) return true;
      several += 1;
      const { cores, memoryBytes, hasRedis, processBytes, scanThreads } = machine;
      const fitsMemory = processes * (processBytes ?? BYTES_OF_A_PROCESS) <= memoryBytes;
      const fitsCores = processes * (scanThreads ?? 1) <= cores && (processes - 1) * THREADS_OF_A_PROCESS < cores;
      return hasRedis && fitsMemory && fitsCores;
    }),
    { numRuns: 2_000 },
  );
  t.ok(several > 100, 'many of the machines had room for several');
});

t.test('where nothing but the cores counts, no process has more threads than it can feed', async () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 64 * THREADS_OF_A_PROCESS }), (cores) => {
      const machine = { cores, memoryBytes: 1e15, hasRedis: true, processBytes: null, scanThreads: null };
      const { processes, because } = chooseProcesses(machine);
      return because === 'cores' && Math.floor(cores / processes) <= THREADS_OF_A_PROCESS;
    }),
  );
});

t.test('more cores, more memory or a Redis never make it fewer', async () => {
  fc.assert(
    fc.property(machines, fc.integer({ min: 0, max: 64 }), fc.integer({ min: 0, max: 64 }), (machine, cores, gib) => {
      const { processes } = chooseProcesses(machine);
      const memoryBytes = machine.memoryBytes + gib * GIB;
      const larger = chooseProcesses({ ...machine, cores: machine.cores + cores, memoryBytes, hasRedis: true });
      return larger.processes >= processes;
    }),
    { numRuns: 2_000 },
  );
});

t.test('what scans may unpack has room beside the memory of the servers, and one content fits', async (t) => {
  const sizes = { scanThreads: fc.integer({ min: 1, max: 256 }), processes: fc.integer({ min: 1, max: 64 }) };
  const contents = fc.integer({ min: 11 * MIB, max: 200 * MIB });
  const memories = fc.integer({ min: 16 * GIB, max: 1024 * GIB });
  fc.assert(
    fc.property(fc.record(sizes), contents, memories, (size, maxScanSizeBytes, memoryBytes) => {
      const bytes = temporaryBytes(memoryBytes, { ...size, maxScanSizeBytes });
      if (bytes === maxScanSizeBytes) return true;
      const isEnough = bytes > maxScanSizeBytes && bytes <= 2 * size.scanThreads * maxScanSizeBytes;
      return isEnough && size.processes * 2 * bytes + 0.8 * memoryBytes <= 0.95 * memoryBytes;
    }),
  );
  t.equal(temporaryBytes(24 * GIB, { processes: 1, scanThreads: 2, maxScanSizeBytes: 200 * MIB }), 800 * MIB);
  t.equal(temporaryBytes(6 * GIB, { processes: 1, scanThreads: 32, maxScanSizeBytes: 200 * MIB }), 384 * MIB);
  t.equal(temporaryBytes(GIB, { processes: 2, scanThreads: 4, maxScanSizeBytes: 200 * MIB }), 200 * MIB);
});
