// A child process of the tests: scans go through the pool, a few at a time. V8 prints its collections (--trace-gc-nvp); ROUND stands behind those of a round.
import { writeSync } from 'node:fs';
import { startPool } from '../../../src/engine/threads/pool.js';
import { sharedBytes } from '../../fixtures/shared-bytes.js';
import { serveFolder } from '../../native/engine.js';

const LANES = 8;
const [databases, temporaryDirectory, rounds, scans] = process.argv.slice(2);
if (databases === undefined || temporaryDirectory === undefined) {
  throw new Error('usage: databases temporary rounds scans');
}

await serveFolder(databases, temporaryDirectory);
const pool = startPool({ threads: 1, queueLimit: 100, scanTimeoutMs: 60_000, sandbox: 'off' });
const client = { isGone: () => false, onGone: () => undefined };

async function scanMany(count: number): Promise<void> {
  let left = count;
  async function lane(): Promise<void> {
    const bytes = Buffer.alloc(1024, 'x');
    const content = sharedBytes(bytes, 1);
    while (left-- > 0) await pool.scan(content, bytes.length, { account: 'a', client });
  }
  await Promise.all(Array.from({ length: LANES }, lane));
}

for (let round = 0; round < Number(rounds); round += 1) {
  await scanMany(Number(scans));
  writeSync(process.stdout.fd, 'ROUND\n');
}
await pool.stop();
