// Makes the files of gates on a thread of its own, where they are not there yet.
import { Worker } from 'node:worker_threads';
import { gatesWorkerPath } from '../../../paths.js';
import { knownGates, type PreparedGates, type PrepareOrder } from './prepare.js';

/** What it makes lives short: with so much room hardly any of it is copied. */
const YOUNG_MB = 96;

/** As `prepareGates`. */
export async function prepareGatesApart(order: PrepareOrder): Promise<PreparedGates> {
  return (await knownGates(order.directories, order.directory)) ?? (await prepareOnThread(order));
}

function prepareOnThread(order: PrepareOrder): Promise<PreparedGates> {
  return new Promise((resolve, reject) => {
    const resourceLimits = { maxYoungGenerationSizeMb: YOUNG_MB };
    const worker = new Worker(gatesWorkerPath, { workerData: order, resourceLimits });
    worker.once('message', resolve);
    worker.once('error', reject);
    worker.once('exit', () => reject(new Error('The thread that makes gates has ended without any')));
  });
}
