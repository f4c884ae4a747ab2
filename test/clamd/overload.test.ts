// clamd's protocol and ICAP beyond an account's part of the queue: nothing of such a content is looked at, it costs nothing and has no row, and its connection goes on.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { faultEnvironment, faulty, holdScans } from '../fixtures/faults.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { freePort } from '../fixtures/free-port.js';
import { enoughOfTheHour, unitsLeft } from '../fixtures/hour.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';
import { connect } from '../icap/client.js';
import { ask, bytesOf, CLEAN, EMAIL, startOurs, stream } from './client.js';

/** Of a queue of 12, one account may have so many. */
const SHARE = 9;
const TOO_MANY = 'Too many scans of this account are waiting';

t.test('beyond its part of the queue an account is refused before its content is looked at', async (t) => {
  const folder = join(temporaryFolder(t), 'files');
  mkdirSync(folder);
  writeFileSync(join(folder, 'a file'), CLEAN);
  const icapPort = await freePort();
  const { server, unix } = await startOurs({
    ...faultEnvironment,
    SCAN_THREADS: '1',
    SCAN_THREADS_MOST: '1',
    SCAN_QUEUE: '12',
    CLAMD_PATHS: folder,
    ICAP_PORT: String(icapPort),
    ICAP_ACCOUNT: EMAIL,
  });
  t.teardown(() => server.stop('SIGKILL'));
  const refused = (): Promise<number> => server.metric('sluice_scans_refused_total{reason="queueShareFull"}');
  const icap = await connect(icapPort);
  t.teardown(() => icap.end());
  t.equal(await ask(unix, bytesOf('zINSTREAM\0', stream(CLEAN))), 'stream: OK\0');
  t.equal((await icap.ask({ body: CLEAN, headers: ['Allow: 204'] })).status, 204);

  await enoughOfTheHour(60_000);
  const { order, letGo } = holdScans(t);
  const long = Array.from({ length: 2 }, (_, index) => upload(server.url, faulty(order, String(index))));
  await until(async () => (await server.metric('sluice_scans_running')) >= 1);
  const behind = Array.from({ length: SHARE }, (_, index) => upload(server.url, `behind ${index}`));
  await until(async () => (await server.metric('sluice_scans_waiting')) >= SHARE);
  const [quota, before] = [await unitsLeft(server.url), await refused()];

  const contents = [CLEAN, Buffer.alloc(60_000, 'x'), Buffer.alloc(3_000_000, 'y')];
  const streams = contents.flatMap((content) => ['zINSTREAM\0', stream(content, 4_096)]);
  t.equal(
    await ask(unix, bytesOf('zIDSESSION\0', ...streams, 'zPING\0', 'zEND\0')),
    `${[1, 2, 3].map((number) => `${number}: stream: ${TOO_MANY} ERROR\0`).join('')}4: PONG\0`,
    'the session goes on',
  );
  t.equal(await ask(unix, bytesOf('zINSTREAM\0', stream(CLEAN))), `stream: ${TOO_MANY} ERROR\0`);
  const path = join(folder, 'a file');
  t.equal(await ask(unix, bytesOf(`zSCAN ${path}\0`)), `${path}: ${TOO_MANY} ERROR\0`);
  for (const preview of [null, 0, 4, 1_024]) {
    const { status, headers, isContinued } = await icap.ask({ body: CLEAN, preview, headers: ['Allow: 204'] });
    t.equal(status, 503, `ICAP, preview ${preview}`);
    t.equal(headers.get('connection'), 'keep-alive', 'the connection goes on');
    t.notOk(isContinued, 'the rest is not asked for');
  }
  t.equal(await refused(), before + contents.length + 2 + 4);
  t.equal(await unitsLeft(server.url), quota);
  const large = bytesOf('zINSTREAM\0', stream(Buffer.alloc(2_000_000, 'z')));
  t.match(await ask(unix, large), /^stream: /, 'a first piece over 1 MB is of another queue');
  t.equal(await refused(), before + contents.length + 2 + 4);

  letGo();
  await Promise.all([...long, ...behind]);
  t.equal(await ask(unix, bytesOf('zINSTREAM\0', stream(CLEAN))), 'stream: OK\0');
  t.equal((await icap.ask({ body: CLEAN, headers: ['Allow: 204'] })).status, 204);
  t.equal(await server.stop(), 0);
});
