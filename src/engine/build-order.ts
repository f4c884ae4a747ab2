// What an engine is built from. Each kind of engine takes of it what it needs.
import type { EngineLimits } from './clamav/addon.js';
import type { EngineFacts } from './engine.js';

export interface BuildOrder {
  /** Folders with signatures, loaded into one engine in this order. */
  readonly directories: readonly string[];
  /** Where content may be unpacked; must exist. */
  readonly temporaryDirectory: string;
  /** The deadline of a scan: an engine's own limit is below it, so that the engine gives up first. */
  readonly scanTimeoutMs: number;
  readonly limits?: ScanLimits;
  /** Where the files of gates are kept; default null: no gates, one engine looks at everything. */
  readonly gatesDirectory?: string | null;
  /** Whether the engine gets its identity, for which all databases are read once more; default: no. */
  readonly wantsIdentity?: boolean;
  /** Why another engine than the wanted one is built; default null: it is the wanted one. */
  readonly standsInFor?: EngineFacts['standsInFor'];
  /** From 0 to 1. */
  readonly onProgress?: (fraction: number) => void;
  readonly warn?: (message: string) => void;
}

/** The limits that are not set have defaults. */
export type ScanLimits = Partial<Omit<EngineLimits, 'maxScanTimeMs'>>;
