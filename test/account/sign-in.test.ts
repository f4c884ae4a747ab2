// Signing in, on both stores: one password verification for known and unknown accounts, throttling, and an owner who isn't locked out.
import { createSignIn, type SignIn } from '../../src/account/sign-in-routes.js';
import { createStrangers, createThrottle, rules, sweepAttempts } from '../../src/account/throttle.js';
import { createUser, hashPassword, type PasswordWork, verifyPassword } from '../../src/account/users.js';
import type { Sql } from '../../src/store/postgres.js';
import { makeTransactionsRepeatable, onEachStore, open } from '../fixtures/stores.js';

const START = Date.UTC(2026, 10, 21, 9);
const PASSWORD = 'correct horse battery';
const wrong = { code: 'credentialsInvalid' };
const throttled = { code: 'tooManyAttempts' };

interface Desk {
  readonly signIn: SignIn;
  /** The hashes that passwords were compared with. */
  readonly verified: string[];
  later(ms: number): void;
}

function openSignIn(sql: Sql, passwords: PasswordWork, now: () => number): Promise<SignIn> {
  const common = { sqlOf: () => sql, strangers: createStrangers(), throttle: createThrottle(now) };
  return createSignIn({ ...common, plan: 'FREE', passwords, now });
}

/** The real thing with a clock of its own and, where a test makes hundreds of attempts, a comparison instead of Argon2. */
async function openDesk(sql: Sql, { quick = false } = {}): Promise<Desk> {
  const verified: string[] = [];
  let nowMs = START;
  const passwords: PasswordWork = {
    hash: async (password) => (quick ? `quick:${password}` : await hashPassword(password)),
    verify: async (password, stored) => {
      verified.push(stored);
      return quick ? stored === `quick:${password}` : await verifyPassword(password, stored);
    },
  };
  const signIn = await openSignIn(sql, passwords, () => nowMs);
  return {
    signIn,
    verified,
    later: (ms) => {
      nowMs += ms;
    },
  };
}

function from(ipAddress: string) {
  return { userAgent: 'test', ipAddress };
}

const home = from('192.0.2.1');
const ada = { email: 'ada@example.com', password: PASSWORD };

async function register({ signIn }: Desk, email = ada.email): Promise<void> {
  await signIn.register({ email, password: PASSWORD, name: '' }, home);
}

