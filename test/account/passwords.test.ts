// Passwords: how long they may be, one whatever keyboard typed it, and no more of them at once than the process can bear.
import t from 'tap';
import { hashPassword, verifyPassword, whyNotPassword } from '../../src/account/users.js';

t.test('twelve to 128 characters, counted as people count them', async (t) => {
  for (const good of ['a'.repeat(12), 'a'.repeat(128), '😀'.repeat(12), '😀'.repeat(128)])
    t.equal(whyNotPassword(good), null);
  for (const bad of ['', 'a'.repeat(11), 'a'.repeat(129), '😀'.repeat(11), 'u\u0308'.repeat(11), 'ﷺ'.repeat(8)]) {
    t.equal(whyNotPassword(bad), 'must have 12 to 128 characters');
  }
});

t.test(
  'what is too much at once gets a 503, the rest its answer; another account has its turn between them',
  async (t) => {
    const stored = await hashPassword('correct horse battery');
    const order: string[] = [];
    const verify = async (who: string): Promise<boolean> => {
      const isRight = await verifyPassword('correct horse battery', stored, [who]);
      order.push(who);
      return isRight;
    };
    const many = Array.from({ length: 60 }, () => verify('many'));
    const one = verify('one');
    const outcomes = await Promise.allSettled(many);
    // One at a time, and thirty that wait.
    t.equal(outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value).length, 31);
    const refused = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
    t.equal(refused.length, 29);
    for (const reason of refused) t.match(reason, { code: 'unavailable', retryAfterSeconds: 2 });
    t.equal(await one, true);
    t.ok(order.indexOf('one') <= 1, 'behind the one that was there, before those that wait');
    t.equal(await verifyPassword('wrong', stored), false, 'and then it goes on');
    await t.rejects(verifyPassword('wrong', 'no hash'), Error);
    t.equal(await verifyPassword('correct horse battery', stored), true, 'also after an error');
  },
);
