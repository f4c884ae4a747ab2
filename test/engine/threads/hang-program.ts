// A child process of the tests: scans one content at a deadline of a second, and prints when that is late, found to hang, and back.
import { ScanPool, scanOnce } from '../../../src/engine/threads/pool.js';
import { faulty } from '../../fixtures/faults.js';
import { sharedBytes } from '../../fixtures/shared-bytes.js';
import { until } from '../../fixtures/until.js';
import { serveFolder } from '../../native/engine.js';
import { hearingTurns } from './hearing-turns.js';

const [databases, temporaryDirectory, order] = process.argv.slice(2);
if (databases === undefined || temporaryDirectory === undefined || order === undefined)
  throw new Error('usage: databases temporary order');

await serveFolder(databases, temporaryDirectory);
const pool = new ScanPool({
  threads: 1,
  threadsMost: 1,
  queueLimit: 10,
  scanTimeoutMs: 1_000,
  graceMs: 200,
  sandbox: 'off',
  onHung(sha256) {
    process.stdout.write(`hung ${sha256}\n`);
    // Any other end would wait for the thread.
    process.kill(process.pid, 'SIGKILL');
  },
});

function scan(text: string, sha256: string, by: Parameters<typeof scanOnce>[0] = pool) {
  const bytes = faulty(text);
  return scanOnce(by, sharedBytes(bytes), bytes.length, { sha256 });
}

// Until the thread is there, which may take longer than this deadline.
while ((await scan('fail 20', 'first').catch(() => null))?.returned !== null);
const heard = hearingTurns(pool, () => process.stdout.write('begun\n'));
const { verdict } = await scan(order, 'digest', heard);
process.stdout.write(`${verdict.kind}\n`);
let wasLate = false;
await until(() => {
  wasLate ||= pool.late > 0;
  return pool.running === 0;
});
process.stdout.write(`back, ${wasLate ? 'late' : 'in time'}, ${pool.late} late\n`);
process.exit(0);
