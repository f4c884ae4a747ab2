// `node dist/bench/webhooks.js [ROUNDS] [SCANS_PER_SECOND]`: what scans of one account wait for while 10,000 messages of another wait for a receiver that hangs, in turns with nothing to be sent.
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { ownSignaturesDirectory } from '../src/paths.js';
import { makeAccount } from '../test/fixtures/another-account.js';
import { startReceiver } from '../test/fixtures/receiver.js';
import { ask } from '../test/fixtures/sign-in.js';
import { upload } from '../test/fixtures/upload.js';
import { startForgetfulSluiceWithStores } from './contestants/sluice.js';
import { threadSeconds, untilIdle } from './cpu.js';
import { makeFileSet } from './files.js';
import { median } from './median.js';

const [, , rounds = '5', rate = '2000'] = process.argv;
const SECONDS = 5;
const CONNECTIONS = 32;
const WEBHOOKS = 10;
const SCANS = 1_000;
const AT_ONCE = 16;
const Id = z.object({ id: z.string() });

/** Of the main threads: the server's, and its supervisor's, which does nothing. */
function servingSeconds(): number {
  return [...threadSeconds(sluice.pid)]
    .filter(([thread]) => thread.endsWith(', main'))
    .reduce((sum, [, seconds]) => sum + seconds, 0);
}

const folder = await mkdtemp(join(tmpdir(), 'sluice-webhooks-'));
const receiver = await startReceiver();
receiver.answer = () => 'silence';
const setting = { databaseDirectory: ownSignaturesDirectory, threads: availableParallelism(), folder };
const sluice = await startForgetfulSluiceWithStores(setting, CONNECTIONS, {
  REGISTRATION: 'open',
  PLANS: 'FREE:1000000,BENCH:999999999',
  URL_ALLOW_NETWORKS: '127.0.0.1/32',
});
try {
  const { key } = await makeAccount(sluice.url, 'waiting@example.com');
  const headers = { 'X-API-KEY': key, 'Content-Type': 'application/json' };
  const under = `${sluice.url}/api/v1/webhooks`;
  const ids: string[] = [];
  for (let made = 0; made < WEBHOOKS; made += 1) {
    const body = JSON.stringify({ url: receiver.url(), events: ['scan.completed'] });
    ids.push(Id.parse((await ask(under, { method: 'POST', headers, body })).body).id);
  }
  const change = async (enabled: boolean): Promise<void> => {
    for (const id of ids) {
      await ask(`${under}/${id}`, { method: 'PUT', headers, body: JSON.stringify({ enabled }) });
      // The rate of such requests is bounded.
      await delay(100);
    }
  };
  let sent = 0;
  const client = async (): Promise<void> => {
    while (sent < SCANS) await upload(sluice.url, `waiting ${sent++}`, { key });
  };
  await Promise.all(Array.from({ length: AT_ONCE }, client));
  await change(false);
  const { listPath, ...files } = await makeFileSet(
    { name: '1KB', files: { kind: 'unique', sizeBytes: 1024 } },
    folder,
    async () => () => true,
  );
  await sluice.use({ listPath, ...files });
  await sluice.run(SECONDS);
  const ratios: number[] = [];
  for (let round = 0; round < Number(rounds); round += 1) {
    const p99Ms: number[] = [];
    for (const enabled of [false, true]) {
      await change(enabled);
      await untilIdle(sluice.pid);
      const before = servingSeconds();
      const { p50Us, p99Us, scans, errors, firstError } = await sluice.pace(SECONDS, Number(rate));
      if (errors > 0) throw new Error(firstError);
      const servingUs = ((servingSeconds() - before) / scans) * 1e6;
      p99Ms.push((p99Us ?? Number.NaN) / 1000);
      const what = enabled ? `${WEBHOOKS * SCANS} waiting, receivers hang` : 'nothing to be sent';
      process.stdout.write(
        `${what}: p50 ${((p50Us ?? 0) / 1000).toFixed(2)} ms, p99 ${((p99Us ?? 0) / 1000).toFixed(2)} ms, serving thread ${servingUs.toFixed(1)} us a scan\n`,
      );
    }
    ratios.push((p99Ms[1] ?? Number.NaN) / (p99Ms[0] ?? Number.NaN));
  }
  process.stdout.write(
    `p99 with over p99 without, median of ${ratios.length}: ${median(ratios).toFixed(2)}; ${receiver.messages.length} attempts\n`,
  );
} finally {
  await sluice.stop();
  await receiver.stop();
  await rm(folder, { recursive: true, force: true });
}
