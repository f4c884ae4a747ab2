// Users as they are shown.
import t from 'tap';
import { normaliseEmail, type UserRow, userView } from '../../src/account/users.js';
import { planOf } from '../fixtures/plans.js';

const plans = [planOf('PRO', 1_000), planOf('FREE', 50)];
const row: UserRow = {
  id: 'x',
  email: 'ada@example.com',
  name: 'Ada',
  plan: 'PRO',
  role: 'operator',
  own_limit: null,
  suspended_at: null,
  creation_date: new Date(Date.UTC(2026, 0, 2, 3, 4, 5, 678)),
};

t.test('a user is shown with the limit of the plan, and times to the second', async (t) => {
  t.strictSame(userView(row, plans), {
    id: 'x',
    email: 'ada@example.com',
    name: 'Ada',
    plan: 'PRO',
    hourlyLimit: 1_000,
    role: 'operator',
    creationDate: '2026-01-02T03:04:05',
  });
  t.match(userView({ ...row, plan: 'GONE' }, plans), { plan: 'GONE', hourlyLimit: 50 });
  t.match(userView({ ...row, own_limit: 7 }, plans), { plan: 'PRO', hourlyLimit: 7 });
  t.match(userView({ ...row, own_limit: 7, suspended_at: new Date() }, plans), { hourlyLimit: 0 });
});

t.test('an address is compared without the spaces around it and in lower case', async (t) => {
  t.equal(normaliseEmail('  Ada@Example.COM\n'), 'ada@example.com');
});
