// What takes seconds about gates, on a thread of its own: the one that serves must not stand still, and what it used is free when it ends.
import { Worker } from 'node:worker_threads';
import { gatesWorkerPath } from '../../../paths.js';
import { knownGates, type PreparedGates, type PrepareOrder } from './prepare.js';

/** What it makes lives short: with so much room hardly any of it is copied. */
const YOUNG_MB = 96;

/** What the thread gets. */
export interface ThreadOrder extends PrepareOrder {
  readonly wants: 'gates' | 'windows';
}

/** What comes from it. */
export type ThreadMessage =
  | { readonly kind: 'gates'; readonly gates: PreparedGates }
  | { readonly kind: 'windows'; readonly windows: Float64Array }
  | { readonly kind: 'progress'; readonly fraction: number };

/** As `prepareGates`. There is no progress where they were made before. */
export async function prepareGatesApart(
  order: PrepareOrder,
  onProgress: (fraction: number) => void = () => undefined,
): Promise<PreparedGates> {
  const known = await knownGates(order.directories, order.directory);
  return (
    known ??
    (await onThread({ ...order, wants: 'gates' }, onProgress, (message) =>
      message.kind === 'gates' ? message.gates : null,
    ))
  );
}

/** As `windowsForGates`. */
export function windowsForGatesApart(
  order: PrepareOrder,
  onProgress: (fraction: number) => void,
): Promise<Float64Array> {
  return onThread({ ...order, wants: 'windows' }, onProgress, (message) =>
    message.kind === 'windows' ? message.windows : null,
  );
}

/** `read`: null for what is not the last message. */
function onThread<Result>(
  order: ThreadOrder,
  onProgress: (fraction: number) => void,
  read: (message: ThreadMessage) => Result | null,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    const resourceLimits = { maxYoungGenerationSizeMb: YOUNG_MB };
    const worker = new Worker(gatesWorkerPath, { workerData: order, resourceLimits });
    worker.on('message', (message: ThreadMessage) => {
      if (message.kind === 'progress') onProgress(message.fraction);
      const result = read(message);
      if (result !== null) resolve(result);
    });
    worker.once('error', reject);
    worker.once('exit', () => reject(new Error('The thread for gates has ended without a result')));
  });
}
