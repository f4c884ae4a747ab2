// Many connections that say nothing, and streams that drip, by clamd's protocol and by ICAP: scans are answered beside them, and what they took comes back. `npm run bench:crowd` is the
// same with ten times as many, and clocks.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startLineProcess } from '../../bench/line-process.js';
import { CLAMD_SOCKET_CONNECTIONS } from '../../src/limits.js';
import { freePort } from '../fixtures/free-port.js';
import { until } from '../fixtures/until.js';
import { connect, CLEAN as TEXT } from '../icap/client.js';
import { ask, bytesOf, EMAIL, startOurs, stream } from './client.js';

const crowdProgram = join(import.meta.dirname, '../../bench/crowd-process.js');
const [IDLE, SLOW] = [500, 50];
const MB = 1024 * 1024;

t.test('scans are answered beside a crowd, and its descriptors and memory come back', async (t) => {
  const icapPort = await freePort();
  const { server, unix, tcp } = await startOurs(
    { ICAP_PORT: String(icapPort), ICAP_ACCOUNT: EMAIL },
    // HTTP has as many as each of the two, and the server some of its own. Of clamd's some are kept for the socket.
    { openFiles: 3 * (IDLE + SLOW + 50 + CLAMD_SOCKET_CONNECTIONS) + 1_000 },
  );
  t.teardown(() => server.stop('SIGKILL'));
  const icap = await connect(icapPort);
  t.teardown(icap.end);
  const scanAll = async (name: string): Promise<void> => {
    for (let round = 0; round < 20; round += 1) {
      const content = Buffer.from(`clean ${name} ${round}`);
      for (const place of [unix, tcp]) {
        t.equal(await ask(place, bytesOf('zINSTREAM\0', stream(content))), 'stream: OK\0');
      }
      t.equal((await icap.ask({ body: TEXT, preview: 100 })).status, 204);
    }
  };
  await scanAll('before');
  const descriptors = (): number => readdirSync(`/proc/${server.serverPid()}/fd`).length;
  const [files, bytes] = [descriptors(), server.residentBytes()];
  const crowd = startLineProcess(process.execPath, { args: [crowdProgram] });
  t.teardown(() => crowd.stop());
  const count = 2 * (IDLE + SLOW);
  for (let round = 0; round < 2; round += 1) {
    t.equal(await crowd.ask(`open ${tcp.port} ${icapPort} ${IDLE} ${SLOW}`), String(count));
    await until(() => descriptors() >= files + count);
    await scanAll(`beside ${round}`);
    t.equal(await crowd.ask('close'), '0', 'the server has ended none of them');
    await until(() => descriptors() <= files + 2);
  }
  await scanAll('after');
  const grown = (server.residentBytes() - bytes) / MB;
  t.ok(grown < 60, `${grown.toFixed(0)} MB more`);
  t.equal(await server.stop(), 0);
});
