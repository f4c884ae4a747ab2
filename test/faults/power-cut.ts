// `node dist/test/faults/power-cut.js [ROUNDS] [fsync=off]`, as root: the embedded database on a disk of its own that loses, in the
// middle of commits, all that was not forced to it; what was committed must be there afterwards. With fsync=off it is not: the proof of the test.
import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startEmbedded } from '../../src/store/embedded/embedded.js';
import { openPostgres } from '../../src/store/postgres.js';

const [, , rounds = '20', setting] = process.argv;
const DISK_MB = 512;
const WRITERS = 3;
const LOAD_MAX_MS = 3_000;
/** ext4's ioctl for this: nothing more reaches the disk, not even its own log (EXT4_IOC_SHUTDOWN, NOLOGFLUSH). */
const CUT =
  'import fcntl, os, struct, sys; fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack("I", 2))';

const folder = mkdtempSync(join(tmpdir(), 'sluice-power-'));
const image = join(folder, 'image');
const disk = join(folder, 'disk');
const dataDirectory = join(disk, 'data');
const run = (program: string, ...args: string[]): void => void execFileSync(program, args, { stdio: 'pipe' });

run('truncate', '-s', `${DISK_MB}M`, image);
run('mkfs.ext4', '-q', image);
mkdirSync(disk);
run('mount', '-o', 'loop', image, disk);

await (await startEmbedded({ dataDirectory })).stop();
if (setting !== undefined) appendFileSync(join(dataDirectory, 'postgres', '18', 'postgresql.conf'), `${setting}\n`);

const committed: number[] = [];
let next = 0;
let lost = 0;
for (let round = 1; round <= Number(rounds); round += 1) {
  const embedded = await startEmbedded({ dataDirectory });
  const { sql, close } = await openPostgres({ kind: 'embedded', socketDirectory: embedded.socketDirectory });
  await sql`CREATE TABLE IF NOT EXISTS kept (n int PRIMARY KEY)`;
  const found = new Set((await sql<{ n: number }[]>`SELECT n FROM kept`).map(({ n }) => n));
  const missing = committed.filter((n) => !found.has(n));
  lost += missing.length;
  process.stdout.write(`round ${round}: ${committed.length} committed, ${missing.length} lost\n`);
  // What is lost once is not counted again.
  committed.splice(0, committed.length, ...found);
  let isCut = false;
  const writers = Array.from({ length: WRITERS }, async () => {
    while (!isCut) {
      next += 1;
      const n = next;
      await sql`INSERT INTO kept VALUES (${n})`.then(
        () => committed.push(n),
        () => undefined,
      );
    }
  });
  await delay(Math.random() * LOAD_MAX_MS);
  run('python3', '-c', CUT, disk);
  isCut = true;
  process.kill(embedded.pid, 'SIGKILL');
  await Promise.all(writers);
  await close();
  await embedded.ended;
  await embedded.stop().catch(() => undefined);
  await remount();
}
run('umount', disk);
rmSync(folder, { recursive: true });
process.stdout.write(`${next} tried, ${lost} that were committed are lost\n`);
process.exitCode = lost === 0 ? 0 : 1;

/** Its other processes end a moment after the first one, and keep the disk until then. */
async function remount(): Promise<void> {
  for (;;) {
    try {
      run('umount', disk);
      break;
    } catch {
      await delay(50);
    }
  }
  run('mount', '-o', 'loop', image, disk);
}
