// Clamd's protocol over the wire: the same bytes as Debian's clamd with the same signatures, and what is Sluice's own.
import { existsSync, statSync } from 'node:fs';
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { enoughOfTheHour } from '../fixtures/hour.js';
import { API_KEY } from '../fixtures/server.js';
import { ask, bytesOf, CLEAN, EICAR, END, sorted, startOurs, stream } from './client.js';
import { CLAMD_TRIES, startTheirs } from './theirs.js';

const big = Buffer.alloc(300_000, 'clean text\n');
const sessions: Readonly<Record<string, Buffer>> = {
  ping: bytesOf('nPING\n'),
  'ping, z': bytesOf('zPING\0'),
  'ping, old': bytesOf('PING\n'),
  'ping, old with CR LF': bytesOf('PING\r\n'),
  'ping, old without an end': bytesOf('PING'),
  'ping, CR LF': bytesOf('nPING\r\n'),
  'two commands': bytesOf('nPING\nnPING\n'),
  version: bytesOf('zVERSION\0'),
  'version, old': bytesOf('VERSION\n'),
  unknown: bytesOf('nBLAH\n'),
  'unknown, z': bytesOf('zBLAH\0'),
  'unknown, old': bytesOf('BLAH\n'),
  'lower case': bytesOf('nping\n'),
  'a blank': bytesOf('nPING \n'),
  'behind a NUL': bytesOf('nPING\0more\n'),
  'behind a NUL, old': bytesOf('PING\0more\n'),
  'nothing, n': bytesOf('n\n'),
  'nothing, z': bytesOf('z\0'),
  'nothing, old': bytesOf('\nPING\n'),
  HTTP: bytesOf('GET / HTTP/1.0\r\n\r\n'),
  'INSTREAM, old': bytesOf('INSTREAM\n', stream(CLEAN)),
  'VERSIONCOMMANDS, old': bytesOf('VERSIONCOMMANDS\n'),
  'STATS, old': bytesOf('STATS\n'),
  'END alone': bytesOf('zEND\0'),
  'no path': bytesOf('zSCAN\0'),
  detstats: bytesOf('zDETSTATS\0'),
  clean: bytesOf('zINSTREAM\0', stream(CLEAN)),
  'clean, n': bytesOf('nINSTREAM\n', stream(CLEAN)),
  infected: bytesOf('zINSTREAM\0', stream(EICAR)),
  'infected in chunks': bytesOf('nINSTREAM\n', stream(EICAR, 7)),
  large: bytesOf('zINSTREAM\0', stream(big, 65_536)),
  empty: bytesOf('zINSTREAM\0', END),
  'two streams': bytesOf('zINSTREAM\0', stream(CLEAN), 'zINSTREAM\0', stream(CLEAN)),
  'far too large a chunk': bytesOf('zINSTREAM\0', Buffer.from('ffffffff616263', 'hex')),
  session: bytesOf('zIDSESSION\0zPING\0zINSTREAM\0', stream(EICAR), 'zINSTREAM\0', stream(CLEAN), 'zVERSION\0zEND\0'),
  'session, n': bytesOf('nIDSESSION\nnPING\nnINSTREAM\n', stream(CLEAN), 'nEND\n'),
  'session, mixed': bytesOf('zIDSESSION\0nPING\nzPING\0nEND\n'),
  'session, empty stream': bytesOf('zIDSESSION\0zINSTREAM\0', END, 'zPING\0zEND\0'),
  'session, unknown': bytesOf('zIDSESSION\0zBLAH\0'),
  'session, reload': bytesOf('zIDSESSION\0zRELOAD\0'),
  'session twice': bytesOf('zIDSESSION\0zIDSESSION\0zPING\0'),
  'after the end': bytesOf('zIDSESSION\0zEND\0zPING\0'),
};
/** Sent, and then no more: what is cut has no verdict. */
const cut: Readonly<Record<string, Buffer>> = {
  'in a command': bytesOf('nPIN'),
  'before a size': bytesOf('zINSTREAM\0'),
  'in a size': bytesOf('zINSTREAM\0', Buffer.alloc(3)),
  'in a chunk': bytesOf('zINSTREAM\0', stream(CLEAN).subarray(0, 6)),
  'before the end': bytesOf('zINSTREAM\0', stream(EICAR).subarray(0, -4)),
  'in a session': bytesOf('zIDSESSION\0zPING\0'),
  'after a stream': bytesOf('zINSTREAM\0', stream(EICAR)),
};

