// The bound on requests of people who are not signed in: how many there may be, and that hashing a password is no question to a store.
import { mock } from 'node:test';
import t from 'tap';
import { createAnonymousLimiter } from '../../src/account/anonymous-limiter.js';
import { deferred } from '../fixtures/deferred.js';

t.test('the request beyond the bound is refused, and taken once another one has ended', async (t) => {
  const limited = createAnonymousLimiter();
  const held = deferred<string>();
  const running = Array.from({ length: 256 }, () => limited(() => held.promise));
  await t.rejects(
    limited(async () => 'too many'),
    { code: 'unavailable', retryAfterSeconds: 1 },
  );
  held.resolve('answered');
  t.equal((await Promise.all(running)).length, 256);
  t.equal(await limited(async () => 'room again'), 'room again');
});

t.test('a password may take longer than a store', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const hashing = deferred<string>();
  const answer = createAnonymousLimiter()(() => hashing.promise);
  answer.catch(() => undefined);
  mock.timers.tick(60_000);
  await new Promise((resolve) => setImmediate(resolve));
  hashing.resolve('signed in');
  t.equal(await answer, 'signed in');
});
