// The queue before the scan threads: small content first, nothing starves, bounded.
import fc from 'fast-check';
import t from 'tap';
import { createScanQueue } from '../../src/engine/queue.js';

const KIB = 1024;
const MIB = 1024 * KIB;

function drain(queue: { shift(): string | undefined }): string[] {
  const order: string[] = [];
  for (let item = queue.shift(); item !== undefined; item = queue.shift()) order.push(item);
  return order;
}

t.test('what came at one time leaves by size', async (t) => {
  const queue = createScanQueue<string>(10);
  queue.push('large', 10 * MIB, 0);
  queue.push('small', KIB, 0);
  queue.push('middle', 100 * KIB, 0);
  t.strictSame(drain(queue), ['small', 'middle', 'large']);
});

t.test('a large one is passed only by what comes within the time that its size is worth', async (t) => {
  const queue = createScanQueue<string>(1000);
  queue.push('large', 10 * MIB, 0);
  // 10 MiB at 50 KiB for a millisecond.
  queue.push('just in time', KIB, 204);
  for (let ms = 205; ms < 300; ms += 1) queue.push(`at ${ms}`, KIB, ms);
  t.strictSame(drain(queue).slice(0, 3), ['just in time', 'large', 'at 205']);
});

t.test('a full queue takes nothing more', async (t) => {
  const queue = createScanQueue<string>(2);
  t.ok(queue.push('a', 1, 0));
  t.ok(queue.push('b', 1, 0));
  t.notOk(queue.push('c', 1, 0));
  queue.shift();
  t.ok(queue.push('d', 1, 0));
  t.strictSame(drain(queue), ['b', 'd']);
});

t.test('it behaves as a sorted list does', async () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('push' as const), size: fc.nat(20 * MIB), pause: fc.nat(50) }),
    fc.record({ kind: fc.constant('shift' as const) }),
    fc.record({ kind: fc.constant('remove' as const), which: fc.nat() }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const queue = createScanQueue<number>(50);
      let model: { item: number; due: number }[] = [];
      let nowMs = 0;
      let next = 0;
      for (const action of steps) {
        if (action.kind === 'push') {
          nowMs += action.pause;
          const item = next++;
          const taken = queue.push(item, action.size, nowMs);
          if (taken !== model.length < 50) return false;
          if (taken) model.push({ item, due: nowMs + action.size / (50 * KIB) });
          model.sort((a, b) => a.due - b.due || a.item - b.item);
        } else if (action.kind === 'shift') {
          if (queue.shift() !== model.shift()?.item) return false;
        } else {
          const item = action.which % (next + 1);
          if (queue.remove(item) !== model.some((entry) => entry.item === item)) return false;
          model = model.filter((entry) => entry.item !== item);
        }
        if (queue.size !== model.length) return false;
      }
      return true;
    }),
    { numRuns: 500 },
  );
});
