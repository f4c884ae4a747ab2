// The bound on resident memory: refused over it, and taken again when there is room.
import { EventEmitter, once } from 'node:events';
import t from 'tap';
import { enoughBytes, startMemoryGuard } from '../../src/service/engine.js';

t.test('over the bound nothing is scanned, and it is reported; under it all goes on', async (t) => {
  const looks = new EventEmitter();
  let bytes = 100;
  const exceeded: number[] = [];
  const guard = startMemoryGuard({
    limitBytes: 100,
    intervalMs: 1,
    onExceeded: (resident) => exceeded.push(resident),
    residentBytes: () => {
      setImmediate(() => looks.emit('look'));
      return bytes;
    },
  });
  t.teardown(() => guard.stop());
  // The test's own wait must keep the process, the guard's timer does not.
  const alive = setInterval(() => undefined, 1000);
  t.teardown(() => clearInterval(alive));
  const look = (): Promise<unknown> => once(looks, 'look');
  await look();
  t.equal(guard.refusal, null);
  bytes = 101;
  await look();
  await look();
  t.equal(guard.refusal, 'The scan engine is out of memory');
  t.equal(exceeded[0], 101);
  bytes = 50;
  await look();
  await look();
  t.equal(guard.refusal, null);
});

t.test('while nobody can say how much there is, what was found last holds', async (t) => {
  const looks = new EventEmitter();
  let bytes: number | null = 101;
  const exceeded: number[] = [];
  const guard = startMemoryGuard({
    limitBytes: 100,
    intervalMs: 1,
    onExceeded: (resident) => exceeded.push(resident),
    residentBytes: () => {
      setImmediate(() => looks.emit('look'));
      if (bytes === null) throw new Error('EMFILE');
      return bytes;
    },
  });
  t.teardown(() => guard.stop());
  const alive = setInterval(() => undefined, 1000);
  t.teardown(() => clearInterval(alive));
  const found = async (next: number | null): Promise<string | null> => {
    bytes = next;
    await once(looks, 'look');
    await once(looks, 'look');
    return guard.refusal;
  };
  const refusal = 'The scan engine is out of memory';
  t.equal(await found(101), refusal);
  t.equal(await found(null), refusal, 'it was too much');
  t.strictSame([...new Set(exceeded)], [101]);
  t.equal(await found(99), null);
  t.equal(await found(null), null, 'there was room');
  t.equal(await found(101), refusal, 'it goes on looking');
});

t.test('a bound that is enough: what was found, what is still to come, and a margin, in steps of 64 MiB', async (t) => {
  const MIB = 1024 * 1024;
  t.equal(enoughBytes(1000 * MIB, 1), 1280 * MIB);
  t.equal(enoughBytes(500 * MIB, 0.5), 1280 * MIB);
  t.equal(enoughBytes(100 * MIB, 0), 1280 * MIB);
});
