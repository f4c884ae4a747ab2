// A disk that hangs while it is to keep the contents of asynchronous scans, or to give them back: clients have their 503 in time and their unit back, others are served, and all goes on when the disk answers.
import { randomBytes } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { contentsOf, Scan, scanById, scanLater } from '../fixtures/async-scans.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { enoughOfTheHour, unitsLeft } from '../fixtures/hour.js';
import { compilePreload } from '../fixtures/preload.js';
import { startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const MIB = 1024 * 1024;
const DEADLINE_MS = 2_000;
const notKept = { status: 503, body: { error: 'Service unavailable', message: 'The content can not be kept' } };

t.test('a disk that hangs', async (t) => {
  const folder = temporaryFolder(t);
  const server = await startServer({
    isSupervised: true,
    env: {
      LD_PRELOAD: compilePreload('hanging-disk', folder),
      HANG_DIR: folder,
      UPLOAD_TIMEOUT_MS: String(DEADLINE_MS),
    },
  });
  t.teardown(() => server.stop('SIGKILL'));

  for (const step of ['write', 'sync']) {
    t.test(`at each ${step}`, async (t) => {
      await enoughOfTheHour(60_000);
      const before = await unitsLeft(server.url);
      writeFileSync(join(folder, step), '');
      const answers = await Promise.all([scanLater(server.url, randomBytes(3 * MIB)), scanLater(server.url, 'small')]);
      for (const answer of answers) {
        t.match(answer, notKept);
        t.equal(answer.headers.get('retry-after'), '30');
      }
      const startedMs = performance.now();
      t.match(await scanLater(server.url, 'one more'), notKept);
      t.ok(performance.now() - startedMs < DEADLINE_MS / 2, 'who comes then is not kept waiting');
      t.match(await upload(server.url, 'with an answer'), { status: 200 });
      t.equal(before - (await unitsLeft(server.url)), 1, 'units are back but for that of the scan with an answer');

      rmSync(join(folder, step));
      await until(() => contentsOf(server.directory).length === 0);
      const accepted = await until(async () => {
        const answer = await scanLater(server.url, `after ${step}`);
        return answer.status === 202 && answer;
      });
      const { id } = Scan.parse(accepted.body);
      t.match((await scanById(server.url, id, { wait: 60 })).body, { state: 'completed', infected: false });
      await until(() => contentsOf(server.directory).length === 0);
    });
  }

  t.test('at each read', async (t) => {
    writeFileSync(join(folder, 'read'), '');
    const accepted = await scanLater(server.url, randomBytes(3 * MIB));
    t.match(accepted, { status: 202 });
    const { id } = Scan.parse(accepted.body);
    await until(async () => (await scanLater(server.url, 'one more')).status === 503);
    for (let scans = 0; scans < 20; scans += 1) t.match(await upload(server.url, `${scans}`), { status: 200 });
    t.match((await scanById(server.url, id)).body, { infected: null }, 'it waits');

    rmSync(join(folder, 'read'));
    t.match((await scanById(server.url, id, { wait: 60 })).body, { state: 'completed', infected: false });
    await until(() => contentsOf(server.directory).length === 0);
  });
});
