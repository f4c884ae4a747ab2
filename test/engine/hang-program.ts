// A child process of the tests: scans one content at a deadline of a second, and prints when that is late, found to hang, and back.
import { defaultEngineLimits, loadEngine } from '../../src/engine/addon.js';
import { startPool } from '../../src/engine/pool.js';
import { faulty } from '../fixtures/faults.js';

const [databases, temporaryDirectory, order] = process.argv.slice(2);
if (databases === undefined || temporaryDirectory === undefined || order === undefined)
  throw new Error('usage: databases temporary order');

await loadEngine({ directories: [databases], temporaryDirectory, limits: defaultEngineLimits });
const pool = startPool({
  threads: 1,
  standIns: 0,
  queueLimit: 10,
  scanTimeoutMs: 1_000,
  graceMs: 200,
  sandbox: 'off',
  onBegin: (sha256) => {
    if (sha256 === 'digest') process.stdout.write('begun\n');
    return () => undefined;
  },
  onHung(sha256) {
    process.stdout.write(`hung ${sha256}\n`);
    // Any other end would wait for the thread.
    process.kill(process.pid, 'SIGKILL');
  },
});

function scan(text: string, sha256: string) {
  const bytes = faulty(text);
  const content = new ArrayBuffer(bytes.length);
  new Uint8Array(content).set(bytes);
  return pool.scan(content, bytes.length, { sha256 });
}

// Until the thread is there, which may take longer than this deadline.
while ((await scan('fail 20', 'first').catch(() => null))?.content === null);
const { verdict } = await scan(order, 'digest');
process.stdout.write(`${verdict.kind}\n`);
let wasLate = false;
while (pool.running > 0) {
  wasLate ||= pool.late > 0;
  await new Promise((resolve) => setTimeout(resolve, 10));
}
process.stdout.write(`back, ${wasLate ? 'late' : 'in time'}, ${pool.late} late\n`);
process.exit(0);
