// A child process of the tests: prints which sandbox it finds in the mode of its argument, and what a scan thread makes of a scan.
import { ScanPool, scanOnce } from '../../src/engine/threads/pool.js';
import { findSandbox } from '../../src/engine/threads/sandbox.js';
import { serveFolder } from './engine.js';

const [mode, databases, temporaryDirectory] = process.argv.slice(2);
if (databases === undefined || temporaryDirectory === undefined) throw new Error('usage: mode databases temporary');

const sandbox = mode === 'required' ? 'required' : 'auto';
try {
  const { confinement, warning } = findSandbox(sandbox);
  process.stdout.write(`${JSON.stringify({ confinement, warning })}\n`);
} catch (error) {
  process.stdout.write(`${JSON.stringify({ refused: error instanceof Error ? error.message : error })}\n`);
}
await serveFolder(databases, temporaryDirectory);
const pool = new ScanPool({ threads: 1, queueLimit: 1, scanTimeoutMs: 60_000, sandbox });
for (let round = 0; round < 2; round += 1) {
  const { verdict } = await scanOnce(pool, new Uint8Array(new SharedArrayBuffer(8)), 8);
  process.stdout.write(`${JSON.stringify(verdict)}\n`);
}
await pool.stop();
