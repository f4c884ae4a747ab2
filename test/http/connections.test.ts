// Which connections end for others, against what the kernel would say of them.
import t from 'tap';
import { createConnections, type KernelConnection } from '../../src/http/connections.js';

const GREEDY = '192.0.2.1';

t.test('one that is too many of its address finds room at once, where that address has idle ones', async (t) => {
  const ended: number[] = [];
  const idle = Array.from({ length: 4 }, (_, descriptor) => ({
    descriptor,
    address: GREEDY,
    idleMs: 1_000 + descriptor,
  }));
  const fresh: KernelConnection = { descriptor: 4, address: GREEDY, idleMs: 0 };
  const kernel = { list: () => [...idle, fresh], hangUp: (descriptor: number) => ended.push(descriptor) };
  const connections = createConnections({ limit: 100, perAddress: 4, groupOf: (address) => address }, kernel);
  for (const { address } of idle) t.ok(connections.opened(() => address));
  t.ok(connections.opened(() => GREEDY));
  t.strictSame(ended, [3], 'the one that has been idle for longest');
});

t.test('those that come right after a look find room, too, where it has found no more than the share', (t) => {
  // Some have come and gone, which only a look can tell.
  const kept = Array.from({ length: 15 }, (_, descriptor) => ({ descriptor, address: GREEDY, idleMs: 1_000 }));
  const ended: number[] = [];
  const list = () => kept.filter(({ descriptor }) => !ended.includes(descriptor));
  const kernel = { list, hangUp: (descriptor: number) => ended.push(descriptor) };
  const connections = createConnections({ limit: 100, perAddress: 16, groupOf: (address) => address }, kernel);
  for (let index = 0; index < 16; index += 1) connections.opened(() => GREEDY);
  t.ok(
    connections.opened(() => GREEDY),
    'a look',
  );
  t.equal(ended.length, 2, 'a quarter is free, with the new one');
  for (let index = 0; index < 3; index += 1) t.ok(connections.opened(() => GREEDY));
  t.end();
});

t.test('one that is too many of its address is closed, where all others of it are busy', async (t) => {
  const busy = Array.from({ length: 5 }, (_, descriptor) => ({ descriptor, address: GREEDY, idleMs: -1 }));
  const kernel = { list: () => busy, hangUp: () => t.fail('nothing is to be ended') };
  const connections = createConnections({ limit: 100, perAddress: 4, groupOf: (address) => address }, kernel);
  for (let index = 0; index < 4; index += 1) t.ok(connections.opened(() => GREEDY));
  t.notOk(connections.opened(() => GREEDY));
  connections.closed();
  t.ok(
    connections.opened(() => '192.0.2.2'),
    'somebody else has room',
  );
});
