// A child process of the tests: scans, on a scan thread, what its arguments order, and prints what became of it.

import { defaultEngineLimits, loadEngine } from '../../src/engine/addon.js';
import { startPool } from '../../src/engine/pool.js';
import type { SandboxMode } from '../../src/engine/task.js';
import { faulty } from '../fixtures/faults.js';

const [databases, temporaryDirectory, ...orders] = process.argv.slice(2);
if (databases === undefined || temporaryDirectory === undefined)
  throw new Error('usage: databases temporary orders...');

const sandbox: SandboxMode = process.env['SANDBOX'] === 'off' ? 'off' : 'required';
const megabytes = process.env['TEMPORARY_MB'];
const bound = megabytes === undefined ? {} : { maxTemporaryBytes: Number(megabytes) * 1024 * 1024 };
await loadEngine({ directories: [databases], temporaryDirectory, limits: { ...defaultEngineLimits, ...bound } });
const pool = startPool({ threads: 1, queueLimit: 1, scanTimeoutMs: 60_000, sandbox });
for (const order of orders) {
  const bytes = faulty(order);
  const content = new ArrayBuffer(bytes.length);
  new Uint8Array(content).set(bytes);
  const { verdict } = await pool.scan(content, bytes.length);
  process.stdout.write(`${JSON.stringify(verdict)}\n`);
}
await pool.stop();
