// A thread of the tests: counts, rings after each, and goes on at once, or when it has been heard.
import { workerData } from 'node:worker_threads';
import { type BellRope, takeRope } from '../../../src/engine/threads/bell.js';

interface Ringing {
  readonly rope: BellRope;
  readonly done: Int32Array;
  readonly index: number;
  readonly rings: number;
  /** The last count that was heard. */
  readonly heard?: Int32Array;
}
/** On a busy machine the other thread may have no core: who goes on looking keeps it from one. */
const LOOKS_AWAKE = 1_000;
const { rope, done, index, rings, heard }: Ringing = workerData;
const ring = takeRope(rope);
for (let count = 1; count <= rings; count += 1) {
  Atomics.store(done, index, count);
  ring();
  for (let look = 1; heard !== undefined && Atomics.load(heard, 0) < count; look += 1) {
    if (look > LOOKS_AWAKE) Atomics.wait(heard, 0, count - 1);
  }
}
