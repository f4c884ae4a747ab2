// The engine's side of the service: scan threads, what guards them, and the signatures, which load from here on.
import { join } from 'node:path';
import { memoryUsage } from 'node:process';
import type { Config } from '../config/config.js';
import type { Engine, SignatureEvent, SignatureState } from '../engine/engine.js';
import { loadSignatures, type Signatures } from '../engine/signatures.js';
import { ScanPool } from '../engine/threads/pool.js';
import { findSandbox } from '../engine/threads/sandbox.js';
import { type Log, seldom } from '../log.js';
import { endsWithin } from '../waiting/within.js';

export type StartedEngine = Awaited<ReturnType<typeof startEngine>>;

/** Loads of signatures since the start, by what came of them. A retry that fails for the same reason as before is not counted. */
export interface LoadCounts {
  loaded: number;
  failed: number;
}

/** What a process has from its supervisor for its engine. */
interface EngineSurroundings {
  readonly inFlight: number | null;
  readonly onHung: (sha256: string | null) => void;
  /** `enoughBytes`: a bound that would not have been exceeded. */
  readonly onOutOfMemory: (residentBytes: number, enoughBytes: number) => void;
  /** Another process is needed to unpack anything; called again and again. */
  readonly onFolderGone: () => void;
}

/** A load begins within this, unless it has something to prepare that takes longer. */
const BEGIN_MS = 100;

/**
 * The first thing of a start: reading signatures takes longer than all the rest, on a thread of its own. Scan threads, and what the
 * caller reads meanwhile, come when that has begun: they would want the cores, and this thread, before it.
 */
export async function startEngine(config: Config, log: Log, surroundings: EngineSurroundings) {
  const { inFlight, onHung, onOutOfMemory, onFolderGone } = surroundings;
  const loads: LoadCounts = { loaded: 0, failed: 0 };
  const signatures = startSignatures(config, loads, (event) => {
    logSignatures(log, event);
    if (event.kind === 'folderGone') onFolderGone();
  });
  const loaded = signatures.ready().catch(() => undefined);
  await endsWithin(loaded, BEGIN_MS);
  const sandbox = findSandbox(config.sandbox);
  if (sandbox.warning !== null) log.warn({ warning: sandbox.warning }, 'sandbox');
  const { memoryLimitBytes } = config;
  const memory =
    memoryLimitBytes === null
      ? null
      : startMemoryGuard({
          limitBytes: memoryLimitBytes,
          onExceeded: (bytes) => onOutOfMemory(bytes, enoughBytes(bytes, loadedShare(signatures.state()))),
        });
  const pool = new ScanPool({
    threads: config.scanThreads,
    processes: config.processes,
    ...(config.scanThreadsMost === null ? {} : { threadsMost: config.scanThreadsMost }),
    queueLimit: config.scanQueue,
    scanTimeoutMs: config.scanTimeoutMs,
    encryptedArchives: config.encryptedArchives,
    sandbox: sandbox.mode,
    onHung,
    onLack: seldom((reason) => log.warn({ reason }, 'a scan thread could not be started: scans wait longer')),
    inFlight,
    ...(memory === null ? {} : { memory }),
  });
  return {
    sandbox,
    pool,
    signatures,
    loads,
    /** Lets the scans that run end; the engine is gone afterwards. */
    async stop(): Promise<void> {
      await pool.stop();
      await signatures.stop();
      memory?.stop();
    },
  };
}

/** How much of the signatures that will be in memory is there: while others load beside them, half of it is what serves. */
function loadedShare(state: SignatureState): number {
  if (state.kind === 'loading') return state.progress;
  if (state.kind === 'failed' || state.reload.kind !== 'running') return 1;
  return (1 + state.reload.progress) / 2;
}

