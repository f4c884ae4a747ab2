// What parts of the service have of each other; and how they are started one after the other, and stop in the reverse order: each says how where it starts.
import type { AdmissionStore } from '../admission/admissions.js';
import type { FindKey } from '../admission/key-owners.js';
import type { Engine } from '../engine/engine.js';
import type { Standing } from '../engine/folders.js';
import type { Signatures } from '../engine/signatures.js';
import type { ScanPool } from '../engine/threads/pool.js';
import type { Confinement } from '../engine/threads/sandbox.js';
import type { History } from '../history/history.js';
import type { DescriptorPlan } from '../http/connections.js';
import type { HttpLibrary } from '../http/wire.js';
import type { UploadMemory } from '../scan/memory/memory.js';
import type { VerdictCache } from '../scan/verdicts/known.js';
import type { Postgres } from '../store/postgres.js';
import type { RedisCommands } from '../store/redis/redis.js';
import type { LoadCounts } from './engine.js';
import type { Places } from './places.js';

export interface Parts {
  readonly postgres: Postgres;
  readonly admission: AdmissionStore;
  /** The live key of that hash, as Postgres says now, or null. */
  readonly findKey: FindKey;
  /** For what processes share; null: they share nothing. */
  readonly redis: RedisCommands | null;
  readonly history: History;
  readonly signatures: Signatures;
  readonly standing: (engine: Engine) => Standing;
  readonly pool: ScanPool;
  readonly loads: LoadCounts;
  /** Contents that are not scanned, as SHA-256. */
  readonly refused: ReadonlySet<string>;
  /** A listening socket to accept from; null: one of its own. */
  readonly listener: number | null;
  /** The listening sockets of the other protocols. */
  readonly places: Places;
  /** What confines the scan threads; null: nothing does. */
  readonly sandbox: Confinement | null;
  readonly library: HttpLibrary;
  readonly descriptors: DescriptorPlan;
  /** Null: no verdict is remembered. */
  readonly cache: VerdictCache | null;
  readonly memories: Readonly<Record<'uploads' | 'downloads', UploadMemory>>;
  readonly version: string;
}

export interface Stopping {
  /** Stops what has started, the last one first. Once. */
  stop(): Promise<void>;
}

/** Names a part that has started. */
export type Add = <Part extends Stopping>(part: Part) => Part;

/** `start` names each part that it has started by `add`. When it fails, these are stopped before its error goes on. */
export async function starting<Whole extends object>(start: (add: Add) => Promise<Whole>): Promise<Whole & Stopping> {
  const started: Stopping[] = [];
  const stop = async (): Promise<void> => {
    for (let last = started.pop(); last !== undefined; last = started.pop()) await last.stop();
  };
  try {
    const whole = await start((part) => {
      started.push(part);
      return part;
    });
    return Object.assign(whole, { stop });
  } catch (error) {
    await stop();
    throw error;
  }
}
