// A child process of the tests: two scan threads and up to eight beside them, four of these for content over 1 MB, scans that take long, and what is seen of it.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ScanPool, scanOnce } from '../../../src/engine/threads/pool.js';
import { faulty } from '../../fixtures/faults.js';
import { sharedBytes } from '../../fixtures/shared-bytes.js';
import { until } from '../../fixtures/until.js';
import { serveFolder } from '../../native/engine.js';
import { hearingTurns } from './hearing-turns.js';

const [databases, temporaryDirectory] = process.argv.slice(2);
if (databases === undefined || temporaryDirectory === undefined) throw new Error('usage: databases temporary');

await serveFolder(databases, temporaryDirectory);
const pool = new ScanPool({
  threads: 2,
  threadsMost: 10,
  keepMs: 3_000,
  queueLimit: 100,
  scanTimeoutMs: 60_000,
  sandbox: 'off',
});
const kinds: unknown[] = [];
const heard = hearingTurns(pool, (kind) => kinds.push(kind));
const ended: string[] = [];
const LONG = 'hang sleep 6';
const go = join(temporaryDirectory, 'go');
const HELD = `await sleep ${go}`;
const SHORT = 'fail 20';

async function scan(account: string, order: string, rest: string | Uint8Array = account): Promise<void> {
  const bytes = faulty(order, rest);
  await scanOnce(heard, sharedBytes(bytes), bytes.length, { account });
  ended.push(`${account}: ${order}`);
}

await scan('one', SHORT);
const large = Buffer.alloc(5 * 1024 * 1024);
// Its threads start meanwhile: one of the set takes it.
await scan('one', SHORT, large);
await until(() => pool.threadsOpen === 4);
const all = [1, 2, 3, 4].map(() => scan('one', HELD, large));
await until(() => pool.running === 2);
for (let serial = 0; serial < 3; serial += 1) await scan('one', SHORT);
await scan('another', SHORT);
const first = { kinds: [...kinds], ended: [...ended], running: pool.running, waiting: pool.waiting };
writeFileSync(go, '');
await Promise.race(all);
const openForLarge = pool.threadsOpen;
await Promise.all(all);
await until(() => pool.running === 0);

// Small ones that take long, more of them than there are threads.
ended.length = 0;
all.push(...Array.from({ length: 6 }, () => scan('one', LONG)));
await until(() => pool.running === 4);
all.push(scan('two', LONG));
await until(() => pool.running === 5);
all.push(scan('three', LONG));
await until(() => pool.running === 6);
all.push(scan('four', SHORT));
const { standIns, waiting, accountsWaiting, threadsOpen } = pool;
await Promise.all(all);
await until(() => pool.running === 0);
await until(() => pool.threadsOpen === 4);
await scan('one', SHORT);
const bound = { standIns, waiting, accountsWaiting, threadsOpen, ended, lastKind: kinds.at(-1) };
await pool.stop();

// Too few may stand in for a lane of its own for large content.
const few = new ScanPool({ threads: 2, threadsMost: 5, queueLimit: 100, scanTimeoutMs: 60_000, sandbox: 'off' });
const scanLarge = (order: string) => scanOnce(few, sharedBytes(faulty(order, large)), large.length);
await scanLarge(SHORT);
await until(() => few.threadsOpen === 3);
const two = [scanLarge('hang sleep 1'), scanLarge('hang sleep 1')];
const together = { running: few.running, standIns: few.standIns };
await Promise.all(two);
await few.stop();
process.stdout.write(JSON.stringify({ first, openForLarge, bound, together }));
