// The entry of a thread that makes the files of gates, or a part of what they are made from: seconds of work.
import { parentPort, workerData } from 'node:worker_threads';
import { takeUrgency } from '../../../cores.js';
import { needsForPlan, prepareGates, windowsForGates } from './prepare.js';
import type { ThreadMessage, ThreadOrder } from './thread.js';

const order: ThreadOrder = workerData;
const tell = (message: ThreadMessage<unknown>): void => parentPort?.postMessage(message);
const onProgress = (fraction: number): void => tell({ kind: 'progress', fraction });

function made(): Promise<unknown> {
  const { directory } = order;
  if (order.wants === 'needs') return needsForPlan(order);
  if (order.wants === 'windows') {
    if (order.isBackground) takeUrgency('background');
    return windowsForGates(order.directories, directory, onProgress);
  }
  return prepareGates(order.directories, directory, { threads: order.threads, onProgress });
}

tell({ kind: 'result', result: await made() });
