// What a killed process had unpacked is gone when the next one serves; `KILLS=200` is the long form.
import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { gzip, tar, zip } from '../fixtures/archives.js';
import { startPostgres } from '../fixtures/postgres.js';
import { serverOf } from '../fixtures/processes.js';
import { generator } from '../fixtures/random.js';
import { startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const KILLS = Number(process.env['KILLS'] ?? 4);
/** Within it the scans below unpack. */
const LATEST_KILL_MS = 600;

const postgres = await startPostgres({ t });

/** Engine folders on this machine, of the process. */
function foldersOf(pid: number): string[] {
  return ['/dev/shm', tmpdir()].flatMap((parent) =>
    readdirSync(parent)
      .filter((name) => name.startsWith(`sluice-engine-${pid}-`))
      .map((name) => `${parent}/${name}`),
  );
}

function unpackedIn(folders: readonly string[]): number {
  try {
    return folders.reduce((sum, folder) => sum + readdirSync(folder, { recursive: true }).length, 0);
  } catch {
    // A scan removes its own meanwhile.
    return 0;
  }
}

t.test('a process that is killed while it unpacks leaves nothing behind for long', async (t) => {
  const large = { name: 'large', content: Buffer.alloc(100 * 1024 * 1024) };
  const contents = [zip([large]), gzip(tar([large]))];
  const server = await startServer({
    isSupervised: true,
    env: {
      DATABASE_URL: await postgres.database(),
      SCAN_THREADS: '2',
      PLANS: 'BUSINESS:1000000',
      VERDICT_CACHE_MB: '0',
    },
  });
  t.teardown(() => server.stop('SIGKILL'));
  const random = generator(11);
  let killedWhileUnpacking = 0;
  for (let kill = 1; kill <= KILLS; kill += 1) {
    const pid = serverOf(server.pid);
    const scans = contents.map((content) => upload(server.url, content).catch(() => null));
    await delay(random() * LATEST_KILL_MS);
    const folders = foldersOf(pid);
    t.equal(folders.length, 1, `kill ${kill}: the process has its folder`);
    if (unpackedIn(folders) > 0) killedWhileUnpacking += 1;
    process.kill(pid, 'SIGKILL');
    await Promise.all(scans);
    await server.printed(new RegExp(`(?:"msg":"(signatures loaded)"[\\s\\S]*){${kill + 1}}`));
    t.strictSame(foldersOf(pid), [], `kill ${kill}: it is gone`);
    await until(async () => (await upload(server.url, 'small').catch(() => null))?.status === 200);
  }
  t.comment(`${killedWhileUnpacking} of ${KILLS} while there was something unpacked`);
  const last = serverOf(server.pid);
  t.equal(await server.stop(), 0);
  t.strictSame(foldersOf(last), [], 'nor does one that ends in order');
});
