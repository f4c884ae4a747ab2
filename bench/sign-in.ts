// `npm run bench:sign-in`: whether time tells an unknown account from a wrong password, or an unknown key from a deleted one; pairs in turns against one server.
import { createKey } from '../src/account/keys.js';
import { createUser, hashPassword } from '../src/account/users.js';
import { openPostgres } from '../src/store/postgres.js';
import { startPostgres } from '../test/fixtures/postgres.js';
import { startRedis } from '../test/fixtures/redis.js';
import { startServer } from '../test/fixtures/server.js';
import { ask, bearer, post, signIn } from '../test/fixtures/sign-in.js';
import { upload } from '../test/fixtures/upload.js';

const SIGN_IN_PAIRS = 300;
const KEY_PAIRS = 2_000;
/** Guesses for one account are limited to 100 in all. */
const PAIRS_PER_ACCOUNT = 50;

const print = (text: string): void => void process.stdout.write(`${text}\n`);

function quantile(values: readonly number[], share: number): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN;
}

/** Times both in turns, the first one now the one and now the other; milliseconds. */
async function compare(
  name: string,
  pairs: number,
  sides: readonly [(pair: number) => Promise<number>, (pair: number) => Promise<number>],
  status: number,
): Promise<void> {
  const times: [number[], number[]] = [[], []];
  const timed = async (side: 0 | 1, pair: number): Promise<void> => {
    const startedAt = performance.now();
    const answered = await sides[side](pair);
    times[side].push(performance.now() - startedAt);
    if (answered !== status) throw new Error(`${name}: ${answered} instead of ${status}`);
  };
  for (let pair = 0; pair < pairs; pair += 1) {
    const first = pair % 2 === 0 ? 0 : 1;
    await timed(first, pair);
    await timed(first === 0 ? 1 : 0, pair);
  }
  const differences = times[0].map((time, pair) => time - (times[1][pair] ?? 0));
  const [one, other] = times.map((list) =>
    [0.25, 0.5, 0.75].map((share) => quantile(list, share).toFixed(2)).join(' '),
  );
  print(
    `${name}, ${pairs} pairs: quartiles ${one} ms and ${other} ms; median of the differences ${quantile(differences, 0.5).toFixed(3)} ms`,
  );
}

const postgres = await startPostgres();
const redis = await startRedis();
const databaseUrl = await postgres.database();
const server = await startServer({
  isSupervised: true,
  env: {
    DATABASE_URL: databaseUrl,
    REDIS_URL: redis.url,
    TRUSTED_PROXIES: '127.0.0.0/8',
    PLANS: 'LARGE:999999999',
    BOOTSTRAP_PLAN: 'LARGE',
  },
});
try {
  const { sql, close } = await openPostgres({ kind: 'url', url: databaseUrl });
  const passwordHash = await hashPassword('the right one, of course');
  for (let account = 0; account * PAIRS_PER_ACCOUNT < SIGN_IN_PAIRS; account += 1) {
    await createUser(sql, { email: `known${account}@bench.example`, name: 'Known', passwordHash, plan: 'LARGE' });
  }
  let address = 0;
  const signInAs = async (email: string): Promise<number> => {
    address += 1;
    const from = { 'X-Forwarded-For': `198.18.${address >> 8}.${address & 255}` };
    return (await post(`${server.url}/web/auth/login`, { email, password: 'not the right one' }, from)).status;
  };
  await compare(
    'unknown account and wrong password',
    SIGN_IN_PAIRS,
    [
      (pair) => signInAs(`nobody${pair}@bench.example`),
      (pair) => signInAs(`known${Math.floor(pair / PAIRS_PER_ACCOUNT)}@bench.example`),
    ],
    401,
  );
  const { accessToken, userId } = await signIn(server.url);
  const { value, keyId } = await createKey(sql, { userId, name: 'deleted' });
  await close();
  await upload(server.url, 'used once', { key: value });
  await ask(`${server.url}/web/keys/${keyId}`, { method: 'DELETE', headers: bearer(accessToken) });
  const unknown = (pair: number): string => pair.toString(16).padStart(32, 'f');
  await compare(
    'unknown key and deleted key',
    KEY_PAIRS,
    [
      async (pair) => (await upload(server.url, 'x', { key: unknown(pair) })).status,
      async () => (await upload(server.url, 'x', { key: value })).status,
    ],
    401,
  );
} finally {
  await server.stop();
  await redis.stop();
  await postgres.stop();
}
