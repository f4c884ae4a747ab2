// Makes the files of gates on a thread of its own.
import { Worker } from 'node:worker_threads';
import { gatesWorkerPath } from '../../../paths.js';
import type { PreparedGates, PrepareOrder } from './prepare.js';

/** As `prepareGates`. */
export function prepareGatesApart(order: PrepareOrder): Promise<PreparedGates> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(gatesWorkerPath, { workerData: order });
    worker.once('message', resolve);
    worker.once('error', reject);
    worker.once('exit', () => reject(new Error('The thread that makes gates has ended without any')));
  });
}
