// Clamd's protocol over the wire: the same bytes as Debian's clamd with the same signatures, and what is Sluice's own.
import { once } from 'node:events';
import { existsSync, mkdtempSync, statSync } from 'node:fs';
import { createConnection, type NetConnectOpts } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { startClamd } from '../fixtures/clamd.js';
import { freePort } from '../fixtures/free-port.js';
import { API_KEY, startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';

const EICAR = Buffer.from('X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*');
const EMAIL = 'files@example.org';
const END = Buffer.alloc(4);

function chunk(content: Buffer): Buffer {
  const size = Buffer.alloc(4);
  size.writeUInt32BE(content.length);
  return Buffer.concat([size, content]);
}

function stream(content: Buffer, piece = content.length): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < content.length; at += piece) parts.push(chunk(content.subarray(at, at + piece)));
  return Buffer.concat([...parts, END]);
}

function join2(...parts: readonly (string | Buffer)[]): Buffer {
  return Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part)));
}

/** All that is answered until the other side ends it. Bytes go out in pieces of `piece`. */
async function ask(to: NetConnectOpts, bytes: Buffer, { piece = bytes.length, ends = false } = {}): Promise<string> {
  const socket = createConnection({ ...to, allowHalfOpen: true });
  let answer = '';
  socket.setEncoding('latin1').on('data', (text: string) => {
    answer += text;
  });
  // The other side may be done before it has read everything.
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  const over = Promise.race([once(socket, 'end'), once(socket, 'close')]);
  for (let at = 0; at < bytes.length && !socket.destroyed; at += piece) {
    socket.write(bytes.subarray(at, at + piece));
    if (piece < bytes.length) await new Promise((resolve) => setImmediate(resolve));
  }
  if (ends) socket.end();
  await over;
  socket.destroy();
  return answer;
}

/** Answers of a session come as they are ready. */
function sorted(answer: string): string {
  return answer
    .split(/[\n\0]/)
    .toSorted()
    .join('|');
}

const CLEAN = Buffer.from('hello');
const big = Buffer.alloc(300_000, 'clean text\n');
const sessions: Readonly<Record<string, Buffer>> = {
  ping: join2('nPING\n'),
  'ping, z': join2('zPING\0'),
  'ping, old': join2('PING\n'),
  'ping, old with CR LF': join2('PING\r\n'),
  'ping, old without an end': join2('PING'),
  'ping, CR LF': join2('nPING\r\n'),
  'two commands': join2('nPING\nnPING\n'),
  version: join2('zVERSION\0'),
  'version, old': join2('VERSION\n'),
  unknown: join2('nBLAH\n'),
  'unknown, z': join2('zBLAH\0'),
  'unknown, old': join2('BLAH\n'),
  'lower case': join2('nping\n'),
  'a blank': join2('nPING \n'),
  'nothing, n': join2('n\n'),
  'nothing, z': join2('z\0'),
  'nothing, old': join2('\nPING\n'),
  HTTP: join2('GET / HTTP/1.0\r\n\r\n'),
  'INSTREAM, old': join2('INSTREAM\n', stream(CLEAN)),
  'VERSIONCOMMANDS, old': join2('VERSIONCOMMANDS\n'),
  'STATS, old': join2('STATS\n'),
  'END alone': join2('zEND\0'),
  'no path': join2('zSCAN\0'),
  detstats: join2('zDETSTATS\0'),
  clean: join2('zINSTREAM\0', stream(CLEAN)),
  'clean, n': join2('nINSTREAM\n', stream(CLEAN)),
  infected: join2('zINSTREAM\0', stream(EICAR)),
  'infected in chunks': join2('nINSTREAM\n', stream(EICAR, 7)),
  large: join2('zINSTREAM\0', stream(big, 65_536)),
  empty: join2('zINSTREAM\0', END),
  'two streams': join2('zINSTREAM\0', stream(CLEAN), 'zINSTREAM\0', stream(CLEAN)),
  'far too large a chunk': join2('zINSTREAM\0', Buffer.from('ffffffff616263', 'hex')),
  session: join2('zIDSESSION\0zPING\0zINSTREAM\0', stream(EICAR), 'zINSTREAM\0', stream(CLEAN), 'zVERSION\0zEND\0'),
  'session, n': join2('nIDSESSION\nnPING\nnINSTREAM\n', stream(CLEAN), 'nEND\n'),
  'session, mixed': join2('zIDSESSION\0nPING\nzPING\0nEND\n'),
  'session, empty stream': join2('zIDSESSION\0zINSTREAM\0', END, 'zPING\0zEND\0'),
  'session, unknown': join2('zIDSESSION\0zBLAH\0'),
  'session, reload': join2('zIDSESSION\0zRELOAD\0'),
  'session twice': join2('zIDSESSION\0zIDSESSION\0zPING\0'),
  'after the end': join2('zIDSESSION\0zEND\0zPING\0'),
};
/** Sent, and then no more: what is cut has no verdict. */
const cut: Readonly<Record<string, Buffer>> = {
  'in a command': join2('nPIN'),
  'before a size': join2('zINSTREAM\0'),
  'in a size': join2('zINSTREAM\0', Buffer.alloc(3)),
  'in a chunk': join2('zINSTREAM\0', stream(CLEAN).subarray(0, 6)),
  'before the end': join2('zINSTREAM\0', stream(EICAR).subarray(0, -4)),
  'in a session': join2('zIDSESSION\0zPING\0'),
  'after a stream': join2('zINSTREAM\0', stream(EICAR)),
};

