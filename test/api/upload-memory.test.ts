// Two accounts over the wire: one drips into as many uploads as it can open, and the other one's scans are answered all the same.
import t from 'tap';
import { makeAccount } from '../fixtures/another-account.js';
import { openRaw, type RawConnection } from '../fixtures/raw-http.js';
import { API_KEY, startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

/** What the contract promises to who isn't in the way of others. */
const PROMISED_MS = 3_000;
const MIB = 1024 * 1024;
const MEMORY_MB = 64;
const UPLOADS = 44;
/** Together 2 MB a second. */
const DRIP_MS = 100;
const DRIP_BYTES = Math.floor((2 * MIB) / UPLOADS / (1000 / DRIP_MS));

const server = await startServer({
  env: { REGISTRATION: 'open', PLANS: 'FREE:1000,BUSINESS:10000', UPLOAD_MEMORY_MB: String(MEMORY_MB) },
});
t.teardown(() => server.stop('SIGKILL'));

interface SlowUpload extends RawConnection {
  chunk(bytes: Uint8Array): Promise<void>;
}

/** An upload that never says how long it will be. */
async function begin(key: string): Promise<SlowUpload> {
  const connection = await openRaw(server.port);
  const chunk = async (bytes: Uint8Array): Promise<void> => {
    await connection.send(Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]));
  };
  await connection.send(
    `POST /api/v1/scans HTTP/1.1\r\nHost: a\r\nX-API-KEY: ${key}\r\nTransfer-Encoding: chunked\r\n` +
      'Content-Type: multipart/form-data; boundary=b\r\n\r\n',
  );
  await chunk(Buffer.from('--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'));
  return { ...connection, chunk };
}

/** Drips into all of them, in one round after the other, until it is ended. */
function drip(uploads: readonly SlowUpload[], bytes: number): () => void {
  const piece = Buffer.alloc(bytes, 'x');
  const timer = setInterval(() => {
    // A connection that is held back takes nothing: what it has not sent yet must not pile up here.
    for (const each of uploads) if (each.socket.writableLength === 0) each.chunk(piece);
  }, DRIP_MS);
  return () => clearInterval(timer);
}

t.test('an account that drips into 44 uploads takes no memory from another one', async (t) => {
  const { key } = await makeAccount(server.url, 'other@example.com');
  const contents = [1024, MIB, 5 * MIB].map((bytes) => Buffer.alloc(bytes, 'y'));
  for (const content of contents)
    t.equal((await upload(server.url, content, { key })).status, 200, 'before the attack');
  const residentBefore = server.residentBytes();
  const attack = await Promise.all(Array.from({ length: UPLOADS }, () => begin(API_KEY)));
  // The drip would take half a minute to have what this gives it at once: all that one account may have.
  for (const each of attack) each.chunk(Buffer.alloc(2 * MIB, 'x'));
  const endDrip = drip(attack, DRIP_BYTES);
  const [mostBytes, sharedBytes] = [MEMORY_MB * MIB, (MEMORY_MB - 10) * MIB];
  await until(async () => (await server.metric('sluice_uploads_waiting')) > 0);

  // One of the other account's own that takes its time: a minute to the limit of a content, which a slow machine's rounds don't reach.
  const steady = await begin(key);
  const endSteady = drip([steady], 16 * 1024);
  let residentMost = 0;
  for (let round = 0; round < 12; round += 1) {
    for (const content of contents) {
      content.writeUInt32LE(round);
      const startedMs = performance.now();
      const { status, body } = await upload(server.url, content, { key });
      t.equal(status, 200, `round ${round}, ${content.length} bytes: ${JSON.stringify(body)}`);
      const tookMs = performance.now() - startedMs;
      t.ok(tookMs < PROMISED_MS, `round ${round}, ${content.length} bytes: ${tookMs} ms`);
    }
    t.ok((await server.metric('sluice_upload_memory_bytes')) <= mostBytes);
    residentMost = Math.max(residentMost, server.residentBytes());
  }
  t.ok((await server.metric('sluice_upload_memory_largest_account_bytes')) > sharedBytes / 2, 'the attack goes on');
  endSteady();
  await steady.chunk(Buffer.from('\r\n--b--\r\n'));
  await steady.send('0\r\n\r\n');
  t.match(await steady.answer(), { status: 200 }, 'an upload of the other account that took its time is whole');
  endDrip();
  for (const each of attack) each.end();
  // Beside the memory of uploads: contents in the threads, and what the allocator keeps.
  const grown = residentMost - residentBefore;
  t.ok(grown < (MEMORY_MB + 64) * MIB, `${Math.round(grown / MIB)} MB more`);
  await until(async () => (await server.metric('sluice_upload_memory_bytes')) === 0);
  t.equal(await server.metric('sluice_uploads_waiting'), 0, 'all of it comes back');
});
