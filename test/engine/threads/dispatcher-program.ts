// A child process of the tests: four accounts share two scan threads, and it prints how each scan came to its thread and when it ended.
import { startPool } from '../../../src/engine/threads/pool.js';
import { faulty } from '../../fixtures/faults.js';
import { sharedBytes } from '../../fixtures/shared-bytes.js';
import { until } from '../../fixtures/until.js';
import { serveFolder } from '../../native/engine.js';

const [databases, temporaryDirectory] = process.argv.slice(2);
if (databases === undefined || temporaryDirectory === undefined) throw new Error('usage: databases temporary');

await serveFolder(databases, temporaryDirectory);
const pool = startPool({ threads: 2, queueLimit: 100, scanTimeoutMs: 60_000, sandbox: 'off' });
const kinds: string[] = [];
pool.onTurn((kind) => kinds.push(kind));
const ended: string[] = [];

async function scan(account: string, order: string): Promise<void> {
  const bytes = faulty(order, account);
  await pool.scan(sharedBytes(bytes), bytes.length, { account });
  ended.push(account);
}

await scan('alone', 'fail 20');
const all = [1, 2, 3, 4].map(() => scan('many', 'hang sleep 4'));
await until(() => pool.running === 2);
for (let serial = 0; serial < 3; serial += 1) await scan('small', 'fail 20');
const first = { kinds: [...kinds], ended: [...ended] };

// As many as may stand in, and one account more.
all.push(scan('long', 'hang sleep 4'), scan('longer', 'hang sleep 4'));
await until(() => pool.standIns === 2);
all.push(scan('last', 'fail 20'));
const { waiting, accountsWaiting } = pool;
await Promise.all(all);
await until(() => pool.running === 0);
const { standIns } = pool;
await scan('alone again', 'fail 20');
process.stdout.write(JSON.stringify({ first, waiting, accountsWaiting, ended, standIns, lastKind: kinds.at(-1) }));
await pool.stop();
