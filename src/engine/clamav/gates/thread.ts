// Threads for what takes seconds about gates: the one that serves must not stand still, and what they used is free when they end.
import { Worker } from 'node:worker_threads';
import { gatesWorkerPath } from '../../../paths.js';

/** What is made there lives short: with so much room hardly any of it is copied. */
const YOUNG_MB = 96;

/** What a thread gets. `directory`: where files of gates are kept, and what was learned. */
export type ThreadOrder =
  | {
      readonly wants: 'gates';
      readonly directories: readonly string[];
      readonly directory: string;
      readonly threads: number;
    }
  | {
      readonly wants: 'windows';
      readonly directories: readonly string[];
      readonly directory: string;
      /** Nobody waits for it. */
      readonly isBackground: boolean;
    }
  | {
      readonly wants: 'needs';
      readonly directory: string;
      readonly targets: ReadonlySet<number>;
      readonly lines: readonly string[];
    };

export type ThreadMessage<Result> =
  | { readonly kind: 'progress'; readonly fraction: number }
  | { readonly kind: 'result'; readonly result: Result };

/** Resolves with what prepare-worker.ts makes of the order. */
export function onThread<Result>(order: ThreadOrder, onProgress?: (fraction: number) => void): Promise<Result> {
  return new Promise((resolve, reject) => {
    const resourceLimits = { maxYoungGenerationSizeMb: YOUNG_MB };
    const worker = new Worker(gatesWorkerPath, { workerData: order, resourceLimits });
    worker.on('message', (message: ThreadMessage<Result>) => {
      if (message.kind === 'progress') onProgress?.(message.fraction);
      else resolve(message.result);
    });
    worker.once('error', reject);
    worker.once('exit', () => reject(new Error('The thread for gates has ended without a result')));
  });
}
