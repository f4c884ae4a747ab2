// The memory of uploads: never over its budget, first come first served, small uploads beside large ones, nothing left behind.
import fc from 'fast-check';
import t from 'tap';
import { Failure } from '../../src/errors.js';
import { createUploadMemory, type Lease } from '../../src/scan/memory.js';

const MIB = 1024 * 1024;
const never = new AbortController().signal;

/** A lease that must be had at once. */
function at(lent: Lease | Promise<Lease>): Lease {
  if (lent instanceof Promise) throw new Error('it had to wait');
  return lent;
}

t.test('a buffer is large enough, and reused once it is back', async (t) => {
  const memory = createUploadMemory({ budgetBytes: 64 * MIB, waitMs: 1000 });
  for (const bytes of [0, 1, 16_384, 16_385, MIB, 10 * MIB]) {
    const lease = at(memory.lend(bytes, never));
    t.ok(lease.buffer.byteLength >= bytes);
    lease.release(lease.buffer);
    const again = at(memory.lend(bytes, never));
    t.equal(again.buffer, lease.buffer);
    again.release(null);
    again.release(again.buffer);
    t.equal(memory.lentBytes, 0, 'a second release changes nothing');
  }
});

t.test(
  'who waits is served in order when memory comes back; a small upload finds room beside large ones',
  async (t) => {
    const memory = createUploadMemory({ budgetBytes: 24 * MIB, waitMs: 60_000 });
    const first = at(memory.lend(10 * MIB, never));
    const second = at(memory.lend(10 * MIB, never));
    const order: string[] = [];
    const third = Promise.resolve(memory.lend(10 * MIB, never)).then((lease) => {
      order.push('third');
      return lease;
    });
    const fourth = Promise.resolve(memory.lend(10 * MIB, never)).then((lease) => {
      order.push('fourth');
      return lease;
    });
    t.equal(memory.waiting, 2);
    at(memory.lend(MIB, never));
    first.release(first.buffer);
    const granted = await third;
    t.strictSame(order, ['third']);
    second.release(null);
    granted.release(granted.buffer);
    await fourth;
    t.equal(memory.waiting, 0);
  },
);

t.test('a wait ends in time, and at once for a client that is gone', async (t) => {
  const memory = createUploadMemory({ budgetBytes: 16 * MIB, waitMs: 20 });
  const held = at(memory.lend(10 * MIB, never));
  await t.rejects(
    Promise.resolve(memory.lend(10 * MIB, never)),
    new Failure('unavailable', 'Too many uploads at once', 5),
  );
  const controller = new AbortController();
  const gone = Promise.resolve(memory.lend(10 * MIB, controller.signal));
  controller.abort(new Error('gone'));
  await t.rejects(gone, new Error('gone'));
  t.equal(memory.waiting, 0);
  held.release(held.buffer);
  t.equal(memory.lentBytes, 0);
});

t.test('the budget holds whatever is lent, returned and given up', async () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('lend' as const), bytes: fc.nat(10 * MIB) }),
    fc.record({ kind: fc.constant('return' as const), which: fc.nat() }),
    fc.record({ kind: fc.constant('abort' as const), which: fc.nat() }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const memory = createUploadMemory({ budgetBytes: 32 * MIB, waitMs: 60_000 });
      const held: Lease[] = [];
      const controllers: AbortController[] = [];
      const settled: Promise<void>[] = [];
      let within = true;
      for (const action of steps) {
        if (action.kind === 'lend') {
          const controller = new AbortController();
          controllers.push(controller);
          const lent = Promise.resolve(memory.lend(action.bytes, controller.signal));
          settled.push(
            lent.then(
              (lease) => {
                held.push(lease);
              },
              () => undefined,
            ),
          );
        } else if (action.kind === 'return') {
          const [lease] = held.splice(action.which % Math.max(1, held.length), 1);
          lease?.release(lease.buffer);
        } else {
          controllers[action.which % Math.max(1, controllers.length)]?.abort();
        }
        await Promise.resolve();
        within &&= memory.lentBytes <= 32 * MIB;
      }
      for (const controller of controllers) controller.abort();
      await Promise.all(settled);
      for (const lease of held) lease.release(null);
      return within && memory.lentBytes === 0 && memory.waiting === 0;
    }),
    { numRuns: 60 },
  );
});
