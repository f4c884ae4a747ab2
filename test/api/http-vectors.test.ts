// Raw requests of public suites (../shared/vectors): each gets one of the answers that are expected, no more requests are handled than were sent, and refused ones cost nothing.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { z } from 'zod';
import { openRaw } from '../fixtures/raw-http.js';
import { startServer } from '../fixtures/server.js';
import { upload } from '../fixtures/upload.js';

const vectorsPath = fileURLToPath(new URL('../../../../shared/vectors/http.jsonl', import.meta.url));

const Vector = z.object({
  id: z.string(),
  name: z.string(),
  rawBase64: z.string(),
  expect: z.string(),
  quota: z.string().optional(),
  maxRequests: z.number().optional(),
  steps: z.unknown().optional(),
});
type Vector = z.infer<typeof Vector>;

/** What the HTTP library decides before we see the request. None of it is handled as another request than was sent. */
const libraryDecides = new Map([
  ['http-005', 'a request line that ends within its version is answered 505 and closed, not waited for'],
  ['http-007', 'the same'],
  ['http-057', 'bytes above 0x7f around a value are stripped, so the coding reads chunked; the connection is closed'],
  ['http-105', 'a line that is only a colon ends the headers'],
  // The next three are chunk sizes and ends that it reads leniently; the connection is closed after every chunked request.
  ['http-073', 'g is taken for a digit'],
  ['http-077', 'blanks before a size'],
  ['http-079', 'an empty size'],
  ['http-081', 'data not followed by CRLF'],
  ['http-083', 'a bare LF after a size'],
  ['http-089', 'CR in an extension'],
  ['http-093', 'a colon is taken for a digit'],
]);

interface Outcome {
  readonly statuses: readonly number[];
}

/** Sends the bytes and collects every answer until the server closes the connection, which it does after ten idle seconds. */
async function send(port: number, raw: Buffer): Promise<Outcome> {
  const connection = await openRaw(port);
  await connection.send(raw);
  const statuses: number[] = [];
  for (let answer = await connection.answer(); answer !== null; answer = await connection.answer()) {
    statuses.push(answer.status);
  }
  connection.end();
  return { statuses };
}

function isExpected({ expect }: Vector, { statuses }: Outcome): boolean {
  const [first] = statuses;
  if (first === undefined) return /close|wait/.test(expect);
  // Without a status it is told how many requests may be handled; that is judged apart.
  const wanted: readonly string[] = expect.match(/\b[1-5](?:\d\d|xx)\b/g) ?? [];
  if (wanted.length === 0) return /^two answers|^each request|^first request/.test(expect);
  // 505 is how the library refuses whatever it can't read as a request line of HTTP/1.1.
  if (first === 505) return /\b4(?:00|xx)\b|close/.test(expect);
  // The vectors know no page at `/`: what would be 404 for a POST there is 405.
  if (first === 405 && wanted.includes('404')) return true;
  return wanted.some((status) => String(first).startsWith(status.replace('xx', '')));
}

if (!existsSync(vectorsPath)) {
  t.pass('shared/vectors is absent: the tables of framing.test.ts stand for themselves');
} else {
  const vectors = readFileSync(vectorsPath, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => Vector.parse(JSON.parse(line)))
    .filter(({ steps }) => steps === undefined);
  const server = await startServer();
  t.teardown(() => server.stop());
  const remaining = async (): Promise<number> =>
    Number((await upload(server.url, 'x')).headers.get('x-ratelimit-remaining'));

  const judge = async (list: readonly Vector[]): Promise<void> => {
    const outcomes = await Promise.all(
      list.map(async (vector) => ({
        vector,
        outcome: await send(server.port, Buffer.from(vector.rawBase64, 'base64')),
      })),
    );
    for (const { vector, outcome } of outcomes) {
      const { id, name, expect, maxRequests } = vector;
      const said = `${id} ${name}: ${JSON.stringify(outcome.statuses)}, expected ${expect}`;
      // Those that are excepted must need it: the list says what is, not what was.
      t.equal(isExpected(vector, outcome), !libraryDecides.has(id), said);
      t.ok(outcome.statuses.length <= (maxRequests ?? 3), `${id}: at most ${maxRequests ?? 3} answers`);
    }
  };

  t.test('requests that must not cost anything', async (t) => {
    const before = await remaining();
    await judge(vectors.filter(({ quota }) => quota === 'unchanged'));
    t.equal(before - (await remaining()), 1);
  });
  t.test('all others', async () => {
    await judge(vectors.filter(({ quota }) => quota !== 'unchanged'));
  });
  t.test('the next request is served', async (t) => {
    t.equal((await upload(server.url, 'x')).status, 200);
  });
}
