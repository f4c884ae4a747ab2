// A thread of the tests: counts, and rings after each.
import { workerData } from 'node:worker_threads';
import { type BellRope, takeRope } from '../../../src/engine/threads/bell.js';

const { rope, done, index, rings }: { rope: BellRope; done: Int32Array; index: number; rings: number } = workerData;
const ring = takeRope(rope);
for (let count = 1; count <= rings; count += 1) {
  Atomics.store(done, index, count);
  ring();
}
