// `sluice billing reconcile`: reads every customer from Stripe and repairs their plans, beside a running service or without one.
import { constants } from 'node:os';
import { SingleBar } from 'cli-progress';
import { createBilling } from '../billing/billing.js';
import { type Reconciled, reconcile } from '../billing/reconcile.js';
import { readConfig } from '../config/config.js';
import { createLog } from '../log.js';
import type { Sql } from '../store/postgres.js';
import { StoreError } from '../store/store-error.js';
import { EXIT_CONFIG } from '../supervisor/slot.js';
import { EXIT_CLEAN, EXIT_FAILED, EXIT_SIGNAL_BASE, Refusal } from './output.js';
import { type Environment, findService } from './service-place.js';
import { withStore } from './store.js';

/** Resolves with the exit code. */
export async function reconcileBilling(env: Environment, { dataDir }: { readonly dataDir?: string }): Promise<number> {
  try {
    return await reconcileIn(findService(env, { dataDirectory: dataDir ?? null }));
  } catch (error) {
    if (!(error instanceof StoreError) && !(error instanceof Refusal)) throw error;
    process.stderr.write(`${error.message}\n`);
    return EXIT_FAILED;
  }
}

async function reconcileIn(env: Environment): Promise<number> {
  const config = readConfig(env);
  if (config.billing === null) {
    process.stderr.write('Billing is not configured: STRIPE_SECRET_KEY is not set\n');
    return EXIT_CONFIG;
  }
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
  const abortion = new AbortController();
  let stoppedBy: NodeJS.Signals | null = null;
  const onSignal = (signal: NodeJS.Signals): void => {
    stoppedBy = signal;
    abortion.abort();
  };
  process.once('SIGINT', onSignal);
  process.once('SIGTERM', onSignal);
  const bar = createBar(process.stderr);
  const { stripe, applier } = createBilling(parts).active();
  let result: Reconciled;
  try {
    const options = { unlessSince: null, signal: abortion.signal, onProgress: bar.show };
    result = await reconcile({ stripe, applier, sql, log: parts.log }, options);
  } finally {
    bar.stop();
  }
  process.stdout.write(`${summary(result)}\n`);
  if (stoppedBy !== null) return EXIT_SIGNAL_BASE + constants.signals[stoppedBy];
  return result.outcome === 'finished' && result.failed === 0 ? EXIT_CLEAN : EXIT_FAILED;
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
