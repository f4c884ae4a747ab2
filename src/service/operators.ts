// The operators' room put together: what their routes read of this process, and what they may set going.
import { hostname } from 'node:os';
import { version as nodeVersion, pid, uptime } from 'node:process';
import { getHeapStatistics } from 'node:v8';
import type { Config } from '../config/config.js';
import type { Exchange } from '../http/exchange.js';
import type { Log } from '../log.js';
import { startUpkeep } from '../operator/changes.js';
import {
  createSignatureUpdate,
  type HealthView,
  type ReadHealth,
  type SharedNodes,
  type SignatureUpdate,
  startNodes,
  type UpdateView,
} from '../operator/health.js';
import { createOperatorRoutes } from '../operator/routes.js';
import type { UploadMemory } from '../scan/memory/memory.js';
import { wireTime } from '../wire-text.js';
import { problemOf } from './endpoints.js';
import { lookAtMemory } from './engine.js';
import type { MetricsParts } from './metrics.js';
import type { Parts } from './parts.js';

/** What operators ask the supervisor for, which has rights that server processes have given up, and keeps what all of them share. */
export type OperatorReport = { readonly kind: 'allow'; readonly sha256: string } | { readonly kind: 'update' };

/** What the supervisor has said, and what it is asked for. */
export type SupervisorsWord = ReturnType<typeof createSupervisorsWord>;

export function createSupervisorsWord(report: (report: OperatorReport) => void, onUpdated: () => void) {
  /** Contents that are not scanned, as SHA-256. */
  const refused = new Set<string>();
  let update: UpdateView | null = null;
  return {
    report,
    refused,
    /** Of the signatures; null: there is no supervisor. */
    get update() {
      return update;
    },
    refuse(digests: readonly string[]): void {
      refused.clear();
      for (const digest of digests) refused.add(digest);
    },
    noteUpdate(view: UpdateView): void {
      const wasRunning = update?.state === 'running';
      update = view;
      if (wasRunning && view.state === 'done') onUpdated();
    },
  };
}

interface OperatorsParts extends Omit<MetricsParts, 'loads'>, Pick<Parts, 'version'> {
  readonly supervisor: SupervisorsWord;
  /** Of the data folder. */
  readonly nodeId: string;
  readonly addressOf: (exchange: Exchange) => string;
}

/** The newest come last, and are shown. */
const REFUSED_SHOWN = 100;

export function openOperators(config: Config, log: Log, parts: OperatorsParts) {
  const { postgres, admission, addressOf, supervisor } = parts;
  const upkeep = startUpkeep({ sql: postgres.sql, nodes: admission }, log);
  const update = updateOf(parts);
  const self = { id: parts.nodeId, host: hostname(), pid, version: parts.version };
  const nodes = startNodes(postgres.sql, self, () => servingOf(parts), log);
  const routes = createOperatorRoutes({
    sqlOf: postgres.requests,
    plans: config.plans,
    nodes: admission,
    now: Date.now,
    addressOf,
    onDeleted: upkeep.now,
    update,
    allow(sha256) {
      // Here at once; the supervisor tells the others on this machine.
      if (!supervisor.refused.delete(sha256)) return false;
      supervisor.report({ kind: 'allow', sha256 });
      return true;
    },
    health: healthOf(config, parts, nodes),
    needsTwoFactor: config.operatorTwoFactor === 'required',
  });
  return {
    routes,
    async stop(): Promise<void> {
      await Promise.all([upkeep.stop(), update.stop(), nodes.stop()]);
    },
  };
}

/** The supervisor's; without one, this process's own. */
function updateOf({ signatures, supervisor }: OperatorsParts): SignatureUpdate {
  const own = createSignatureUpdate({
    onChange: () => undefined,
    onDone: () => void signatures.reload(),
    now: Date.now,
  });
  return {
    view: () => supervisor.update ?? own.view(),
    start() {
      const { update } = supervisor;
      if (update === null) return own.start();
      if (update.state === 'running') return false;
      supervisor.noteUpdate({ state: 'running', startedAt: wireTime(new Date()), endedAt: null, lines: [] });
      supervisor.report({ kind: 'update' });
      return true;
    },
    stop: own.stop,
  };
}

function healthOf(config: Config, parts: OperatorsParts, nodes: SharedNodes): ReadHealth {
  const { pool, memories, cache, history, admission, version } = parts;
  const { refused } = parts.supervisor;
  const residentBytes = lookAtMemory();
  return async () => {
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
        residentBytes: residentBytes(),
        limitBytes: config.memoryLimitBytes,
        heapBytes: getHeapStatistics().used_heap_size,
        uploads: lentBy(memories.uploads, config.uploadMemoryBytes),
        downloads: lentBy(memories.downloads, config.downloadMemoryBytes),
        verdictCacheBytes: Math.round(cache?.sizeBytes ?? 0),
      },
      stores: {
        database: await problemOf(parts.postgres),
        isEmbedded: config.databaseUrl === null,
        admission: admission.problem(),
        hasRedis: config.redisUrl !== null,
      },
      journal: { rows, bytes, oldestSeconds: Math.max(0, oldestAgeMs / 1000), damagedFiles, problem },
      nodes: nodes.list(),
      suspects: refused.size,
      refused: [...refused].slice(-REFUSED_SHOWN).reverse(),
    };
  };
}

function lentBy(memory: UploadMemory, budgetBytes: number): HealthView['memory']['uploads'] {
  const { lentBytes, accounts, largestAccountBytes, waiting } = memory;
  return { lentBytes, budgetBytes, accounts, largestAccountBytes, waiting };
}

function servingOf(parts: OperatorsParts) {
  const { description, signatures, builtAt } = engineOf(parts);
  // What is behind the first word says the same as the number and the time.
  return { engine: description?.split(';')[0] ?? null, signatures, builtAt };
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
