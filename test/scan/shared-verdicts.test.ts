// Verdicts shared through a real Redis: by content and engine and nothing less, in a bounded room, and never at a scan's expense.
import { createHash } from 'node:crypto';
import t from 'tap';
import type { CompleteVerdict } from '../../src/engine/verdict.js';
import {
  createKnownVerdicts,
  createSharedVerdicts,
  createVerdictCache,
  type Known,
  type KnownVerdicts,
  type LookedAt,
  SHARED_FROM_BYTES,
} from '../../src/scan/verdicts/known.js';
import { openRedis } from '../../src/store/redis/redis.js';
import { patient, startRedis } from '../fixtures/redis.js';
import { until } from '../fixtures/until.js';

const MIB = 1024 * 1024;
const clean: LookedAt = { verdict: { kind: 'clean', encrypted: false }, durationMs: 7.5, detectedType: 'CL_TYPE_PDF' };
const verdicts: LookedAt[] = [
  clean,
  { verdict: { kind: 'clean', encrypted: true }, durationMs: 0, detectedType: null },
  { verdict: { kind: 'infected', virusName: 'Test "A"' }, durationMs: 1234.5678901, detectedType: 'CL_TYPE_ZIP' },
];

const digest = (text: string): string => createHash('sha256').update(text).digest('hex');
const engine = digest('engine');
const server = await startRedis({ t });
const redis = await openRedis({
  url: server.url,
  onReturn: async () => undefined,
  onProblem: () => undefined,
  ...patient,
});
t.teardown(() => redis.close());
t.beforeEach(() => server.client.flushall());

/** A set is not waited for; the connection keeps the order of commands. */
async function settled(): Promise<void> {
  await redis.get('nothing');
}

t.test('what one process has found, another one knows', async (t) => {
  const [one, other] = [0, 1].map(() => createSharedVerdicts(redis, { limitBytes: MIB, readBy: '1 allow' }));
  for (const verdict of verdicts) one?.set(digest(JSON.stringify(verdict)), engine, verdict);
  await settled();
  for (const verdict of verdicts) t.strictSame(await other?.get(digest(JSON.stringify(verdict)), engine), verdict);
  t.equal(await other?.get(digest('never seen'), engine), null);
});

t.test('another engine, another way to read its answer, or another content is no answer', async (t) => {
  const options = { limitBytes: 1, readBy: '1 allow' };
  const one = createSharedVerdicts(redis, options);
  one.set(digest('a'), engine, clean);
  await settled();
  t.equal(await one.get(digest('a'), digest('another engine')), null);
  t.equal(await createSharedVerdicts(redis, { ...options, readBy: '1 reject' }).get(digest('a'), engine), null);
  t.equal(await createSharedVerdicts(redis, { ...options, readBy: '2 allow' }).get(digest('a'), engine), null);
  t.equal(await one.get(digest('b'), engine), null, 'it has the same place');
  t.strictSame(await one.get(digest('a'), engine), clean);
});

t.test('what is no entry of ours is no answer', async (t) => {
  const one = createSharedVerdicts(redis, { limitBytes: 1, readBy: 'x' });
  one.set(digest('a'), engine, clean);
  await settled();
  const [key = ''] = await server.client.keys('*');
  const told = (verdict: unknown, ...rest: unknown[]): string =>
    JSON.stringify([digest('a'), `${engine} x`, verdict, ...rest]);
  t.equal(await server.client.get(key), told(clean.verdict, 7.5, 'CL_TYPE_PDF'));
  for (const text of [
    '',
    'clean',
    '{}',
    'null',
    told(null, 1, null),
    told({ kind: 'clean' }, 1, null),
    told({ kind: 'incomplete', reason: 'time' }, 1, null),
    told({ kind: 'infected', virusName: '' }, 1, null),
    told({ ...clean.verdict, virusName: 'Both' }, 1, null),
    told(clean.verdict),
    told(clean.verdict, 1),
    told(clean.verdict, -1, null),
    told(clean.verdict, '1', null),
    told(clean.verdict, 1, 'CL_TYPE\r\nSet-Cookie: a=b'),
  ]) {
    await server.client.set(key, text);
    t.equal(await one.get(digest('a'), engine), null, text);
  }
});

