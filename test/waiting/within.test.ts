// The wait that ends, in a process that stalls: an answer that is there already counts, one that isn't does not.
import { once } from 'node:events';
import { createServer, Socket } from 'node:net';
import t from 'tap';
import { endsWithin, within, withinOr } from '../../src/waiting/within.js';

t.test('an answer that came while the process stalled is taken', async (t) => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('A TCP server has a port');
  const far = new Promise<Socket>((resolve) => server.once('connection', resolve));
  const near = new Socket().connect(address.port, '127.0.0.1');
  t.teardown(() => near.destroy());
  await once(near, 'connect');
  const other = await far;
  t.teardown(() => other.destroy());
  const answer = within(once(near, 'data'), 50);
  // It is on its way before the next turn of the event loop, which comes too late.
  other.write('x');
  const until = Date.now() + 100;
  while (Date.now() < until);
  t.match(String(await answer), 'x');
});

t.test('one that this process held up gets the time that it did not have', async (t) => {
  const answer = within(new Promise((resolve) => setImmediate(() => setTimeout(resolve, 40, 'x'))), 50);
  const until = Date.now() + 300;
  while (Date.now() < until);
  t.equal(await answer, 'x');
});

t.test('one that does not come ends the wait', async (t) => {
  await t.rejects(within(new Promise(() => undefined), 5), { message: 'No answer within 5 ms' });
});

t.test('the other value is for an answer that does not come, and a failure stays one', async (t) => {
  t.equal(await withinOr(Promise.resolve('x'), 1_000, 'other'), 'x');
  t.equal(await withinOr(new Promise(() => undefined), 5, 'other'), 'other');
  await t.rejects(withinOr(Promise.reject(new Error('down')), 1_000, 'other'), { message: 'down' });
});

t.test('work that ends in time is known from work that does not, and a failure stays one', async (t) => {
  t.equal(await endsWithin(Promise.resolve(), 1_000), true);
  t.equal(await endsWithin(new Promise(() => undefined), 5), false);
  await t.rejects(endsWithin(Promise.reject(new Error('down')), 1_000), { message: 'down' });
});