function startSignatures(config: Config, loads: LoadCounts, onEvent: (event: SignatureEvent) => void): Signatures {
  return loadSignatures({
    ...config.signatureFolders,
    engine: config.engine,
    scanTimeoutMs: config.scanTimeoutMs,
    limits: config.scanLimits,
    gatesDirectory: config.hasGates ? join(config.dataDirectory, 'gates') : null,
    pollMs: config.signaturesPollMs,
    // An identity is needed only where verdicts are shared.
    wantsIdentity: config.redisUrl !== null && config.verdictCacheBytes > 0,
    onEvent(event) {
      if (event.kind === 'loaded' || event.kind === 'failed') loads[event.kind] += 1;
      onEvent(event);
    },
  });
}

function logSignatures(log: Log, event: SignatureEvent): void {
  if (event.kind === 'warning') {
    log.warn({ warning: event.message }, 'signatures');
  } else if (event.kind === 'loaded') {
    log.info(loadFacts(event.engine), 'signatures loaded');
  } else if (event.kind === 'folderGone') {
    log.error(
      'the temporary folder of the engine was removed: what must be unpacked is refused until another process serves',
    );
  } else if (event.kind === 'noise') {
    log.info({ share: event.share }, 'gates hit for nothing: the signatures are loaded again without them');
  } else {
    const after = event.serving ? 'those from before go on' : 'scans are refused';
    log.error({ reason: event.message }, `the signatures could not be loaded: ${after}`);
  }
}

function loadFacts(engine: Engine): Record<string, unknown> {
  const { epoch, name, engineVersion, signatureCount, signatureVersion, signaturesBuiltAt, loadMillis } = engine;
  return {
    epoch,
    name,
    engineVersion,
    signatureCount,
    signatureVersion,
    signaturesBuiltAt,
    loadMillis,
    ruleCount: engine.rules?.count ?? 0,
    gated: engine.gates?.gated ?? 0,
    standsInFor: engine.standsInFor?.reason ?? null,
    identity: engine.identity,
  };
}

interface MemoryGuardOptions {
  readonly limitBytes: number;
  /** Called at each look that finds too much. */
  readonly onExceeded: (residentBytes: number) => void;
  readonly intervalMs?: number;
  readonly residentBytes?: () => number;
}

/** A look costs some 20 us. In half a second a thread can fill a few hundred MB: the bound must leave room for that. */
const INTERVAL_MS = 500;

interface WatchedMemory {
  /** Why nothing may be scanned now; null: there is room. */
  refusal: string | null;
  stop(): void;
}

export function startMemoryGuard(options: MemoryGuardOptions): WatchedMemory {
  const { limitBytes, onExceeded, intervalMs = INTERVAL_MS } = options;
  const residentBytes = lookAtMemory(options.residentBytes);
  const guard: WatchedMemory = { refusal: null, stop: () => clearInterval(timer) };
  const timer = setInterval(() => {
    const resident = residentBytes();
    guard.refusal = resident > limitBytes ? 'The scan engine is out of memory' : null;
    if (guard.refusal !== null) onExceeded(resident);
  }, intervalMs);
  timer.unref();
  return guard;
}

/** What is resident, in bytes; where no descriptor is left to ask with, what was found last. */
export function lookAtMemory(ask = (): number => memoryUsage.rss()): () => number {
  let found = 0;
  const look = (): number => {
    try {
      found = ask();
    } catch {
      // It is asked again.
    }
    return found;
  };
  look();
  return look;
}

/** What a bound must be above what was found: scans take some, and another load of signatures. */
const MARGIN = 1.25;
const STEP_BYTES = 64 * 1024 * 1024;

/**
 * A bound that would be enough; `share`: how much of what the process will hold is there already, from 0 to 1. The first
 * tenth of a load says nothing about the rest.
 */
export function enoughBytes(residentBytes: number, share: number): number {
  return Math.ceil(((residentBytes / Math.max(0.1, share)) * MARGIN) / STEP_BYTES) * STEP_BYTES;
}