t.test('the same bytes as clamd, in every split', async (t) => {
  const theirs = await startTheirs({ databaseDirectory: ownSignaturesDirectory, threads: 2 });
  t.teardown(theirs.stop);
  const ours = await startOurs();
  t.teardown(() => ours.server.stop());
  const compare = async (name: string, bytes: Buffer, ends: boolean): Promise<void> => {
    const answer = sorted(await ask(ours.unix, bytes, { ends }));
    t.equal(sorted(await ask(ours.tcp, bytes, { ends })), answer, `${name}, TCP`);
    if (bytes.length < 1_000) {
      t.equal(sorted(await ask(ours.unix, bytes, { ends, piece: 1 })), answer, `${name}, byte by byte`);
    }
    const expected: string[] = [];
    while (expected.length < CLAMD_TRIES && !expected.includes(answer)) {
      expected.push(sorted(await theirs.ask(bytes, { ends })));
    }
    t.ok(expected.includes(answer), name, { found: answer, wanted: expected });
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
  const tooLarge = bytesOf('zINSTREAM\0', stream(Buffer.alloc(10 * 1024 * 1024 + 1, 1), 1024 * 1024));
  t.equal(statSync(unix.path).mode & 0o777, 0o660);
  t.match(await ask(unix, bytesOf('zVERSIONCOMMANDS\0')), /^ClamAV [\d.]+\| COMMANDS: SCAN .* INSTREAM .*\0$/);
  t.match(
    await ask(unix, bytesOf('nSTATS\n')),
    /^POOLS: 1\n\nSTATE: VALID PRIMARY\nTHREADS: live \d+ {2}idle \d+ max \d+ .*\nEND\n$/s,
  );
  t.equal(await ask(unix, bytesOf('zRELOAD\0')), 'RELOADING\0');
  t.equal(await ask(tcp, bytesOf('zRELOAD\0')), 'COMMAND UNAVAILABLE\0');
  t.equal(await ask(unix, bytesOf('zSHUTDOWN\0')), 'COMMAND UNAVAILABLE\0');
  t.equal(
    await ask(unix, bytesOf('zSCAN /etc/hostname\0')),
    '/etc/hostname: File path check failure: Permission denied. ERROR\0',
  );
  t.equal(await server.printed(/"path":"([^"]*)","reason":"Permission denied","msg":.*CLAMD_PATHS/), '/etc/hostname');
  t.equal(await ask(unix, bytesOf('zFILDES\0\0')), 'No file descriptor received. ERROR\0');
  t.equal(await ask(tcp, bytesOf('zFILDES\0\0')), 'No file descriptor received. ERROR\0');
  await enoughOfTheHour();
  t.equal(await ask(unix, tooLarge), 'INSTREAM size limit exceeded. ERROR\0', 'the first unit');
  t.equal(await ask(unix, bytesOf('zINSTREAM\0', stream(EICAR))), 'stream: Sluice.Test.EICAR.UNOFFICIAL FOUND\0');
  t.equal(await ask(unix, bytesOf('zINSTREAM\0', stream(CLEAN))), 'stream: OK\0');
  t.equal(await ask(unix, bytesOf('zINSTREAM\0', stream(CLEAN))), 'stream: Hourly scan limit reached ERROR\0');
  const headers = { 'X-API-KEY': API_KEY };
  const form = new FormData();
  form.append('file', new Blob(['x']), 'x.txt');
  const response = await fetch(`${server.url}/api/v1/scans`, { method: 'POST', headers, body: form });
  t.equal(response.status, 429, 'counted for the same account');
  const pings = await ask(unix, bytesOf('zIDSESSION\0', 'zPING\0'.repeat(20_000), 'zEND\0'));
  t.equal(pings.split('\0').length, 20_001, 'many commands at once');
});

t.test('an account that is not there scans nothing', async (t) => {
  const { server, unix } = await startOurs({ CLAMD_ACCOUNT: 'nobody@example.org' });
  t.teardown(() => server.stop());
  t.equal(await ask(unix, bytesOf('zINSTREAM\0', stream(CLEAN))), 'stream: CLAMD_ACCOUNT is no account ERROR\0');
  t.equal(await server.stop(), 0);
  t.notOk(existsSync(unix.path), 'and the socket goes with the service');
});
