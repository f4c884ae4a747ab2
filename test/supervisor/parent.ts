// A process with a supervisor in it, for tests that signal and kill it; its arguments are those of supervise.
import { z } from 'zod';
import { openInFlight } from '../../src/engine/threads/ring.js';
import { createLog } from '../../src/log.js';
import { supervise } from '../../src/supervisor/supervisor.js';

const shape = z.object({
  command: z.string(),
  arguments: z.array(z.string()),
  backOff: z.object({ firstMs: z.number(), limitMs: z.number(), servedLimitMs: z.number(), healthyMs: z.number() }),
  sameRequestMs: z.number(),
  startMs: z.number(),
  processes: z.number(),
  /** Whether each end is one of the kernel's search for memory. */
  hasMemoryKills: z.boolean(),
});
/** Says what the supervisor takes for the doing of content. */
const suspects = {
  open: openInFlight,
  close(_inFlight: number, crashed: boolean) {
    log.info({ suspected: crashed });
    return false;
  },
  hung: () => false,
  allow: () => false,
  refused: () => [],
};
const { log, flush } = createLog('info');
const { hasMemoryKills, ...options } = shape.parse(JSON.parse(process.argv[2] ?? ''));
let asked = 0;
const memoryKills = (): number => {
  asked += 1;
  return hasMemoryKills ? asked : 0;
};
const exitCode = await supervise({ ...options, memoryKills, suspects, log });
await flush();
process.exit(exitCode);
