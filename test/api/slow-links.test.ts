// Uploads that come slowly: they have the time that the configuration gives them, whatever the HTTP library thinks of their speed, and then an answer.
import t from 'tap';
import { filePart, openRaw, type RawAnswer, scanRequest } from '../fixtures/raw-http.js';
import { startServer } from '../fixtures/server.js';

/** uWebSockets.js by itself ends a connection that brings less than 160 KB in 8 to 12 s. */
const TIMEOUT_MS = 15_000;
const PIECE_BYTES = 600;
const EVERY_MS = 100;

/** Behind that time the client still sends; it must not wait for the end of its answer as long as it does. */
const ANSWER_MS = 30_000;

const server = await startServer({ t, env: { UPLOAD_TIMEOUT_MS: String(TIMEOUT_MS) } });

/** Resolves with the answer to it, and when that came. */
async function uploadSlowly(isStalled: boolean): Promise<{ answer: RawAnswer | null; afterMs: number }> {
  const request = scanRequest(filePart(Buffer.alloc(1024 * 1024, 'x')));
  const connection = await openRaw(server.port);
  t.teardown(() => connection.end());
  const startedMs = performance.now();
  let sent = request.indexOf('\r\n\r\n') + 4;
  await connection.send(request.subarray(0, sent));
  const sending = setInterval(() => {
    if (isStalled) return;
    void connection.send(request.subarray(sent, sent + PIECE_BYTES));
    sent += PIECE_BYTES;
  }, EVERY_MS);
  t.teardown(() => clearInterval(sending));
  const answer = await connection.answer();
  // A client stops when it has an answer.
  clearInterval(sending);
  return { answer, afterMs: performance.now() - startedMs };
}

t.test(
  'a slow upload, and one of which nothing comes behind the header, have their 408 when their time is over',
  async (t) => {
    for (const { answer, afterMs } of await Promise.all([uploadSlowly(false), uploadSlowly(true)])) {
      t.match(answer, { status: 408, body: /Request not complete after 15000 ms/ });
      t.ok(afterMs >= TIMEOUT_MS && afterMs < TIMEOUT_MS + ANSWER_MS, `${Math.round(afterMs)} ms`);
    }
  },
);
