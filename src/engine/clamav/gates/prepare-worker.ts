// The entry of a thread that makes the files of gates, or lists what gates can be made of: seconds of work.
import { parentPort, workerData } from 'node:worker_threads';
import { prepareGates, windowsForGates } from './prepare.js';
import type { ThreadMessage, ThreadOrder } from './prepare-apart.js';

const { directories, directory, wants }: ThreadOrder = workerData;
const tell = (message: ThreadMessage): void => parentPort?.postMessage(message);
const onProgress = (fraction: number): void => tell({ kind: 'progress', fraction });
if (wants === 'gates') tell({ kind: 'gates', gates: await prepareGates(directories, directory, { onProgress }) });
else {
  const windows = await windowsForGates(directories, directory, onProgress);
  tell({ kind: 'windows', windows });
}