onEachStore(async (t, store) => {
  t.test('unknown account, wrong password, no password: each costs one verification, and has one answer', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const desk = await openDesk(sql);
    await register(desk);
    await createUser(sql, { email: 'sso@example.com', name: '', passwordHash: null, plan: 'FREE' });
    for (const email of [ada.email, 'nobody@example.com', 'sso@example.com']) {
      desk.verified.length = 0;
      await t.rejects(desk.signIn.login({ email, password: 'wrong' }, home), wrong, email);
      t.equal(desk.verified.length, 1);
      t.match(desk.verified[0], /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/, 'the same costs');
    }
    t.match(await desk.signIn.login({ email: ' Ada@Example.COM ', password: PASSWORD }, home), {
      user: { email: ada.email, plan: 'FREE' },
      refreshToken: /^[\w-]{43}$/,
    });
  });

  t.test('a password that is changed while it is verified signs nobody in', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const passwords: PasswordWork = {
      hash: async (password) => password,
      async verify(password, stored) {
        await sql`UPDATE users SET password_hash = 'another'`;
        return password === stored;
      },
    };
    const signIn = await openSignIn(sql, passwords, () => START);
    await signIn.register({ ...ada, name: '' }, home);
    await t.rejects(signIn.login(ada, home), wrong);
  });

  t.test('ten tries at an account from one address, then one a minute; nothing is verified in between', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const desk = await openDesk(sql, { quick: true });
    await register(desk);
    for (const email of [ada.email, 'nobody@example.com']) {
      const attempt = (password = 'wrong') => desk.signIn.login({ email, password }, home);
      for (let n = 0; n < rules.signInsOfPair.burst; n += 1) await t.rejects(attempt(), wrong);
      desk.verified.length = 0;
      for (let n = 0; n < 3; n += 1) await t.rejects(attempt(PASSWORD), { ...throttled, retryAfterSeconds: 60 });
      t.same(desk.verified, []);
      desk.later(59_000);
      await t.rejects(attempt(PASSWORD), { ...throttled, retryAfterSeconds: 1 });
      desk.later(1_000);
      await t.rejects(attempt(), wrong, 'refused attempts did not count');
      await t.rejects(attempt(), throttled);
    }
    t.ok(await desk.signIn.login(ada, from('192.0.2.2')), 'the owner at another address');
  });

  t.test('sign-ins that succeed cost nothing', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const desk = await openDesk(sql, { quick: true });
    await register(desk);
    for (let n = 0; n < 150; n += 1) await desk.signIn.login(ada, home);
    t.pass('150 in a row');
  });

  t.test('one address has thirty tries, whatever accounts it tries', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const desk = await openDesk(sql, { quick: true });
    const attempt = (n: number, ipAddress: string) =>
      desk.signIn.login({ email: `${n}@example.com`, password: 'wrong' }, from(ipAddress));
    // An IPv6 customer has a /64 of addresses at least.
    for (let n = 0; n < rules.signInsOfAddress.burst; n += 1) await t.rejects(attempt(n, `2001:db8::${n}`), wrong);
    await t.rejects(attempt(100, '2001:db8::ffff'), { ...throttled, retryAfterSeconds: 20 });
    await t.rejects(attempt(101, '2001:db8:0:1::1'), wrong);
  });

  t.test('an account that many addresses try stays open for where its owner is signed in', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const desk = await openDesk(sql, { quick: true });
    await register(desk);
    for (let n = 0; n < rules.signInsOfAccount.burst; n += 1) {
      await t.rejects(desk.signIn.login({ ...ada, password: 'wrong' }, from(`198.51.100.${n}`)), wrong);
    }
    await t.rejects(desk.signIn.login(ada, from('203.0.113.1')), { ...throttled, retryAfterSeconds: 36 });
    t.ok(await desk.signIn.login(ada, home));
    await t.rejects(desk.signIn.login({ ...ada, password: 'wrong' }, home), wrong);
    desk.later(rules.signInsOfAccount.everyMs);
    t.ok(await desk.signIn.login(ada, from('203.0.113.1')), 'elsewhere a little later');
  });

  t.test('a clock that was ahead for a while keeps nobody out when it is right again', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const desk = await openDesk(sql, { quick: true });
    await register(desk);
    const attempt = () => desk.signIn.login({ ...ada, password: 'wrong' }, home);
    const allTries = async (): Promise<void> => {
      for (let n = 0; n < rules.signInsOfPair.burst; n += 1) await t.rejects(attempt(), wrong);
      await t.rejects(attempt(), { ...throttled, retryAfterSeconds: 60 });
    };
    desk.later(86_400_000);
    await allTries();
    desk.later(-86_400_000);
    t.ok(await desk.signIn.login(ada, home));
    await allTries();
  });

  t.test('attempts at the same time are counted one by one, on every node', async (t) => {
    const target = await store.target(t);
    await makeTransactionsRepeatable((await open(t, target)).sql);
    const nodes = await Promise.all([open(t, target), open(t, target)]);
    const rule = { name: 'test', burst: 20, everyMs: 1000 };
    const throttles = nodes.map(() => createThrottle(() => START));
    const taken = await Promise.all(
      Array.from({ length: 100 }, () =>
        nodes.map(async ({ sql }, index) => await throttles[index]?.take(sql, [[rule, 'x']])),
      ).flat(),
    );
    t.equal(taken.filter((refusal) => refusal === null).length, 20);
    const [one] = nodes;
    if (one === undefined) throw new Error('There are two');
    t.equal(await throttles[0]?.take(one.sql, [[rule, 'y']]), null, 'another subject');
    t.equal(await sweepAttempts(one.sql, START), 0);
    t.equal(await sweepAttempts(one.sql, START + 1000), 1);
    t.equal(await sweepAttempts(one.sql, START + 20_000), 1);
  });

  t.test('an address that is taken, in any case, makes no account', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const desk = await openDesk(sql, { quick: true });
    await register(desk);
    await t.rejects(register(desk, 'ADA@example.com'), { code: 'conflict' });
    for (let n = 0; n < 28; n += 1) await register(desk, `${n}@example.com`);
    await t.rejects(register(desk, 'one-more@example.com'), throttled);
  });

  t.test(
    'registrations of one account are counted from all addresses together, and refused before a hash',
    async (t) => {
      const { sql } = await open(t, await store.target(t));
      let hashes = 0;
      const hash = async (password: string) => {
        hashes += 1;
        return password;
      };
      let nowMs = START;
      const passwords = { hash, verify: async () => false };
      const signIn = await openSignIn(sql, passwords, () => nowMs);
      const attempt = (email: string, ipAddress: string) =>
        signIn.register({ email, password: PASSWORD, name: '' }, from(ipAddress));
      await attempt(ada.email, '198.51.100.0');
      for (let n = 1; n < rules.registrationsOfAccount.burst; n += 1) {
        await t.rejects(attempt(ada.email.toUpperCase(), `198.51.100.${n}`), { code: 'conflict' });
      }
      const before = hashes;
      // More than an address may have, to see that what is refused isn't counted there.
      for (let n = 0; n <= rules.registrationsOfAddress.burst; n += 1) {
        await t.rejects(attempt(` ${ada.email}`, '203.0.113.1'), { ...throttled, retryAfterSeconds: 60 });
      }
      t.equal(hashes, before);
      t.ok(await attempt('eve@example.com', '203.0.113.1'), 'another account from there');
      nowMs += rules.registrationsOfAccount.everyMs;
      await t.rejects(attempt(ada.email, '203.0.113.1'), { code: 'conflict' });
      await t.rejects(attempt(ada.email, '203.0.113.2'), throttled);
    },
  );
});