t.test('it takes no more of Redis than its room, and what nobody refreshes goes', async (t) => {
  const limitBytes = MIB;
  const one = createSharedVerdicts(redis, { limitBytes, readBy: '0.1.0 allow' });
  const virus: CompleteVerdict = { kind: 'infected', virusName: 'Win.Trojan.'.padEnd(80, 'x') };
  const longest = {
    verdict: virus,
    durationMs: 12345.678901234567,
    detectedType: 'CL_TYPE_TEXT_UTF16BE_'.padEnd(32, 'x'),
  };
  for (let index = 0; index < 20_000; index += 1) {
    one.set(digest(`${index}`), engine, longest);
    if (index % 1_000 === 0) await settled();
  }
  await settled();
  const keys = await server.client.keys('sluice:v:*');
  let bytes = 0;
  for (const key of keys) {
    bytes += Number(await server.client.memory('USAGE', key));
    t.ok((await server.client.pttl(key)) > 0);
  }
  t.ok(keys.length > 1_500, `${keys.length} are kept`);
  t.ok(bytes <= limitBytes, `${bytes} bytes`);
});

t.test('with Redis hung or away the answer is null, soon, and nothing is thrown', async (t) => {
  const one = createSharedVerdicts(redis, { limitBytes: MIB, readBy: 'x' });
  server.signal('SIGSTOP');
  t.equal(await one.get(digest('a'), engine), null);
  one.set(digest('a'), engine, clean);
  server.signal('SIGCONT');
  await server.kill();
  t.equal(await one.get(digest('a'), engine), null);
  one.set(digest('a'), engine, clean);
  await server.start();
  await until(() => redis.problem() === null);
  one.set(digest('a'), engine, clean);
  await settled();
  t.strictSame(await one.get(digest('a'), engine), clean);
});

const one = { epoch: 1, identity: engine };
const nameless = { epoch: 1, identity: null };
const large = { sizeBytes: SHARED_FROM_BYTES, sha256: 'known' };
const small = { sizeBytes: SHARED_FROM_BYTES - 1, sha256: 'small' };

/** As a scan asks. */
async function findKnown(known: KnownVerdicts, ...asked: Parameters<KnownVerdicts['here']>): Promise<Known | null> {
  return known.here(...asked) ?? (await known.elsewhere(...asked));
}

/** What other nodes know, of which the test sees every question. */
function otherNodes(known: readonly string[]) {
  const asked: string[] = [];
  const told: string[] = [];
  const shared = {
    async get(sha256: string) {
      asked.push(sha256);
      return known.includes(sha256) ? clean : null;
    },
    set: (sha256: string) => told.push(sha256),
  };
  return { asked, told, shared };
}

t.test('others are asked about large contents only, and what they know is asked for once', async (t) => {
  const { asked, told, shared } = otherNodes(['known']);
  const known = createKnownVerdicts({ cache: createVerdictCache({ limitBytes: MIB }), shared, scope: 'shared' });
  t.equal(await findKnown(known, large, nameless, 'ada'), null, 'an engine without an identity has no like');
  t.equal(await findKnown(known, small, one, 'ada'), null);
  t.strictSame(asked, []);
  t.strictSame(await findKnown(known, large, one, 'ada'), { ...clean, isOwn: false });
  t.strictSame(await findKnown(known, large, one, 'ada'), { ...clean, isOwn: true });
  t.equal(asked.filter((digest) => digest === 'known').length, 1);
  t.equal(asked.length, 2, 'and for the account that asks');
  t.equal(told.length, 1, 'that this account has scanned it');
  t.notOk(told.includes('known'));
  known.keep(small, one, 'ada', clean);
  known.keep({ ...large, sha256: 'other' }, nameless, 'ada', clean);
  t.equal(told.length, 1);
  known.keep({ ...large, sha256: 'new' }, one, 'ada', clean);
  t.equal(told.length, 3);
  t.ok(told.includes('new'));
  t.strictSame(await findKnown(known, small, one, 'ada'), { ...clean, isOwn: true });
  t.strictSame(await findKnown(known, small, one, 'eve'), { ...clean, isOwn: false });
  t.match(await findKnown(known, large, { ...one, epoch: 2 }, 'ada'), clean, 'after a reload it is asked for again');
  t.equal(asked.filter((digest) => digest === 'known').length, 2);
});

t.test('with the scope of an account nothing is found or stored under the digest of the content', async (t) => {
  const { asked, told, shared } = otherNodes(['known', 'new']);
  const cache = createVerdictCache({ limitBytes: MIB });
  const known = createKnownVerdicts({ cache, shared, scope: 'account' });
  const fresh = { ...large, sha256: 'new' };
  t.equal(await findKnown(known, large, one, 'ada'), null);
  known.keep(fresh, one, 'ada', clean);
  known.keep(small, one, 'ada', clean);
  t.strictSame(await findKnown(known, fresh, one, 'ada'), { ...clean, isOwn: true });
  for (const content of [fresh, small]) t.equal(await findKnown(known, content, one, 'eve'), null);
  for (const digest of [...asked, ...told]) t.notOk(['known', 'new'].includes(digest));
  t.equal(cache.get('small', 1)?.isOf('eve'), false);
});
