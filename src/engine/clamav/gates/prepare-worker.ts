// The entry of a thread that makes the files of gates: seconds of work, in which the thread that serves must not stand still.
import { parentPort, workerData } from 'node:worker_threads';
import { type PrepareOrder, prepareGates } from './prepare.js';

const { directories, directory }: PrepareOrder = workerData;
parentPort?.postMessage(await prepareGates(directories, directory));
