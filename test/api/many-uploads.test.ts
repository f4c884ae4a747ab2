// Many uploads of one account at once, and nothing else going on: none is refused, in whatever way they are asked for.
import t from 'tap';
import { contentsOf } from '../fixtures/async-scans.js';
import { filePart, openRaw, scanRequest } from '../fixtures/raw-http.js';
import { startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const AT_ONCE = 64;
const MIB = 1024 * 1024;
const bodyOf = (bytes: number): Buffer => filePart(Buffer.alloc(bytes, 'plain text, quickly scanned\n'));
const large = bodyOf(8 * MIB);
/** Of those that are kept on the disk and scanned behind: their number counts, and what of them a socket has at once. */
const medium = bodyOf(MIB);
const later = { Prefer: 'respond-async' };
const ways = {
  'with an answer': { status: 200, body: large, headersOf: () => ({}) },
  'with an Idempotency-Key': { status: 200, body: large, headersOf: (id: string) => ({ 'Idempotency-Key': id }) },
  'for later': { status: 202, body: medium, headersOf: () => later },
  'for later, with an Idempotency-Key': {
    status: 202,
    body: medium,
    headersOf: (id: string) => ({ 'Idempotency-Key': `later-${id}`, ...later }),
  },
};

/** What a busy machine brings, whoever asks: a database that says nothing for five seconds. Clients ask again then. */
const SILENT_STORE = 'The account store is not reachable';

/** The status, and what is said with another one than `status`. */
async function answerOf(port: number, head: Buffer, body: Buffer, status: number): Promise<string> {
  for (;;) {
    const connection = await openRaw(port);
    void connection.send(head);
    void connection.send(body);
    const answer = await connection.answer();
    connection.end();
    if (answer?.status === 503 && answer.body.includes(SILENT_STORE)) continue;
    return `${answer?.status} ${answer?.status === status ? '' : answer?.body}`;
  }
}

t.test(`${AT_ONCE} uploads at once`, async (t) => {
  const server = await startServer();
  t.teardown(() => server.stop('SIGKILL'));
  t.equal((await upload(server.url, 'its key is known')).status, 200);
  for (const [way, { status, body, headersOf }] of Object.entries(ways)) {
    t.test(way, async (t) => {
      const answers = Array.from({ length: AT_ONCE }, async (_, index) => {
        const headers = { 'Content-Length': String(body.length), ...headersOf(String(index)) };
        return await answerOf(server.port, scanRequest(Buffer.alloc(0), headers), body, status);
      });
      t.strictSame([...new Set(await Promise.all(answers))], [`${status} `]);
      await until(() => contentsOf(server.directory).length === 0);
    });
  }
});
