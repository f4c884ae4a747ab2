// A child process of the tests: scans, on a scan thread, what its arguments order, and prints what became of it.
import { ScanPool, scanOnce } from '../../src/engine/threads/pool.js';
import type { SandboxMode } from '../../src/engine/threads/task.js';
import { faulty } from '../fixtures/faults.js';
import { sharedBytes } from '../fixtures/shared-bytes.js';
import { serveFolder } from './engine.js';

const [databases, temporaryDirectory, ...orders] = process.argv.slice(2);
if (databases === undefined || temporaryDirectory === undefined)
  throw new Error('usage: databases temporary orders...');

const sandbox: SandboxMode = process.env['SANDBOX'] === 'off' ? 'off' : 'required';
const megabytes = process.env['TEMPORARY_MB'];
const bound = megabytes === undefined ? {} : { maxTemporaryBytes: Number(megabytes) * 1024 * 1024 };
await serveFolder(databases, temporaryDirectory, bound);
const pool = new ScanPool({ threads: 1, queueLimit: 1, scanTimeoutMs: 60_000, sandbox });
for (const order of orders) {
  const bytes = faulty(order);
  const { verdict } = await scanOnce(pool, sharedBytes(bytes), bytes.length);
  process.stdout.write(`${JSON.stringify(verdict)}\n`);
}
await pool.stop();
