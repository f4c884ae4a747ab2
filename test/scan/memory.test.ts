// The memory of uploads: never over its budget, first come first served, small uploads beside large ones, nothing left behind.
import { getEventListeners } from 'node:events';
import { mock } from 'node:test';
import fc from 'fast-check';
import t from 'tap';
import { Failure } from '../../src/errors.js';
import { createUploadMemory, type Lease } from '../../src/scan/memory.js';

const MIB = 1024 * 1024;
const nobody = new AbortController().signal;
const never = () => nobody;

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
    for (let round = 0; round < 100; round += 1) {
      again.release(lease.buffer);
      t.equal(memory.lentBytes, 0, 'a second release changes nothing');
      const next = at(memory.lend(bytes, never));
      if (next.buffer !== lease.buffer) t.fail(`not reused in round ${round}`);
      next.release(next.buffer);
    }
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
    t.equal(getEventListeners(nobody, 'abort').length, 0, 'nothing listens for who was served');
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
  const gone = Promise.resolve(memory.lend(10 * MIB, () => controller.signal));
  controller.abort(new Error('gone'));
  await t.rejects(gone, new Error('gone'));
  t.equal(memory.waiting, 0);
  t.equal(getEventListeners(controller.signal, 'abort').length, 0, 'nothing listens any more');
  held.release(held.buffer);
  t.equal(memory.lentBytes, 0);
});

t.test('who is gone before asking does not wait', async (t) => {
  const memory = createUploadMemory({ budgetBytes: 16 * MIB, waitMs: 60_000 });
  const held = at(memory.lend(10 * MIB, never));
  await t.rejects(
    Promise.resolve(memory.lend(10 * MIB, () => AbortSignal.abort(new Error('gone')))),
    new Error('gone'),
  );
  t.equal(memory.waiting, 0);
  held.release(held.buffer);
});

t.test('when the first in line gives up, the next gets the room that is there', async (t) => {
  const memory = createUploadMemory({ budgetBytes: 16 * MIB, waitMs: 60_000 });
  at(memory.lend(10 * MIB, never));
  const controller = new AbortController();
  const first = Promise.resolve(memory.lend(10 * MIB, () => controller.signal));
  const second = Promise.resolve(memory.lend(2 * MIB, never));
  t.equal(memory.waiting, 2, 'nobody jumps the queue');
  controller.abort(new Error('gone'));
  await t.rejects(first, new Error('gone'));
  t.equal((await second).buffer.byteLength, 2 * MIB);
  t.equal(memory.waiting, 0);
});

t.test('a small upload finds room while large ones wait, and small ones that wait are served in order', async (t) => {
  const memory = createUploadMemory({ budgetBytes: 16 * MIB, waitMs: 60_000 });
  const large = [at(memory.lend(8 * MIB, never)), at(memory.lend(4 * MIB, never)), at(memory.lend(2 * MIB, never))];
  const waiting = memory.lend(2 * MIB, never);
  t.ok(waiting instanceof Promise, 'seven eighths are full');
  const small = [at(memory.lend(MIB, never)), at(memory.lend(MIB, never))];
  t.equal(memory.lentBytes, 16 * MIB);
  const order: number[] = [];
  for (const number of [1, 2, 3]) void Promise.resolve(memory.lend(1000, never)).then(() => order.push(number));
  t.equal(memory.waiting, 4);
  small[0]?.release(null);
  small[0]?.release(null);
  await null;
  await null;
  t.strictSame(order, [1, 2, 3]);
  large[0]?.release(null);
  await waiting;
});

t.test('a buffer that was lost, cut or detached is not lent again', async (t) => {
  const memory = createUploadMemory({ budgetBytes: 64 * MIB, waitMs: 1000 });
  const wrong: ((own: ArrayBuffer) => ArrayBuffer | null)[] = [
    () => null,
    () => new ArrayBuffer(5),
    (own) => {
      structuredClone(own, { transfer: [own] });
      return own;
    },
  ];
  for (const spoil of wrong) {
    const lease = at(memory.lend(20_000, never));
    lease.release(spoil(lease.buffer));
    t.equal(at(memory.lend(20_000, never)).buffer.byteLength, 32_768);
  }
});

interface Asked {
  readonly lane: 'small' | 'large';
  readonly size: number;
  readonly controller: AbortController;
  readonly deadlineMs: number;
  lease: Lease | null;
}

/** How many bytes a buffer for so many has: a power of two from 16 KiB on, at most the content limit. */
function rounded(bytes: number): number {
  return Math.min(10 * MIB, 2 ** Math.max(14, Math.ceil(Math.log2(bytes))));
}

t.test('the budget holds, and each line moves on, whatever is lent, returned, given up and timed out', async () => {
  const BUDGET = 32 * MIB;
  const WAIT_MS = 1000;
  const limits = { small: BUDGET, large: 28 * MIB };
  const bytes = fc.oneof(fc.nat(10 * MIB), fc.nat(MIB), fc.constantFrom(0, 1, MIB, MIB + 1, 10 * MIB));
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('lend' as const), bytes }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('return' as const), which: fc.nat(), lost: fc.boolean() }) },
    fc.record({ kind: fc.constant('abort' as const), which: fc.nat() }),
    fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 700 }) }),
  );
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 80 }), async (steps) => {
      const memory = createUploadMemory({ budgetBytes: BUDGET, waitMs: WAIT_MS });
      const waiting: Asked[] = [];
      const held: Asked[] = [];
      let nowMs = 0;
      const lend = (wanted: number): void => {
        const size = rounded(wanted);
        const controller = new AbortController();
        const lane = size <= MIB ? 'small' : 'large';
        const asked: Asked = { lane, size, controller, deadlineMs: nowMs + WAIT_MS, lease: null };
        const lent = memory.lend(wanted, () => controller.signal);
        if (!(lent instanceof Promise)) {
          asked.lease = lent;
          held.push(asked);
          return;
        }
        waiting.push(asked);
        const leave = (): unknown => waiting.splice(waiting.indexOf(asked), 1);
        lent.then((lease) => {
          asked.lease = lease;
          if (waiting.find((other) => other.lane === lane) !== asked) throw new Error('somebody jumped the queue');
          leave();
          held.push(asked);
        }, leave);
      };
      for (const action of steps) {
        if (action.kind === 'lend') lend(action.bytes);
        else if (action.kind === 'return') {
          const [asked] = held.splice(action.which % Math.max(1, held.length), 1);
          asked?.lease?.release(action.lost ? null : asked.lease.buffer);
        } else if (action.kind === 'abort') waiting[action.which % Math.max(1, waiting.length)]?.controller.abort();
        else {
          nowMs += action.ms;
          mock.timers.tick(action.ms);
        }
        await new Promise(setImmediate);
        const lentBytes = held.reduce((sum, { size }) => sum + size, 0);
        if (memory.lentBytes !== lentBytes || lentBytes > BUDGET) return false;
        if (memory.waiting !== waiting.length || waiting.some(({ deadlineMs }) => deadlineMs <= nowMs)) return false;
        for (const lane of ['small', 'large'] as const) {
          const first = waiting.find((asked) => asked.lane === lane);
          if (first !== undefined && lentBytes + first.size <= limits[lane]) return false;
        }
        if (held.some(({ lease, size }) => lease?.buffer.byteLength !== size)) return false;
      }
      for (const { controller } of [...waiting]) controller.abort();
      await new Promise(setImmediate);
      for (const { lease } of held) lease?.release(null);
      return memory.lentBytes === 0 && memory.waiting === 0;
    }),
    { numRuns: 100 },
  );
});
