// Webhooks over the wire: made under the key and behind the sign-in, signed as a customer's library expects it, told of every scan, in order, again after failures, and never to a place that is refused.
import t, { type Test } from 'tap';
import { z } from 'zod';
import { makeAccount } from '../fixtures/another-account.js';
import { Scan, scanById, scanLater } from '../fixtures/async-scans.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { onNodes } from '../fixtures/nodes.js';
import { type Receiver, startReceiver } from '../fixtures/receiver.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer, type TestServer } from '../fixtures/server.js';
import { ask, bearer, signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const receivers = [await startReceiver(), await startReceiver()];
t.teardown(() => Promise.all(receivers.map((one) => one.stop())));
const env = {
  REGISTRATION: 'open',
  PLANS: 'FREE:20,BUSINESS:10000',
  URL_ALLOW_NETWORKS: '127.0.0.1/32',
};
const Hook = z.looseObject({ id: z.string(), enabled: z.boolean(), failingSince: z.string().nullable() });
const Secret = Hook.extend({ secret: z.string() });
const Deliveries = z.object({
  content: z.array(z.looseObject({ id: z.string(), state: z.string(), attempts: z.number(), event: z.string() })),
  next: z.string().nullable(),
});

interface Asked {
  readonly key?: string;
  readonly token?: string;
  readonly body?: unknown;
}

async function hooks(server: TestServer, method: string, path = '', { key = API_KEY, token, body }: Asked = {}) {
  const headers: Record<string, string> = token === undefined ? { 'X-API-KEY': key } : { ...bearer(token) };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  const under = token === undefined ? '/api/v1/webhooks' : '/web/webhooks';
  const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) };
  return await ask(`${server.url}${under}${path}`, init);
}

async function make(t: Test, server: TestServer, receiver: Receiver, settings: object = {}): Promise<string> {
  const made = await hooks(server, 'POST', '', { body: { url: receiver.url(), ...settings } });
  t.equal(made.status, 201);
  const { id, secret } = Secret.parse(made.body);
  receiver.secret = secret;
  return id;
}