async function startOurs(env: Record<string, string> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-socket-'));
  const path = join(folder, 'clamd.sock');
  const port = await freePort();
  const settings = {
    CLAMD_SOCKET: path,
    CLAMD_PORT: String(port),
    CLAMD_ACCOUNT: EMAIL,
    BOOTSTRAP_EMAIL: EMAIL,
    ...env,
  };
  const server = await startServer({ env: { SIGNATURES_DIR: ownSignaturesDirectory, ...settings } });
  await until(() => existsSync(path));
  return { server, unix: { path }, tcp: { port, host: '127.0.0.1' } };
}

t.test('the same bytes as clamd, in every split', async (t) => {
  const theirs = await startClamd({ databaseDirectory: ownSignaturesDirectory, threads: 2 });
  t.teardown(theirs.stop);
  const ours = await startOurs();
  t.teardown(() => ours.server.stop());
  const compare = async (name: string, bytes: Buffer, ends: boolean): Promise<void> => {
    const expected = sorted(await ask({ path: theirs.socketPath }, bytes, { ends }));
    t.equal(sorted(await ask(ours.unix, bytes, { ends })), expected, name);
    t.equal(sorted(await ask(ours.tcp, bytes, { ends })), expected, `${name}, TCP`);
    if (bytes.length < 1_000) {
      t.equal(sorted(await ask(ours.unix, bytes, { ends, piece: 1 })), expected, `${name}, byte by byte`);
    }
  };
  for (const [name, bytes] of Object.entries(sessions)) await compare(name, bytes, false);
  for (const [name, bytes] of Object.entries(cut)) await compare(`cut ${name}`, bytes, true);
});

t.test("what is Sluice's own", async (t) => {
  const { server, unix, tcp } = await startOurs({
    STREAM_MAX_MB: '10',
    UPLOAD_MEMORY_MB: '64',
    PLANS: 'FREE:3,BUSINESS:3',
  });
  t.teardown(() => server.stop());
  const tooLarge = join2('zINSTREAM\0', stream(Buffer.alloc(10 * 1024 * 1024 + 1, 1), 1024 * 1024));
  t.equal(statSync(unix.path).mode & 0o777, 0o660);
  t.match(await ask(unix, join2('zVERSIONCOMMANDS\0')), /^ClamAV [\d.]+\| COMMANDS: SCAN .* INSTREAM .*\0$/);
  t.match(
    await ask(unix, join2('nSTATS\n')),
    /^POOLS: 1\n\nSTATE: VALID PRIMARY\nTHREADS: live \d+ {2}idle \d+ max \d+ .*\nEND\n$/s,
  );
  t.equal(await ask(unix, join2('zRELOAD\0')), 'RELOADING\0');
  t.equal(await ask(tcp, join2('zRELOAD\0')), 'COMMAND UNAVAILABLE\0');
  t.equal(await ask(unix, join2('zSHUTDOWN\0')), 'COMMAND UNAVAILABLE\0');
  t.equal(
    await ask(unix, join2('zSCAN /etc/hostname\0')),
    '/etc/hostname: File path check failure: Permission denied. ERROR\0',
  );
  t.match(await ask(unix, join2('zFILDES\0')), /ERROR\0$/);
  t.equal(await ask(unix, tooLarge), 'INSTREAM size limit exceeded. ERROR\0', 'the first unit');
  t.equal(await ask(unix, join2('zINSTREAM\0', stream(EICAR))), 'stream: Sluice.Test.EICAR.UNOFFICIAL FOUND\0');
  t.equal(await ask(unix, join2('zINSTREAM\0', stream(CLEAN))), 'stream: OK\0');
  t.equal(await ask(unix, join2('zINSTREAM\0', stream(CLEAN))), 'stream: Hourly scan limit reached ERROR\0');
  const headers = { 'X-API-KEY': API_KEY };
  const form = new FormData();
  form.append('file', new Blob(['x']), 'x.txt');
  const response = await fetch(`${server.url}/api/v1/scans`, { method: 'POST', headers, body: form });
  t.equal(response.status, 429, 'counted for the same account');
  const pings = await ask(unix, join2('zIDSESSION\0', 'zPING\0'.repeat(20_000), 'zEND\0'));
  t.equal(pings.split('\0').length, 20_001, 'many commands at once');
});

t.test('an account that is not there scans nothing', async (t) => {
  const { server, unix } = await startOurs({ CLAMD_ACCOUNT: 'nobody@example.org' });
  t.teardown(() => server.stop());
  t.equal(await ask(unix, join2('zINSTREAM\0', stream(CLEAN))), 'stream: CLAMD_ACCOUNT is no account ERROR\0');
  t.equal(await server.stop(), 0);
  t.notOk(existsSync(unix.path), 'and the socket goes with the service');
});
