// A child process of the tests: memory that was taken and freed beside a scan, and what the process holds before and after it rests.
import { readFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { ScanPool, scanOnce } from '../../../src/engine/threads/pool.js';
import { sharedBytes } from '../../fixtures/shared-bytes.js';
import { until } from '../../fixtures/until.js';
import { serveFolder } from '../../native/engine.js';

const [databases, temporaryDirectory] = process.argv.slice(2);
if (databases === undefined || temporaryDirectory === undefined) throw new Error('usage: databases temporary');

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

function residentMb(): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1]) / 1024;
}

await serveFolder(databases, temporaryDirectory);
const pool = new ScanPool({ threads: 1, keepMs: 500, queueLimit: 10, scanTimeoutMs: 60_000, sandbox: 'off' });

/** Every second one is freed: what is free lies between what is not. */
const kept: Uint8Array[] = [];
function takeAndFree(): void {
  const pieces = Array.from({ length: 4_000 }, () => new Uint8Array(40_000).fill(1));
  kept.push(...pieces.filter((_, index) => index % 2 === 0));
}

takeAndFree();
collect();
const heldMb = residentMb();
await scanOnce(pool, sharedBytes(Buffer.from('a text')), 6, { account: 'one' });
const line = { heldMb, restedMb: 0, kept: kept.length };
await until(() => {
  line.restedMb = residentMb();
  return line.restedMb < heldMb - 40;
});
await pool.stop();
process.stdout.write(JSON.stringify(line));
