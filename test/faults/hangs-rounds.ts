// Scans that burn a core each and never end, one for each thread, while others scan: what those get, and how late.
import { setTimeout as delay } from 'node:timers/promises';
import { faultEnvironment, faulty } from '../fixtures/faults.js';
import { startPostgres } from '../fixtures/postgres.js';
import { childrenOf } from '../fixtures/processes.js';
import { startRedis } from '../fixtures/redis.js';
import { startServer } from '../fixtures/server.js';
import { PAUSE_MS } from '../fixtures/steady-scans.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

export interface HangOptions {
  readonly rounds: number;
  readonly deadlineMs: number;
  readonly clients: number;
  /** Default: two, as many as hang. */
  readonly threads?: number;
  readonly onRound: (text: string) => void;
}

export interface HangReport {
  /** What the others got, by status; `failed`: no answer. */
  readonly others: Readonly<Record<string, number>>;
  readonly slowestMs: number;
  /** A round ends with the old process: nothing burns any more. */
  readonly replaced: number;
  readonly problems: readonly string[];
}

export async function runHangs(options: HangOptions): Promise<HangReport> {
  const { rounds, deadlineMs, clients, threads = 2, onRound } = options;
  const postgres = await startPostgres();
  const redis = await startRedis();
  const server = await startServer({
    isSupervised: true,
    env: {
      ...faultEnvironment,
      DATABASE_URL: await postgres.database(),
      REDIS_URL: redis.url,
      BOOTSTRAP_PLAN: 'HUGE',
      PLANS: 'HUGE:10000000',
      SCAN_THREADS: String(threads),
      SCAN_TIMEOUT_MS: String(deadlineMs),
    },
  });
  const others: Record<string, number> = {};
  const problems: string[] = [];
  let slowestMs = 0;
  let replaced = 0;
  try {
    for (let round = 0; round < rounds; round += 1) {
      const [old = 0] = childrenOf(server.pid);
      let isOver = false;
      const beside = Array.from({ length: clients }, async (_, client) => {
        for (let serial = 0; !isOver; serial += 1) {
          const startedMs = performance.now();
          const outcome = await upload(server.url, `content ${round} ${client} ${serial}`).then(
            ({ status }) => String(status),
            () => 'failed',
          );
          slowestMs = Math.max(slowestMs, performance.now() - startedMs);
          others[outcome] = (others[outcome] ?? 0) + 1;
          await delay(PAUSE_MS);
        }
      });
      const hangs = Array.from({ length: threads }, (_, index) => faulty('hang busy', `${round} ${index}`));
      for (const { status, body } of await Promise.all(hangs.map((content) => upload(server.url, content)))) {
        if (status !== 422)
          problems.push(`round ${round}: what hangs has the answer ${status} ${JSON.stringify(body)}`);
      }
      await until(() => !childrenOf(server.pid).includes(old));
      replaced += 1;
      isOver = true;
      await Promise.all(beside);
      onRound(`${JSON.stringify(others)}, slowest ${Math.round(slowestMs)} ms`);
    }
  } finally {
    await server.stop('SIGKILL');
    await Promise.all([postgres.stop(), redis.stop()]);
  }
  for (const outcome of Object.keys(others)) {
    // A wait in the queue may end with 503 where the cores are somebody else's; nothing else may happen to innocent content.
    if (!['200', '503'].includes(outcome)) problems.push(`beside scans that hang others got ${outcome}`);
  }
  return { others, slowestMs: Math.round(slowestMs), replaced, problems };
}
