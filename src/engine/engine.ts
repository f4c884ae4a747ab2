// What an engine is, and what it is built from: one value, made when it is built. It travels with each verdict to the answer, the log, the metrics, the history and the remembered verdicts.
import { wireTime } from '../wire-text.js';
import type { EngineLimits, GateStatistics } from './clamav/addon.js';
import type { NoiseRule } from './clamav/gates/noise.js';
import type { EngineWork } from './threads/task.js';

export interface Engine extends EngineFacts {
  /** Its number in this process. Each engine has a higher one than all before it. */
  readonly epoch: number;
  /** Its name and version, and those of what looks beside it: `clamav/1.4.6+yara-x/1.7.1`. The history and the metrics have this. */
  readonly label: string;
  /** The label and the signatures, for X-Scan-Engine: `clamav/1.4.6; signatures=daily:27000; built=2026-11-20T08:00:00`, or `built=unknown`. */
  readonly description: string;
}

export interface EngineFacts {
  readonly name: string;
  readonly engineVersion: string;
  readonly signatureCount: number;
  /** `daily:27000`, or 8 hex digits over files that carry no version, or both joined by `+`. */
  readonly signatureVersion: string;
  /** Epoch seconds: of the newest official database, without one of the newest file that says it; null: none does. */
  readonly signaturesBuiltAt: number | null;
  /** Epoch seconds: the newest official daily database; null: there is none. */
  readonly dailyBuiltAt: number | null;
  /** What it was loaded from, in words: `12 signatures and 3 YARA rules beside them`. */
  readonly contents: string;
  readonly loadMillis: number;
  /** For the operator, oldest first. */
  readonly warnings: readonly string[];
  /** The rules that look at every content, beside it or alone; null: there are none. */
  readonly rules: RulesFacts | null;
  /** The engine that was wanted and can't be had; null: this is the one that was wanted. */
  readonly standsInFor: { readonly name: string; readonly reason: string } | null;
  /**
   * SHA-256 over all that its verdicts depend on: versions, every byte of the databases, limits. Two engines with the
   * same one say the same of a content, also on two machines. Null: it wasn't asked for, or it can't be said.
   */
  readonly identity: string | null;
  /** X-Scan-Notice of each of its answers; null: it looks into all that an engine can look into. */
  readonly notice: string | null;
  /** Its scans are confined by the sandbox of the scan threads. */
  readonly isConfined: boolean;
  /** Null: it has none. */
  readonly gates: Gates | null;
  /** What a scan thread does for it. */
  readonly work: EngineWork;
}

export interface RulesFacts {
  /** Name and version of what runs them. */
  readonly engine: string;
  readonly count: number;
  /** Files that were left out because something is wrong with them. */
  readonly refusedFiles: number;
}

/** Gates of signatures, see docs/signatures.md. */
export interface Gates {
  /** Signatures that are asked only when one of their gates hits. */
  readonly gated: number;
  /** Signatures of that kind which every content is asked about, by why. */
  readonly kept: Readonly<Partial<Record<string, number>>>;
  /** Gates that this engine does without, because they hit clean content. */
  readonly givenUp: number;
  /** Since this engine serves; null: it doesn't serve. */
  statistics(): GateStatistics | null;
  /** From then on it is counted which windows lie in contents that are looked at twice. It takes seconds, the first time. */
  countWindows(): Promise<void>;
  /** Keeps which gates have hit too often for nothing, and the windows beside them: the next load does without. Resolves with how much is new. */
  learn(rule: NoiseRule): Promise<number>;
  /** The share of the scans, from 0 to 1, that the next load would spare a second look. */
  wasted(rule: NoiseRule): number;
}

/** An engine that is ready and doesn't serve yet. */
export interface BuiltEngine {
  readonly engine: Engine;
  /** Puts it in the place of the one before it, wherever that isn't a matter of `Engine`: in the native layer. */
  takePlace(): void;
}

let lastEpoch = 0;

/** `beside`: name and version of what looks at every content beside it. */
export function defineEngine(facts: EngineFacts, beside: string | null): Engine {
  lastEpoch += 1;
  const { name, engineVersion, signatureVersion, signaturesBuiltAt } = facts;
  const label = `${name}/${engineVersion}${beside === null ? '' : `+${beside}`}`;
  const built = signaturesBuiltAt === null ? 'unknown' : wireTime(signaturesBuiltAt * 1000);
  const description = `${label}; signatures=${signatureVersion}; built=${built}`;
  return { ...facts, epoch: lastEpoch, label, description };
}

const current: { engine: Engine | null } = { engine: null };

/** From here on scans use this engine. Scans that are at a thread end with the one that they began with. */
export function serve({ engine, takePlace }: BuiltEngine): Engine {
  takePlace();
  current.engine = engine;
  return engine;
}

/** The one that serves now; null before the first. */
export const serving: { readonly engine: Engine | null } = current;

/** The outcome of the last request for newer signatures, while older ones serve. */
export type ReloadState =
  | { readonly kind: 'none' }
  | { readonly kind: 'running' /** 0 to 1 */; readonly progress: number }
  | { readonly kind: 'failed'; readonly message: string /** Epoch seconds. */; readonly failedAt: number };

export type SignatureState =
  | { readonly kind: 'loading' /** 0 to 1 */; readonly progress: number }
  | { readonly kind: 'ready'; readonly engine: Engine; readonly reload: ReloadState }
  | { readonly kind: 'failed'; readonly message: string };

export type SignatureEvent =
  | { readonly kind: 'loaded'; readonly engine: Engine }
  /** `serving`: the engine from before goes on. */
  | { readonly kind: 'failed'; readonly message: string; readonly serving: boolean }
  | { readonly kind: 'warning'; readonly message: string }
  /** Gates hit for nothing in this share of the scans, 0 to 1: the signatures are loaded again, without these gates. */
  | { readonly kind: 'noise'; readonly share: number }
  /** Somebody has removed the temporary folder. Threads are confined to it, so this process unpacks nothing any more. */
  | { readonly kind: 'folderGone' };

/** The wanted engine serves, and the last request for newer signatures did not fail. */
export function isWell(state: SignatureState): boolean {
  return state.kind === 'ready' && state.reload.kind !== 'failed' && state.engine.standsInFor === null;
}

/** What an engine is built from. Each kind of engine takes of it what it needs. */
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
