// The stores of the service: Postgres or the embedded one, and admission over Redis or in this process.
import { createKeyLoader, recentRevocations } from './account/keys.js';
import { createPlanLimits } from './account/plans.js';
import type { Config } from './config.js';
import type { Log } from './log.js';
import type { AdmissionStore } from './store/admission.js';
import { createAdmissions } from './store/admissions.js';
import { startEmbedded } from './store/embedded.js';
import type { Ledger } from './store/ledger.js';
import { createLookups } from './store/lookups.js';
import { createMemoryLedger } from './store/memory-ledger.js';
import { openPostgres, type Postgres, type Sql } from './store/postgres.js';
import { createQuotaHours, type QuotaHours } from './store/quota-hours.js';
import { openRedis } from './store/redis.js';
import { createRedisLedger } from './store/redis-ledger.js';

export async function startStore(config: Config, log: Log, stops: (() => Promise<void>)[]): Promise<Postgres> {
  if (config.databaseUrl !== null) {
    const postgres = await openPostgres({ kind: 'url', url: config.databaseUrl });
    stops.push(() => postgres.close());
    return postgres;
  }
  log.info({ dataDirectory: config.dataDirectory }, 'starting the embedded database');
  const { socketDirectory, stop } = await startEmbedded(config.dataDirectory);
  stops.push(stop);
  const postgres = await openPostgres({ kind: 'embedded', socketDirectory });
  stops.push(() => postgres.close());
  return postgres;
}

export async function startAdmission(
  config: Config,
  log: Log,
  { sql }: Postgres,
  stops: (() => Promise<void>)[],
): Promise<AdmissionStore> {
  const hours = createQuotaHours(sql);
  const onProblem = (problem: string): void => log.warn({ problem }, 'admission');
  const common = { hours, lookups: createLookups(createKeyLoader(sql, createPlanLimits(config.plans))), onProblem };
  let admission: AdmissionStore;
  if (config.redisUrl === null) {
    const ledger = createMemoryLedger(Date.now);
    admission = createAdmissions({ ...common, ledger, clock: Date.now, ledgerProblem: () => null });
  } else {
    const redis = await openRedis({
      url: config.redisUrl,
      onReturn: (commands) => settle(createRedisLedger(commands), hours, sql),
      onProblem,
    });
    stops.push(async () => redis.close());
    const ledger = createRedisLedger(redis);
    admission = createAdmissions({ ...common, ledger, clock: Date.now, ledgerProblem: () => redis.problem() });
  }
  stops.push(() => admission.stop());
  return admission;
}

/** What happened while Redis was away, told to it: units that Postgres counted, and keys that ended. */
async function settle(ledger: Ledger, hours: QuotaHours, sql: Sql): Promise<void> {
  await ledger.raise(await hours.current());
  await Promise.all((await recentRevocations(sql)).map(({ userId, keyHash }) => ledger.revoke(userId, keyHash)));
}
