// `sluice billing reconcile`: reads every customer from Stripe and repairs their plans, beside a running service or without one.
import { createBilling } from '../billing/billing.js';
import { type Reconciled, reconcile } from '../billing/reconcile.js';
import { type Config, ConfigError } from '../config/config.js';
import { createLog } from '../log.js';
import type { Sql } from '../store/postgres.js';
import { EXIT_CLEAN, EXIT_FAILED, print, untilSignal } from './output.js';
import { createProgress } from './progress.js';
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
  const progress = createProgress();
  const { stripe, applier } = createBilling(parts).active();
  return await untilSignal(async ({ signal }) => {
    const onProgress = (done: number, customers: number): void =>
      progress.counting('Reading customers {bar} {value}/{total}', done, customers);
    const options = { unlessSince: null, signal, onProgress };
    const result = await reconcile({ stripe, applier, sql, log: parts.log }, options).finally(progress.stop);
    print(`${summary(result)}\n`);
    return result.outcome === 'finished' && result.failed === 0 ? EXIT_CLEAN : EXIT_FAILED;
  });
}

function summary(result: Reconciled): string {
  if (result.outcome === 'notNeeded') return 'Nothing was read: another process reconciles, or broke off a moment ago.';
  const { outcome, read, repaired, failed } = result;
  const counts = `${read} customers read, ${repaired} plans repaired, ${failed} failed.`;
  return outcome === 'finished' ? counts : `Stopped early: ${counts}`;
}
