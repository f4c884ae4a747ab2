// What protects an account, over the wire: another password by a link, a second factor, and its end by its owner.
import { TOTP, URI } from 'otpauth';
import t from 'tap';
import { z } from 'zod';
import { mainPath } from '../../src/paths.js';
import { embeddedSocketDirectory } from '../../src/store/embedded/embedded.js';
import { openPostgres } from '../../src/store/postgres.js';
import { start } from '../fixtures/command.js';
import { startMailServer } from '../fixtures/mail-server.js';
import { startServer } from '../fixtures/server.js';
import { ask, bearer, EMAIL, PASSWORD, post, signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const smtp = await startMailServer();
const server = await startServer({
  env: {
    REGISTRATION: 'open',
    BASE_URL: 'http://127.0.0.1/',
    SMTP_URL: smtp.url,
    MAIL_FROM: 'scans@example.com',
    OPERATOR_2FA: 'required',
  },
});
t.teardown(async () => {
  await server.stop();
  await smtp.stop();
});
const { url } = server;
const ADA = 'ada@example.com';
const OTHER = 'another password for tests';
const login = (email: string, password: string, code?: string) =>
  post(`${url}/web/auth/login`, { email, password, ...(code === undefined ? {} : { code }) });
const wrong = { status: 401, body: { message: 'E-mail or password wrong' } };
const wrongToken = { status: 400, body: { message: 'token: is unknown, used or expired' } };

async function cli(...args: string[]): Promise<string> {
  const env = { BASE_URL: 'https://scan.example' };
  const { code, stdout, stderr } = await start(t, mainPath, [...args, '--data-dir', `${server.directory}/data`], {
    env,
  }).ended;
  t.equal(code, 0, stderr);
  return stdout;
}

t.test('another password by a link that comes by mail', async (t) => {
  t.equal((await post(`${url}/web/auth/register`, { email: ADA, password: PASSWORD, name: '' })).status, 201);
  t.match(await ask(`${url}/web/auth/registration`), { body: { passwordMail: true } });
  const { accessToken } = await signIn(url, ADA, PASSWORD);
  const asked = [ADA, 'nobody@example.com', ` ${ADA.toUpperCase()} `];
  const answers = await Promise.all(asked.map((email) => post(`${url}/web/auth/reset-request`, { email })));
  for (const answer of answers) t.match(answer, { status: 204, body: null }, 'the same, whoever it is');
  const links = await until(() => {
    const found = [...smtp.mail().matchAll(/^http:\/\/127\.0\.0\.1\/reset#([\w-]{43})$/gm)].map(([, token]) => token);
    return found.length === 2 && found;
  });
  t.notMatch(smtp.mail(), /nobody@/);
  t.match(smtp.mail(), /^From: scans@example\.com$/m);
  const [token = '', second = ''] = links;
  t.match(await post(`${url}/web/auth/reset`, { token, newPassword: 'short' }), { status: 400 });
  t.equal((await post(`${url}/web/auth/reset`, { token, newPassword: OTHER })).status, 204);
  t.match(await post(`${url}/web/auth/reset`, { token, newPassword: OTHER }), wrongToken, 'it was used');
  t.match(
    await post(`${url}/web/auth/reset`, { token: second, newPassword: OTHER }),
    wrongToken,
    'and so ends the other',
  );
  t.match(await post(`${url}/web/auth/reset`, { token: 'x', newPassword: OTHER }), wrongToken);
  t.equal((await ask(`${url}/web/users/me`, { headers: bearer(accessToken) })).status, 401, 'sessions have ended');
  t.match(await login(ADA, PASSWORD), wrong);
  t.equal((await login(ADA, OTHER)).status, 200);
});

t.test('a link from the command line ends with a change of the password', async (t) => {
  const printed = await cli('user', 'reset', ADA);
  const [, token = ''] = /^https:\/\/scan\.example\/reset#([\w-]{43})\n/.exec(printed) ?? [];
  t.match(token, /./, printed);
  const { accessToken } = await signIn(url, ADA, OTHER);
  const change = { newPassword: PASSWORD, currentPassword: OTHER };
  const headers = { ...bearer(accessToken), 'Content-Type': 'application/json' };
  t.equal((await ask(`${url}/web/users/me`, { method: 'PUT', headers, body: JSON.stringify(change) })).status, 200);
  t.match(await post(`${url}/web/auth/reset`, { token, newPassword: OTHER }), wrongToken);
});

t.test('no link goes to an address that is changed at that moment', async (t) => {
  const moves = { email: 'moves@example.com', password: PASSWORD, name: '' };
  t.equal((await post(`${url}/web/auth/register`, moves)).status, 201);
  const socketDirectory = embeddedSocketDirectory(`${server.directory}/data`);
  const { sql, close } = await openPostgres({ kind: 'embedded', socketDirectory });
  t.teardown(close);
  const waits = async () =>
    (await sql`SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FROM users%'`).count > 0;
  await sql.transaction('readCommitted', async (tx) => {
    await tx`UPDATE users SET email = 'moved@example.com' WHERE email = ${moves.email}`;
    t.equal((await post(`${url}/web/auth/reset-request`, { email: moves.email })).status, 204);
    await until(async () => smtp.mail().includes(moves.email) || (await waits()));
  });
  await post(`${url}/web/auth/reset-request`, { email: 'moved@example.com' });
  await until(() => smtp.mail().includes('moved@example.com'));
  t.notMatch(smtp.mail(), moves.email);
});

t.test('who asks for links again and again is refused, and the mailbox is spared', async (t) => {
  const statuses: number[] = [];
  for (let count = 0; count < 4; count += 1) {
    statuses.push((await post(`${url}/web/auth/reset-request`, { email: 'full@example.com' })).status);
  }
  t.strictSame(statuses, [204, 204, 204, 429]);
});

const Enrolment = z.object({ secret: z.string(), uri: z.string() });
const Recovery = z.object({ recoveryCodes: z.array(z.string()) });

t.test('a second factor', async (t) => {
  const admin = await signIn(url);
  const other = await signIn(url);
  const path = `${url}/web/users/me/two-factor`;
  const as = bearer(admin.accessToken);
  const health = () => ask(`${url}/web/admin/health`, { headers: as });
  t.match(await health(), { status: 403, body: { message: 'Operators need a second factor' } });
  t.match(await post(path, { currentPassword: 'not this one at all' }, as), { status: 400 });
  t.match(await post(`${path}/confirmation`, { code: '000000' }, as), { status: 409 });
  const { uri, secret } = Enrolment.parse((await post(path, { currentPassword: PASSWORD }, as)).body);
  t.match(uri, /^otpauth:\/\/totp\/Sluice:admin%40sluice\.local\?issuer=Sluice&secret=[A-Z2-7]{32}/);
  const totp = URI.parse(uri);
  if (!(totp instanceof TOTP)) throw new Error('The codes go by time');
  t.equal(totp.secret.base32, secret);
  /** Of a time step that no test has used: each code is good once. */
  const codeAt = (steps: number): string => totp.generate({ timestamp: Date.now() + steps * 30_000 });
  t.match(await login(EMAIL, PASSWORD), { status: 200 }, 'it counts when it is confirmed');
  t.match(await post(`${path}/confirmation`, { code: 'abcdef' }, as), { status: 400 });
  const confirmed = await post(`${path}/confirmation`, { code: codeAt(-1) }, as);
  const { recoveryCodes } = Recovery.parse(confirmed.body);
  t.equal(new Set(recoveryCodes).size, 10);
  t.equal((await ask(`${url}/web/users/me`, { headers: bearer(other.accessToken) })).status, 401, 'others end');
  t.match(await ask(`${url}/web/users/me`, { headers: as }), { body: { twoFactor: true } });
  t.equal((await health()).status, 200);

  t.match(await login(EMAIL, PASSWORD), { status: 401, body: { message: 'Two-factor code missing' } });
  t.match(await login(EMAIL, 'not this one at all', codeAt(0)), wrong, 'the password first');
  const codeWrong = { status: 401, body: { message: 'Two-factor code wrong' } };
  t.match(await login(EMAIL, PASSWORD, '12345'), codeWrong);
  t.match(await login(EMAIL, PASSWORD, codeAt(-20)), codeWrong, 'an old one');
  const code = codeAt(1);
  const twice = await Promise.all([login(EMAIL, PASSWORD, code), login(EMAIL, PASSWORD, code)]);
  t.strictSame(twice.map(({ status }) => status).sort(), [200, 401], 'a code is good once, also for two at a time');
  const [recovery = '', spare = ''] = recoveryCodes;
  t.equal((await login(EMAIL, PASSWORD, recovery.toLowerCase().replaceAll('-', ' '))).status, 200);
  t.match(await login(EMAIL, PASSWORD, recovery), codeWrong);

  const removal = { currentPassword: PASSWORD, code: spare };
  t.match(await post(`${path}/removal`, { ...removal, code: 'AAAA' }, as), { status: 400 });
  t.equal((await post(`${path}/removal`, removal, as)).status, 204);
  t.equal((await login(EMAIL, PASSWORD)).status, 200);
});

async function turnOn(email: string): Promise<number> {
  const as = bearer((await signIn(url, email, PASSWORD)).accessToken);
  const path = `${url}/web/users/me/two-factor`;
  const { uri } = Enrolment.parse((await post(path, { currentPassword: PASSWORD }, as)).body);
  const totp = URI.parse(uri);
  if (!(totp instanceof TOTP)) throw new Error('The codes go by time');
  return (await post(`${path}/confirmation`, { code: totp.generate() }, as)).status;
}

t.test('codes are not guessed', async (t) => {
  const eve = 'eve@example.com';
  t.equal((await post(`${url}/web/auth/register`, { email: eve, password: PASSWORD, name: '' })).status, 201);
  t.equal(await turnOn(eve), 200);
  let status = 401;
  let guesses = 0;
  for (; status === 401; guesses += 1) ({ status } = await login(eve, PASSWORD, 'AAAA-AAAA-AAAA-AAAA'));
  t.equal(status, 429);
  t.ok(guesses <= 13, `${guesses} guesses`);
});

t.test('the command line lets in who has lost the phone', async (t) => {
  t.equal(await turnOn(ADA), 200);
  t.equal((await login(ADA, PASSWORD)).status, 401);
  t.match(await cli('user', 'two-factor-off', ADA), /signs in with the password alone/);
  t.equal((await login(ADA, PASSWORD)).status, 200);
});

t.test('an account is deleted by its owner, with the password, and an operator gives the role up first', async (t) => {
  const { accessToken } = await signIn(url, ADA, PASSWORD);
  const as = bearer(accessToken);
  const key = await post(`${url}/web/keys`, { name: 'one' }, as);
  const { value } = z.object({ value: z.string() }).loose().parse(key.body);
  t.equal((await upload(url, 'x', { key: value })).status, 200);
  const store = await openPostgres({
    kind: 'embedded',
    socketDirectory: embeddedSocketDirectory(`${server.directory}/data`),
  });
  t.teardown(() => store.close());
  const { sql } = store;
  const end = (currentPassword: string, headers = as) =>
    post(`${url}/web/users/me/deletion`, { currentPassword }, headers);
  t.match(await end('not this one at all'), { status: 400 });
  const late = await sql.transaction('readCommitted', async (tx) => {
    await tx`UPDATE users SET role = 'operator' WHERE email = ${ADA}`;
    const ending = end(PASSWORD);
    await until(async () => {
      const waiting =
        await sql`SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FOR NO KEY UPDATE%'`;
      return waiting.length > 0;
    });
    return { ending };
  });
  t.match(await late.ending, { status: 409 }, 'who becomes one meanwhile, too');
  await sql`UPDATE users SET role = 'user' WHERE email = ${ADA}`;
  t.equal((await end(PASSWORD)).status, 204);
  t.equal((await upload(url, 'x', { key: value })).status, 401, 'its key is none at once');
  t.equal((await ask(`${url}/web/users/me`, { headers: as })).status, 401);
  t.match(await login(ADA, PASSWORD), wrong);
  t.match(await cli('audit', '--json'), /"action": ?"account\.delete"/);
  const admin = await signIn(url);
  t.match(await end(PASSWORD, bearer(admin.accessToken)), { status: 409 });
});
