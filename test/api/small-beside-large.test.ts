// Over the wire: uploads whose scans take long hold all scan threads, and a small one of the same account has its answer before any of them.
import t from 'tap';
import { faultEnvironment, faulty, holdScans } from '../fixtures/faults.js';
import { startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const THREADS = 2;
/** More than there are threads. */
const LARGE = 4;
const LARGE_BYTES = 4 * 1024 * 1024;

const server = await startServer({
  env: { ...faultEnvironment, PLANS: 'BUSINESS:10000', SCAN_THREADS: String(THREADS) },
});
t.teardown(() => server.stop('SIGKILL'));

t.test('a small scan has its verdict before any of the large ones of its own account', async (t) => {
  const { order, letGo } = holdScans(t);
  const ended: string[] = [];
  const rest = (serial: number): Buffer => Buffer.alloc(LARGE_BYTES, serial);
  const large = Array.from({ length: LARGE }, async (_, serial) => {
    const { status } = await upload(server.url, faulty(order, rest(serial)));
    ended.push(`large ${status}`);
  });
  await until(async () => (await server.metric('sluice_scans_running')) >= THREADS);
  for (let serial = 0; serial < 5; serial += 1) {
    const { status } = await upload(server.url, `small ${serial}`);
    ended.push(`small ${status}`);
  }
  t.strictSame(
    ended,
    Array.from({ length: 5 }, () => 'small 200'),
  );
  t.ok((await server.metric('sluice_scans_running')) >= THREADS, 'the large ones have as many threads as there are');
  letGo();
  await Promise.all(large);
  t.strictSame(
    ended.slice(5),
    Array.from({ length: LARGE }, () => 'large 200'),
  );
});
