// Messages of webhooks go where downloads may go, and nowhere else: the table of URLs is tried with the real guard, a hostile DNS server and a receiver that counts.
import t, { type Test } from 'tap';
import { createPosts, createResolve, type Posts } from '../../src/download/downloads.js';
import { createGuard } from '../../src/download/guard.js';
import { Failure } from '../../src/errors.js';
import { addressRecords, type Question, startDnsServer } from '../fixtures/dns-server.js';
import { type Origin, type OriginAnswer, response, startOrigin } from '../fixtures/origin.js';
import { urlCases } from './url-table.js';

const MESSAGE = { headers: { 'content-type': 'application/json', 'webhook-id': 'msg_1' }, body: '{"a":"ü"}' };
const AMPLE_MS = 60_000;
const PUBLIC = ['93.184.215.14'];

interface Harness {
  readonly posts: Posts;
  readonly receiver: Origin;
  readonly dialled: string[];
}

async function openHarness(
  t: Test,
  answersOf: (name: string) => readonly string[],
  answer: OriginAnswer,
): Promise<Harness> {
  const dns = await startDnsServer((question: Question) => addressRecords(question, answersOf(question.name)));
  const receiver = await startOrigin(answer);
  t.teardown(() => Promise.all([dns.stop(), receiver.stop()]));
  const dialled: string[] = [];
  const posts = createPosts({
    guard: createGuard({ allowNetworks: [] }),
    resolve: createResolve({ servers: [dns.address], hosts: new Map(), timeoutMs: AMPLE_MS }),
    userAgent: 'Sluice/1.2.3',
    redial({ address }) {
      dialled.push(address);
      return { address: '127.0.0.1', port: receiver.port };
    },
  });
  return { posts, receiver, dialled };
}

const accepts: OriginAnswer = ({ send }) => send(response('ok'));

t.test('what the table refuses gets no connection, what it allows gets the message', async (t) => {
  let answers: readonly string[] = PUBLIC;
  const { posts, receiver, dialled } = await openHarness(t, () => answers, accepts);
  for (const { url, expected, resolves, resolvesSequence, redirect } of urlCases) {
    // Where a redirect leads matters to nobody: it isn't followed. A receiver without TLS can't be sent to.
    if (redirect !== undefined || (expected === 'allow' && !url.startsWith('http:'))) continue;
    for (const each of resolvesSequence ?? [resolves ?? PUBLIC]) {
      answers = each;
      const before = receiver.accepted;
      const sent = await posts.send(url, MESSAGE, AMPLE_MS).catch((error: unknown) => error);
      if (expected === 'allow') t.equal(sent, 200, url);
      else {
        t.type(sent, Failure, `${JSON.stringify(url)} ${each.join()}`);
        t.equal(receiver.accepted, before, 'nothing was dialled');
      }
    }
  }
  t.ok(dialled.every((address) => createGuard({ allowNetworks: [] }).checkAddress(address).allowed));
});

t.test('the message arrives as it is, a redirect is an answer, and nothing of the answer is needed', async (t) => {
  const { posts, receiver } = await openHarness(
    t,
    () => PUBLIC,
    ({ path, send }) =>
      path === '/endless'
        ? send('HTTP/1.1 204 No Content\r\n\r\n')
        : send(`HTTP/1.1 307 Temporary Redirect\r\nLocation: http://10.0.0.1/\r\nContent-Length: 9999999\r\n\r\nx`),
  );
  t.equal(await posts.send('http://receiver.example/hook?a=b', MESSAGE, AMPLE_MS), 307);
  t.equal(await posts.send('http://receiver.example/endless', MESSAGE, AMPLE_MS), 204);
  t.equal(receiver.heads.length, 2);
  const [head = ''] = receiver.heads;
  t.match(head, /^POST \/hook\?a=b HTTP\/1\.1\r\n/);
  for (const line of [
    'host: receiver.example',
    'content-type: application/json',
    'webhook-id: msg_1',
    'user-agent: sluice/1.2.3',
    'content-length: 10',
  ]) {
    t.match(head.toLowerCase(), line);
  }
});

t.test('a receiver that says nothing is given up in time, and one that is not there says why', async (t) => {
  const { posts, receiver } = await openHarness(
    t,
    () => PUBLIC,
    () => undefined,
  );
  await t.rejects(posts.send('http://receiver.example/', MESSAGE, 300), {
    message: 'Download failed: the origin took too long',
  });
  await receiver.stop();
  await t.rejects(posts.send('http://receiver.example/', MESSAGE, AMPLE_MS), {
    message: 'Download failed: no connection to the host',
  });
});
