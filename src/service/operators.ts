// The operators' room put together: what their routes read of this process, and what they may set going.
import { hostname } from 'node:os';
import { memoryUsage, version as nodeVersion, pid, uptime } from 'node:process';
import type { AdmissionStore } from '../admission/admission.js';
import type { Config } from '../config/config.js';
import type { Engine } from '../engine/engine.js';
import type { Signatures } from '../engine/signatures.js';
import type { ScanPool } from '../engine/threads/pool.js';
import type { History } from '../history/history.js';
import type { CallerRoute } from '../http/caller.js';
import type { Exchange } from '../http/exchange.js';
import type { Log } from '../log.js';
import type { Activity } from '../operator/activity.js';
import type { HealthView, ReadHealth } from '../operator/health.js';
import { createOperatorRoutes } from '../operator/routes.js';
import { createSignatureUpdate } from '../operator/signature-update.js';
import { startUpkeep } from '../operator/upkeep.js';
import type { UploadMemory } from '../scan/memory/memory.js';
import type { VerdictCache } from '../scan/verdicts/cache.js';
import type { Postgres } from '../store/postgres.js';
import type { Standing } from './signature-standing.js';

export interface OperatorsParts {
  readonly postgres: Postgres;
  readonly admission: AdmissionStore;
  readonly signatures: Signatures;
  readonly standing: (engine: Engine) => Standing;
  readonly pool: ScanPool;
  readonly memories: Readonly<Record<'uploads' | 'downloads', UploadMemory>>;
  readonly cache: VerdictCache;
  readonly history: History;
  readonly refused: ReadonlySet<string>;
  readonly version: string;
  readonly activity: Activity;
  readonly addressOf: (exchange: Exchange) => string;
  /** Null: it answers. */
  readonly storeProblem: () => Promise<string | null>;
}

export interface Operators {
  readonly routes: CallerRoute[];
  stop(): Promise<void>;
}

export function openOperators(config: Config, log: Log, parts: OperatorsParts): Operators {
  const { postgres, admission, signatures, activity, addressOf } = parts;
  const upkeep = startUpkeep(postgres.sql, log);
  const update = createSignatureUpdate({ onDone: () => void signatures.reload(), now: Date.now });
  const routes = createOperatorRoutes({
    sqlOf: postgres.requests,
    plans: config.plans,
    nodes: admission,
    now: Date.now,
    addressOf,
    onDeleted: upkeep.now,
    activity,
    update,
    health: healthOf(config, parts),
    needsTwoFactor: config.operatorTwoFactor === 'required',
  });
  return {
    routes,
    async stop() {
      await Promise.all([upkeep.stop(), update.stop()]);
    },
  };
}

function healthOf(config: Config, parts: OperatorsParts): ReadHealth {
  const { pool, memories, cache, history, admission, refused, version } = parts;
  return async () => {
    const { rss, heapUsed } = memoryUsage();
    const { rows, bytes, oldestAgeMs, damagedFiles, problem } = history.state();
    const { threads, running, standIns, waiting, accountsWaiting, late, hung } = pool;
    return {
      process: {
        ...{ version, node: nodeVersion, host: hostname(), pid, processes: config.processes },
        uptimeSeconds: Math.round(uptime()),
      },
      engine: engineOf(parts),
      threads: { threads, running, standIns, waiting, accountsWaiting, late, hung },
      memory: {
        residentBytes: rss,
        limitBytes: config.memoryLimitBytes,
        heapBytes: heapUsed,
        uploads: lentBy(memories.uploads, config.uploadMemoryBytes),
        downloads: lentBy(memories.downloads, config.downloadMemoryBytes),
        verdictCacheBytes: Math.round(cache.sizeBytes),
      },
      stores: {
        database: await parts.storeProblem(),
        isEmbedded: config.databaseUrl === null,
        admission: admission.problem(),
        hasRedis: config.redisUrl !== null,
      },
      journal: { rows, bytes, oldestSeconds: Math.max(0, oldestAgeMs / 1000), damagedFiles, problem },
      suspects: refused.size,
    };
  };
}

function lentBy(memory: UploadMemory, budgetBytes: number): HealthView['memory']['uploads'] {
  const { lentBytes, accounts, largestAccountBytes, waiting } = memory;
  return { lentBytes, budgetBytes, accounts, largestAccountBytes, waiting };
}

function engineOf({ signatures, standing }: OperatorsParts): HealthView['engine'] {
  const state = signatures.state();
  if (state.kind !== 'ready') {
    return {
      ...{ state: state.kind, description: null, signatures: 0, standing: null, builtAt: null, standsInFor: null },
      problem: state.kind === 'failed' ? state.message : null,
      progress: state.kind === 'loading' ? state.progress : null,
    };
  }
  const { engine, reload } = state;
  return {
    state: 'ready',
    description: engine.description,
    signatures: engine.signatureCount,
    standing: standing(engine),
    builtAt: engine.dailyBuiltAt ?? engine.signaturesBuiltAt,
    standsInFor: engine.standsInFor === null ? null : `${engine.standsInFor.name}: ${engine.standsInFor.reason}`,
    problem: reload.kind === 'failed' ? reload.message : null,
    progress: reload.kind === 'running' ? reload.progress : null,
  };
}
