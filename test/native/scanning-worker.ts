// A thread of the tests: scans what it is sent with the engine that the main thread loaded.
import { parentPort } from 'node:worker_threads';
import { engineInfo, scanBuffer } from '../../src/engine/clamav/addon.js';

interface Order {
  readonly content: Uint8Array;
  readonly times: number;
  /** Leave the thread by process.exit right after the last scan. */
  readonly exit?: boolean;
}

const port = parentPort;
if (port === null) throw new Error('This file is the entry of a worker thread');

port.on('message', ({ content, times, exit }: Order) => {
  let last = null;
  const names = new Set<string | null>();
  for (let i = 0; i < times; i += 1) {
    last = scanBuffer(content);
    names.add(last.virusName);
  }
  port.postMessage({ last, names: [...names], signatureCount: engineInfo()?.signatureCount });
  if (exit === true) process.exit();
});
