// The short form of the end of all sessions against what crosses it (sessions.ts is the long one), and against a scan that is under way.
import { request } from 'node:http';
import t from 'tap';
import { startPostgres } from '../fixtures/postgres.js';
import { generator } from '../fixtures/random.js';
import { startServer } from '../fixtures/server.js';
import { ask, bearer, mySessions, signIn } from '../fixtures/sign-in.js';
import { uploadSignedIn } from '../fixtures/web-scans.js';
import { runSessionRounds } from './session-rounds.js';

t.test('an ended session is refused by four servers at once, whatever was under way', async (t) => {
  const report = await runSessionRounds({ rounds: 12, random: generator(7) });
  t.strictSame(report.problems, []);
  t.equal(report.loginsAfter + report.loginsBefore, 12);
});

t.test('a scan that was let in before its session ended is answered, and the next one refused', async (t) => {
  const postgres = await startPostgres();
  const server = await startServer({ isSupervised: true, env: { DATABASE_URL: await postgres.database() } });
  const { accessToken } = await signIn(server.url);
  const head = '--B\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nbeginning, ';
  const tail = 'end\r\n--B--\r\n';
  const headers = {
    ...bearer(accessToken),
    'Content-Type': 'multipart/form-data; boundary=B',
    'Content-Length': head.length + tail.length,
    Expect: '100-continue',
  };
  const scan = request(`${server.url}/web/scans`, { method: 'POST', headers });
  const answered = new Promise<number | undefined>((resolve, reject) => {
    scan.on('error', reject).on('response', (response) => {
      response.resume();
      resolve(response.statusCode);
    });
  });
  // The server asks for the body once it has let the request in.
  await new Promise((resolve) => scan.on('continue', resolve).flushHeaders());
  scan.write(head);
  const ended = await ask(`${server.url}/web/users/me/sessions`, { method: 'DELETE', headers: bearer(accessToken) });
  t.equal(ended.status, 204);
  t.equal((await uploadSignedIn(server.url, accessToken, 'next')).status, 401);
  scan.end(tail);
  t.equal(await answered, 200);
  t.equal((await mySessions(server.url, bearer(accessToken))).status, 401);
  await server.stop();
  await postgres.stop();
});