onNodes({ env }, async (t, { one, other }) => {
  const [receiver = await startReceiver()] = receivers;

  t.test('a webhook is made, listed, changed, rotated and deleted, by the key and behind the sign-in', async (t) => {
    const made = await hooks(one, 'POST', '', { body: { url: receiver.url(), events: ['scan.infected'] } });
    t.match(made, {
      status: 201,
      body: { url: receiver.url(), events: ['scan.infected'], enabled: true, notice: null },
    });
    const { id, secret } = Secret.parse(made.body);
    t.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    const { accessToken: token } = await signIn(other.url);
    const listed = await hooks(other, 'GET', '', { token });
    t.match(listed, { status: 200, body: [{ id }] });
    t.notMatch(JSON.stringify(listed.body), /whsec_|secret/, 'it is not shown again');
    t.match(await hooks(other, 'PUT', `/${id}`, { token, body: { enabled: false, events: ['scan.failed'] } }), {
      status: 200,
      body: { enabled: false, events: ['scan.failed'], url: receiver.url() },
    });
    const rotated = await hooks(one, 'POST', `/${id}/rotate`);
    t.not(Secret.parse(rotated.body).secret, secret);
    const { key } = await makeAccount(one.url, 'webhooks@example.com');
    for (const [method, path] of [
      ['GET', ''],
      ['PUT', ''],
      ['DELETE', ''],
      ['POST', '/rotate'],
      ['POST', '/test'],
      ['GET', '/deliveries'],
    ] as const) {
      const answer = await hooks(one, method, `/${id}${path}`, { key, ...(method === 'PUT' ? { body: {} } : {}) });
      t.equal(answer.status, 404, `${method} ${path} of another account`);
    }
    t.match(await hooks(one, 'DELETE', `/${id}`), { status: 204 });
    t.match(await hooks(other, 'GET', `/${id}`), { status: 404 });
    const many = await Promise.all(
      Array.from({ length: 12 }, () => hooks(one, 'POST', '', { key, body: { url: receiver.url() } })),
    );
    t.equal(many.filter(({ status }) => status === 201).length, 10);
    t.equal(many.filter(({ status }) => status === 409).length, 2);
  });

  t.test(
    'places that URL scans may not reach are refused, by text and by address, and what is wrong is named',
    async (t) => {
      for (const url of [
        'http://169.254.169.254/',
        'http://10.0.0.1/',
        'ftp://example.com/',
        'http://[::1]/',
        'http://user:a@example.com/',
        'http://0x7f.1.1.1/',
        'http://metadata.google.internal/',
        '',
      ]) {
        t.match(await hooks(one, 'POST', '', { body: { url } }), { status: 400, body: { message: /^url: / } }, url);
      }
      t.match(await hooks(one, 'POST', '', { body: { url: receiver.url(), events: ['scan.begun'] } }), { status: 400 });
      t.match(await hooks(one, 'POST', '', { body: { url: receiver.url(), events: [] } }), { status: 400 });
      t.match(await hooks(one, 'POST', '', { body: { url: receiver.url(), secret: 'mine' } }), { status: 400 });
    },
  );

  t.test('every scan is told, synchronous and asynchronous, on any node, in order and signed', async (t) => {
    const begin = receiver.messages.length;
    const id = await make(t, one, receiver);
    const sync = await upload(other.url, eicar(), { filename: 'a.com' });
    const failed = await upload(one.url, '', { filename: 'empty.txt' });
    const later = await scanLater(one.url, 'clean text', { headers: { 'X-Metadata': 'mine' } });
    await receiver.until(begin + 4);
    const got = receiver.messages.slice(begin);
    const of = (scanId: string | null) =>
      got.filter(({ message }) => message.data.id === scanId).map(({ message }) => message.type);
    t.strictSame(of(sync.headers.get('x-scan-id')), ['scan.completed', 'scan.infected']);
    t.strictSame(of(failed.headers.get('x-scan-id')), ['scan.failed']);
    const laterId = Scan.parse(later.body).id;
    t.strictSame(of(laterId), ['scan.completed']);
    const told = got.find(({ message }) => message.data.id === laterId);
    const shown = await scanById(other.url, laterId, { wait: 60 });
    t.strictSame(told?.message.data, shown.body, 'what is told is the scan as the API shows it');
    t.match(shown.body, { detectedType: 'CL_TYPE_TEXT_ASCII' });
    t.equal(new Set(got.map((each) => each.id)).size, 4);
    t.match(got[0]?.id, /^msg_[0-9a-f-]{36}$/);
    t.equal(receiver.forged, 0);
    const listed = await until(async () => {
      const { content } = Deliveries.parse((await hooks(other, 'GET', `/${id}/deliveries?state=delivered`)).body);
      return content.length === 4 && content;
    });
    t.match(listed[0], { attempts: 1, status: 204, error: null, nextAttempt: null });
    const page = Deliveries.parse((await hooks(other, 'GET', `/${id}/deliveries?limit=3`)).body);
    t.equal(page.content.length, 3);
    const rest = Deliveries.parse((await hooks(other, 'GET', `/${id}/deliveries?cursor=${page.next}`)).body);
    t.strictSame(
      [...page.content, ...rest.content].map((each) => each.id),
      listed.map((each) => each.id),
    );
    t.equal(rest.next, null);

    // As one whose first answer was lost.
    await hooks(one, 'POST', `/${id}/rotate`);
    const rotated = Secret.parse((await hooks(one, 'POST', `/${id}/rotate`)).body);
    await upload(one.url, 'after the rotations');
    await receiver.until(begin + 5);
    t.equal(receiver.messages.at(-1)?.signatures, 3);
    t.equal(receiver.forged, 0, 'the secret that receivers know is good for a while');
    receiver.secret = rotated.secret;
    t.match((await hooks(other, 'POST', `/${id}/test`)).body, { delivered: true, status: 204, error: null });
    t.match(receiver.messages.at(-1), { message: { type: 'webhook.test', data: { id } } });
    t.equal(receiver.forged, 0);

    const [first] = listed;
    t.match(await hooks(one, 'POST', `/${id}/deliveries/${first?.id}/retry`), { status: 204 });
    await receiver.until(begin + 7);
    t.equal(receiver.messages.at(-1)?.id, `msg_${first?.id}`, 'sent again under its own id');
    const { accessToken: token } = await signIn(one.url);
    const retry = () => hooks(one, 'POST', `/${id}/deliveries/${id}/retry`, { token });
    let refused: unknown;
    // A slow machine gets one more every 2 seconds meanwhile.
    while (refused === undefined) {
      const answers = await Promise.all(Array.from({ length: 210 }, retry));
      refused = answers.find(({ status }) => status === 429)?.body;
    }
    const tooMany = { error: 'Too many requests', message: 'At most 200 at once, then one every 2 seconds' };
    t.match(refused, tooMany, 'each is a request to somebody else');
    await hooks(one, 'DELETE', `/${id}`);
  });

  t.test(
    'a failure is tried again, the later message of a scan waits for the earlier one, a redirect is not followed',
    async (t) => {
      const begin = receiver.messages.length;
      let refusals = 1;
      receiver.answer = () => (refusals-- > 0 ? 302 : 200);
      const id = await make(t, one, receiver, { events: ['scan.completed', 'scan.infected'] });
      const { headers } = await upload(one.url, eicar());
      await receiver.until(begin + 1);
      const waiting = await until(async () => {
        const { content } = Deliveries.parse((await hooks(other, 'GET', `/${id}/deliveries`)).body);
        return content.some(({ attempts }) => attempts === 1) && content;
      });
      t.match(waiting, [
        { event: 'scan.infected', state: 'waiting', attempts: 0 },
        {
          event: 'scan.completed',
          state: 'waiting',
          attempts: 1,
          status: 302,
          error: 'The receiver answered with status 302',
        },
      ]);
      await until(async () => Hook.parse((await hooks(one, 'GET', `/${id}`)).body).failingSince !== null);
      await receiver.until(begin + 3);
      const got = receiver.messages.slice(begin);
      t.strictSame(
        got.map(({ message }) => message.type),
        ['scan.completed', 'scan.completed', 'scan.infected'],
      );
      t.equal(got[0]?.id, got[1]?.id);
      t.ok(got.every(({ path, message }) => path === '/hook' && message.data.id === headers.get('x-scan-id')));
      await until(async () => Hook.parse((await hooks(one, 'GET', `/${id}`)).body).failingSince === null);
      receiver.answer = () => 204;
      await hooks(one, 'DELETE', `/${id}`);
    },
  );
});

t.test('with another ENCRYPTION_KEY the start says so, and nothing is sent that nobody can check', async (t) => {
  const [receiver = await startReceiver()] = receivers;
  const directory = temporaryFolder(t);
  const first = await startServer({ t, directory, env: { ...env, ENCRYPTION_KEY: 'a'.repeat(64) } });
  const id = await make(t, first, receiver);
  await first.stop();
  const second = await startServer({ t, directory, env: { ...env, ENCRYPTION_KEY: 'b'.repeat(64) } });
  await second.printed(/("level":40.*ENCRYPTION_KEY is another one than before)/);
  const begin = receiver.messages.length;
  const tried = await hooks(second, 'POST', `/${id}/test`);
  t.match(tried.body, { delivered: false, status: null, error: 'The secret can not be read: rotate it' });
  t.equal(receiver.messages.length, begin);
  t.equal((await hooks(second, 'POST', `/${id}/rotate`)).status, 200);
  t.match((await hooks(second, 'POST', `/${id}/test`)).body, { delivered: true });
});
