// `sluice billing reconcile`: reads every customer from Stripe and repairs their plans, beside a running service or without one.
import { SingleBar } from 'cli-progress';
import { createBilling } from '../billing/billing.js';
import { type Reconciled, reconcile } from '../billing/reconcile.js';
import { type Config, ConfigError } from '../config/config.js';
import { createLog } from '../log.js';
import type { Sql } from '../store/postgres.js';
import { EXIT_CLEAN, EXIT_FAILED, untilSignal } from './output.js';
import { withStore } from './store.js';

/** Resolves with the exit code. Throws a Refusal, a StoreError, and a ConfigError where billing is off. */
export async function reconcileBilling(config: Config): Promise<number> {
  if (config.billing === null) throw new ConfigError(['STRIPE_SECRET_KEY is not set: billing is off']);
  const { log, flush } = createLog(config.logLevel === 'info' ? 'warn' : config.logLevel, process.stderr.fd);
  try {
    return await withStore(config, async (sql) => {
      // A running service tells its admission within a minute; this process can't.
      const parts = {
        sqlOf: () => sql,
        plans: config.plans,
        settings: config.billing,
        planChanged: null,
        log,
        now: Date.now,
      };
      return await run(sql, parts);
    });
  } finally {
    await flush();
  }
}

async function run(sql: Sql, parts: Parameters<typeof createBilling>[0]): Promise<number> {
  const bar = createBar(process.stderr);
  const { stripe, applier } = createBilling(parts).active();
  return await untilSignal(async ({ signal }) => {
    const options = { unlessSince: null, signal, onProgress: bar.show };
    const result = await reconcile({ stripe, applier, sql, log: parts.log }, options).finally(bar.stop);
    process.stdout.write(`${summary(result)}
`);
    return result.outcome === 'finished' && result.failed === 0 ? EXIT_CLEAN : EXIT_FAILED;
  });
}

function summary(result: Reconciled): string {
  if (result.outcome === 'notNeeded') return 'Nothing was read: another process reconciles, or broke off a moment ago.';
  const { outcome, read, repaired, failed } = result;
  const counts = `${read} customers read, ${repaired} plans repaired, ${failed} failed.`;
  return outcome === 'finished' ? counts : `Stopped early: ${counts}`;
}

/** On a terminal only. */
function createBar(stream: NodeJS.WriteStream): { show(done: number, customers: number): void; stop(): void } {
  if (!stream.isTTY) return { show: () => undefined, stop: () => undefined };
  const format = 'Reading customers {bar} {value}/{total}, {eta_formatted} left';
  const bar = new SingleBar({ stream, format, clearOnComplete: true, hideCursor: false, gracefulExit: false });
  bar.start(0, 0);
  return {
    show(done, customers) {
      bar.setTotal(customers);
      bar.update(done);
    },
    stop: () => bar.stop(),
  };
}
