// Users as they are shown.

import t from 'tap';
import { normaliseEmail, userView } from '../../src/account/users.js';
import { planOf } from '../fixtures/plans.js';

const plans = [planOf('PRO', 1_000), planOf('FREE', 50)];
const row = {
  id: 'x',
  email: 'ada@example.com',
  name: 'Ada',
  plan: 'PRO',
  creation_date: new Date(Date.UTC(2026, 0, 2, 3, 4, 5, 678)),
};

t.test('a user is shown with the limit of the plan, and times to the second', async (t) => {
  t.strictSame(userView(row, plans), {
    id: 'x',
    email: 'ada@example.com',
    name: 'Ada',
    plan: 'PRO',
    hourlyLimit: 1_000,
    creationDate: '2026-01-02T03:04:05',
  });
  t.match(userView({ ...row, plan: 'GONE' }, plans), { plan: 'GONE', hourlyLimit: 50 });
});

t.test('an address is compared without the spaces around it and in lower case', async (t) => {
  t.equal(normaliseEmail('  Ada@Example.COM\n'), 'ada@example.com');
});
