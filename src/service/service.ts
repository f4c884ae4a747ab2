// The service: its parts started in order, and stopped in the reverse order.
import { bootstrap } from '../account/users.js';
import type { Config } from '../config/config.js';
import { startHistory } from '../history/history.js';
import type { EventLog } from '../log.js';
import type { StartedEngine } from './engine.js';
import { createHttp } from './http.js';
import { createSupervisorsWord, type OperatorReport } from './operators.js';
import { starting } from './parts.js';
import type { Places } from './places.js';
import { startAdmission, startStore } from './stores.js';

export type Service = Awaited<ReturnType<typeof startService>>;

/** What a process has from its supervisor. */
export interface Surroundings {
  /** A listening socket to accept from, beside others; null: one of its own. */
  readonly listener: number | null;
  /** The listening sockets of the other protocols. */
  readonly places: Places;
  /** Of an embedded database that others use as well; null: its own. */
  readonly socketDirectory: string | null;
  /** Another process serves still. */
  readonly takesOver: boolean;
  readonly reportOfOperator: (report: OperatorReport) => void;
}

/** Starts everything around the engine but listening; rejects, with all of it and the engine stopped again, when a part can't start. */
export async function startService(config: Config, log: EventLog, engine: StartedEngine, surroundings: Surroundings) {
  const { pool, signatures, loads, sandbox } = engine;
  const { takesOver, socketDirectory } = surroundings;
  const sockets = { listener: surroundings.listener, places: surroundings.places };
  let isEngineAdded = false;
  try {
    return await starting(async (add) => {
      const { postgres } = add(await startStore(config, log, socketDirectory));
      const account = await bootstrap(postgres.sql, config.bootstrap, { isEmbedded: config.databaseUrl === null });
      const history = add(
        await startHistory({
          sql: postgres.sql,
          dataDirectory: config.dataDirectory,
          journalLimitBytes: config.historyJournalBytes,
          retentionDays: config.historyRetentionDays,
          log,
        }),
      );
      add(engine);
      isEngineAdded = true;
      const admission = add(await startAdmission(config, log, postgres, takesOver));
      const supervisor = createSupervisorsWord(surroundings.reportOfOperator, () => void signatures.reload());
      const { refused } = supervisor;
      const { store, findKey, redis } = admission;
      const stores = { postgres, admission: store, findKey, redis, history };
      const parts = { ...stores, signatures, loads, pool, refused, supervisor, ...sockets };
      const http = add(await createHttp(config, log, { ...parts, sandbox: sandbox.confinement }));
      return {
        /** What the first start on an empty store made: to be shown once, never logged. */
        account,
        /** Threads that are not back long after the deadline of their scans: nobody waits for them at a stop. */
        get lateThreads() {
          return pool.late;
        },
        get hungThreads() {
          return pool.hung;
        },
        ...http,
        /** The engine that is wanted serves, not one that stands in for it, and not none. */
        get isComplete() {
          return signatures.serving.engine?.standsInFor === null;
        },
        refuse: supervisor.refuse,
        noteUpdate: supervisor.noteUpdate,
        /** Takes no more connections and hands the counts over; resolves when another process may begin. */
        async handOver() {
          http.stopListening();
          await admission.handOver();
        },
        alone: admission.alone,
      };
    });
  } catch (error) {
    if (!isEngineAdded) await engine.stop();
    throw error;
  }
}
