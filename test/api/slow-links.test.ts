// Uploads that come slowly: they have the time that the configuration gives them, whatever the HTTP library thinks of their speed, and then an answer.
import t from 'tap';
import { filePart, openRaw, scanRequest } from '../fixtures/raw-http.js';
import { startServer } from '../fixtures/server.js';

/** uWebSockets.js by itself ends a connection that brings less than 160 KB in 8 to 12 s. */
const TIMEOUT_MS = 15_000;
const PIECE_BYTES = 600;
const EVERY_MS = 100;

const server = await startServer({ env: { UPLOAD_TIMEOUT_MS: String(TIMEOUT_MS) } });
t.teardown(() => server.stop());

for (const [what, stalls] of [
  ['at 6 KB a second', false],
  ['of which nothing comes behind the header', true],
] as const) {
  t.test(`an upload ${what} has its 408 when its time is over, and not before`, async (t) => {
    const request = scanRequest(filePart(Buffer.alloc(1024 * 1024, 'x')));
    const head = request.indexOf('\r\n\r\n') + 4;
    const connection = await openRaw(server.port);
    t.teardown(() => connection.end());
    const startedMs = performance.now();
    await connection.send(request.subarray(0, head));
    let sent = head;
    const sending = setInterval(() => {
      if (stalls) return;
      void connection.send(request.subarray(sent, sent + PIECE_BYTES));
      sent += PIECE_BYTES;
    }, EVERY_MS);
    t.teardown(() => clearInterval(sending));
    const answer = await connection.answer();
    // A client stops when it has an answer.
    clearInterval(sending);
    t.match(answer, { status: 408, body: /Request not complete after 15000 ms/ });
    t.ok(performance.now() - startedMs >= TIMEOUT_MS);
  });
}
