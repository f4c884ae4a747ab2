// Asynchronous scans, put together: where their contents lie, who scans them, and who waits for them.
import { join } from 'node:path';
import type { AdmissionStore } from '../admission/admission.js';
import type { Config } from '../config/config.js';
import { messageOfError } from '../error-text.js';
import type { History } from '../history/history.js';
import { createPendingScans, createScanWaits, type PendingScans, type ScanWaits } from '../history/pending-scans.js';
import { namesOfKeys } from '../history/stats.js';
import { DISK_ANSWER_MS, MEMORY_RESERVE_SHARE } from '../limits.js';
import type { EventLog } from '../log.js';
import type { AcceptingParts } from '../scan/http/accepting-scan.js';
import { createUploadMemory } from '../scan/memory/memory.js';
import { type AcceptedState, startAcceptedScans } from '../scan/pending/accepted-scans.js';
import { openContentStore } from '../scan/pending/content-store.js';
import type { ScanParts } from '../scan/scan.js';
import type { Postgres } from '../store/postgres.js';
import { serviceKey } from '../store/service-keys.js';
import type { Add } from './starting.js';

export interface AcceptedScansParts {
  readonly postgres: Postgres;
  readonly history: History;
  readonly admission: AdmissionStore;
}

export interface OpenAccepted {
  /** Of the data folder, where the contents are. */
  readonly nodeId: string;
  readonly table: PendingScans;
  readonly waits: ScanWaits;
  readonly state: () => AcceptedState;
  /** Begins with what is there. To be called once. */
  start(scans: ScanParts): AcceptingParts;
}

/** Contents of the largest size that are in memory at once, at most. */
const LARGEST_AT_ONCE = 2;

export async function openAccepted(
  config: Config,
  log: EventLog,
  { postgres, history, admission }: AcceptedScansParts,
  add: Add,
): Promise<OpenAccepted> {
  const onProblem = (problem: string): void => log.warn({ problem }, 'accepted scans');
  const table = createPendingScans(postgres.sql, postgres.requests);
  const waits = createScanWaits(table.left, (error) => onProblem(messageOfError(error)));
  add({ stop: async () => waits.stop() });
  history.onEnded((ids) => {
    for (const id of ids) waits.ended(id);
  });
  const store = await openContentStore({
    directory: join(config.dataDirectory, 'async'),
    key: await serviceKey(postgres.sql, 'contents', config.encryptionKey),
    limitBytes: config.asyncStoreBytes,
    answerMs: Math.min(DISK_ANSWER_MS, config.uploadTimeoutMs),
    placeWaitMs: config.uploadTimeoutMs,
  });
  // What is waited for with a request has its own.
  const uploadMemory = createUploadMemory({
    budgetBytes: LARGEST_AT_ONCE * config.asyncLimitBytes,
    largestBytes: config.asyncLimitBytes,
    reserveShare: MEMORY_RESERVE_SHARE,
    waitMs: config.scanTimeoutMs,
    ownWaitMs: config.scanTimeoutMs,
    use: 'uploads',
  });

  let state = (): AcceptedState => ({ waiting: 0, bytes: store.bytes, oldestAgeMs: 0 });
  return {
    nodeId: store.nodeId,
    table,
    waits,
    state: () => state(),
    start(scans) {
      const accepted = startAcceptedScans({
        scans: { ...scans, uploadMemory },
        table,
        store,
        history,
        giveBack: admission.giveBack,
        limitBytes: config.asyncLimitBytes,
        atOnce: config.scanThreads,
        onProblem,
        onRecorded: waits.ended,
      });
      add(accepted);
      state = accepted.state;
      return {
        accepted,
        nameOfKey: async (userId, keyId) =>
          (await namesOfKeys(postgres.requests(userId), userId, [{ key_id: keyId }])).get(keyId) ?? null,
      };
    },
  };
}
