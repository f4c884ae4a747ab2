// The entry of a scan thread: hands the content to the native engine in place and sends it back with the answer.
import { performance } from 'node:perf_hooks';
import { move, transferableSymbol, valueSymbol, workerData } from 'piscina';
import { scanBuffer } from './addon.js';
import { createConfinement } from './sandbox.js';
import type { ScanTask, ScanTaskResult, ThreadSettings } from './task.js';

const settings: ThreadSettings = workerData;
const confine = createConfinement(settings.sandbox);

/** The task's handler: never throws, so the content always comes back. */
export function scanTask(task: ScanTask): unknown {
  const result = scan(task);
  // Piscina's contract for handing memory over instead of copying it: an object that names what to transfer.
  return move({ [transferableSymbol]: result.content, [valueSymbol]: result });
}

function scan({ content, sizeBytes }: ScanTask): ScanTaskResult {
  const startedMs = performance.now();
  try {
    // Before the first content, and after everything that this thread imports.
    confine();
    const answer = scanBuffer(new Uint8Array(content, 0, sizeBytes));
    return { kind: 'answered', answer, durationMs: performance.now() - startedMs, content };
  } catch (error) {
    // An Error posted between threads loses its class: what crosses is its message.
    return { kind: 'failed', message: error instanceof Error ? error.message : String(error), content };
  }
}
