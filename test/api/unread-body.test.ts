// A body that the server hasn't read waits at the client: what the kernel holds of it is what one turn of the event loop reads.
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { openRaw, unreadBytes } from '../fixtures/raw-http.js';
import { API_KEY, startServer } from '../fixtures/server.js';

const MIB = 1024 * 1024;
/** The library's buffer: as soon as it isn't full, the others have their turn. */
const READ_AT_ONCE_BYTES = 512 * 1024;
/** The kernel gives a connection room as it is read: without a bound it has megabytes of it after these. */
const UPLOADS = 3;

/** Resolves when the client can't get rid of any more. */
async function untilStuck(serverPort: number, clientPort: number): Promise<number> {
  let last = -1;
  for (;;) {
    const now = unreadBytes(serverPort, clientPort);
    if (now > 0 && now === last) return now;
    last = now;
    await delay(300);
  }
}

t.test('a stopped server has no more of a large upload than it reads at once', async (t) => {
  const server = await startServer({ t });
  const connection = await openRaw(server.port);
  t.teardown(() => connection.end());
  const body = Buffer.concat([
    Buffer.from('--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'),
    Buffer.alloc(9 * MIB, 'x'),
    Buffer.from('\r\n--b--\r\n'),
  ]);
  const request = Buffer.concat([
    Buffer.from(
      `POST /api/v1/scans HTTP/1.1\r\nHost: a\r\nX-API-KEY: ${API_KEY}\r\nContent-Length: ${body.length}\r\n` +
        'Content-Type: multipart/form-data; boundary=b\r\n\r\n',
    ),
    body,
  ]);
  for (let sent = 0; sent < UPLOADS; sent += 1) {
    await connection.send(request);
    t.equal((await connection.answer())?.status, 200);
  }
  const clientPort = connection.socket.localPort ?? 0;
  process.kill(server.serverPid(), 'SIGSTOP');
  const sending = connection.send(request);
  const unread = await untilStuck(server.port, clientPort).finally(() => process.kill(server.serverPid(), 'SIGCONT'));
  t.ok(unread <= READ_AT_ONCE_BYTES, `${unread} bytes`);
  await sending;
  t.equal((await connection.answer())?.status, 200, 'and it goes on');
});
