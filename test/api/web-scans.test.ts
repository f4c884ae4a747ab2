// POST /web/scans: the same result, limit and quota as the public route, for users who are signed in, and uploads only.
import t from 'tap';
import { z } from 'zod';
import { enoughOfTheHour, unitsLeft } from '../fixtures/hour.js';
import { filePart, openRaw, scanRequest } from '../fixtures/raw-http.js';
import { eicar } from '../fixtures/samples.js';
import { startServer } from '../fixtures/server.js';
import { ask, bearer, signIn } from '../fixtures/sign-in.js';
import { formOf, upload } from '../fixtures/upload.js';
import { postSignedIn, uploadSignedIn } from '../fixtures/web-scans.js';

/** Of 60 KB each: more than may be kept of uploads before it is known whose they are. */
const BURST = 400;
const server = await startServer({ t });
const { accessToken: token } = await signIn(server.url);

t.test('an infection is found, the quota is that of the keys', async (t) => {
  await enoughOfTheHour();
  const answer = await uploadSignedIn(server.url, token, eicar().toString('latin1'));
  t.equal(answer.status, 200);
  t.match(answer.body, { filename: 'a.bin', extension: 'bin', sizeInBytes: 68, infected: true, virusName: /Eicar/i });
  t.strictSame(Object.keys(answer.body), [
    'filename',
    'extension',
    'sizeInBytes',
    'scanDurationMillis',
    'infected',
    'virusName',
  ]);
  const remaining = Number(answer.headers.get('x-ratelimit-remaining'));
  const byKey = await upload(server.url, 'clean');
  t.equal(Number(byKey.headers.get('x-ratelimit-remaining')), remaining - 1);
});

t.test('what is wrong with a request is said as on the public route', async (t) => {
  t.match(await postSignedIn(server.url, token, formOf(['other', 'x'])), {
    status: 400,
    body: { error: 'Scan failed' },
  });
  t.match(await uploadSignedIn(server.url, token, ''), { status: 400, body: { message: 'File is empty' } });
  const tooLarge = await uploadSignedIn(server.url, token, 'x'.repeat(10 * 1024 * 1024 + 1));
  t.match(tooLarge, { status: 400, body: { message: 'File size exceeds limit: 10MB' } });
  const refused = await postSignedIn(server.url, token, formOf(['url', 'http://93.184.216.34/file']));
  t.match(refused, {
    status: 400,
    body: { error: 'Scan failed', message: 'URL rejected: this route scans uploads only' },
  });
  t.ok(refused.headers.get('x-ratelimit-remaining'));
});

t.test('without a token, or with a key instead, nothing is scanned', async (t) => {
  t.match(await postSignedIn(server.url, '', new FormData()), { status: 401, body: { error: 'Unauthorized' } });
  const withKey = await fetch(`${server.url}/web/scans`, {
    method: 'POST',
    body: formOf(['file', new Blob(['x']), 'a.bin']),
    headers: { 'X-API-KEY': '0123456789abcdef0123456789abcdef' },
  });
  t.equal(withKey.status, 401);
  t.match(await withKey.json(), { error: 'Unauthorized', message: 'Access token missing' });
});

t.test(
  'uploads with a token that was accepted before have room while their session is asked for, and none of them gets out without one',
  async (t) => {
    const before = await rows();
    const connections = await Promise.all(Array.from({ length: BURST }, () => openRaw(server.port)));
    const body = filePart(Buffer.alloc(60_000, 'x'));
    const headers = { 'X-API-KEY': null, Authorization: `Bearer ${token}` };
    const request = Buffer.from(scanRequest(body, headers).toString('latin1').replace('/api/v1/scans', '/web/scans'));
    // All of it is there when the process goes on, and is read before the first session is found.
    process.kill(server.serverPid(), 'SIGSTOP');
    await Promise.all(connections.map((connection) => connection.send(request)));
    process.kill(server.serverPid(), 'SIGCONT');
    const answers = await Promise.all(connections.map((connection) => connection.answer()));
    for (const connection of connections) connection.end();
    // On a machine that is busy with something else some wait too long for their turn at the sessions.
    const inTime = answers.filter(
      (answer) => !answer?.body.includes('Too many questions to the account store at once'),
    );
    t.strictSame([...new Set(inTime.map((answer) => answer?.status))], [200]);
    t.equal(await rows(), before + inTime.length);
    const other = await signIn(server.url);
    t.match(await uploadSignedIn(server.url, other.accessToken, 'known'), { status: 200 });
    await ask(`${server.url}/web/users/me/sessions/${other.sessionId}`, { method: 'DELETE', headers: bearer(token) });
    t.match(await uploadSignedIn(server.url, other.accessToken, 'ended'), { status: 401 });
    t.equal(await rows(), before + inTime.length + 1);
  },
);

t.test(
  'with the same Idempotency-Key there is one scan, one unit and one answer, as on the public route',
  async (t) => {
    await enoughOfTheHour();
    const [left, before] = [await unitsLeft(server.url), await rows()];
    const first = await uploadSignedIn(server.url, token, 'once', 'mine');
    t.match(first, { status: 200, body: { filename: 'a.bin' } });
    t.ok(first.headers.get('x-ratelimit-remaining'));
    const again = await uploadSignedIn(server.url, token, 'once', 'mine');
    t.strictSame(again.body, first.body);
    t.equal(again.headers.get('idempotent-replayed'), 'true');
    t.equal(again.headers.get('x-scan-id'), first.headers.get('x-scan-id'));
    // At once: one of the two waits for the other.
    const both = await Promise.all(['both', 'both'].map((id) => uploadSignedIn(server.url, token, 'twice', id)));
    t.equal(new Set(both.map(({ headers }) => headers.get('x-scan-id'))).size, 1);
    t.match(await uploadSignedIn(server.url, token, 'other', 'mine'), { status: 409, body: { error: 'Conflict' } });
    t.match(await uploadSignedIn(server.url, token, 'x', 'a b'), {
      status: 400,
      body: { message: /^Idempotency-Key: / },
    });
    t.match(await uploadSignedIn(server.url, '', 'once', 'mine'), { status: 401 });
    const url = async (address: string) => {
      const headers = { ...bearer(token), 'Content-Type': 'application/json', 'Idempotency-Key': 'url' };
      const body = JSON.stringify({ url: address });
      return await fetch(`${server.url}/web/url-scans`, { method: 'POST', headers, body });
    };
    const refused = await url('http://10.0.0.1/a');
    const refusedAgain = await url('http://10.0.0.1/a');
    t.strictSame([refused.status, refusedAgain.status], [400, 400]);
    t.equal(refusedAgain.headers.get('idempotent-replayed'), 'true');
    t.equal(refusedAgain.headers.get('x-scan-id'), refused.headers.get('x-scan-id'));
    t.equal((await url('http://10.0.0.1/b')).status, 409);
    t.equal(left - (await unitsLeft(server.url)), 3);
    t.equal((await rows()) - before, 3);
  },
);

async function rows(): Promise<number> {
  const { body } = await ask(`${server.url}/web/scans/stats`, { headers: bearer(token) });
  return z.object({ totalElements: z.number() }).parse(body).totalElements;
}
