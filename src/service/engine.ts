// The engine's side of the service: scan threads, what guards them, and the signatures, which load from here on.
import { join } from 'node:path';
import type { Config } from '../config/types.js';
import type { Engine } from '../engine/engine.js';
import type { SignatureEvent, SignatureState } from '../engine/signature-state.js';
import { loadSignatures, type Signatures } from '../engine/signatures.js';
import { openInFlight } from '../engine/threads/in-flight.js';
import { type ScanPool, startPool } from '../engine/threads/pool.js';
import { type FoundSandbox, findSandbox } from '../engine/threads/sandbox.js';
import type { Log } from '../log.js';
import { endsWithin } from '../waiting/within.js';
import { enoughBytes, startMemoryGuard } from './memory-guard.js';

export interface StartedEngine {
  readonly sandbox: FoundSandbox;
  readonly pool: ScanPool;
  readonly signatures: Signatures;
  /** Lets the scans that run end; the engine is gone afterwards. */
  stop(): Promise<void>;
}

/** What a process has from its supervisor for its engine. */
export interface EngineSurroundings {
  readonly inFlightPath: string | null;
  readonly onHung: (sha256: string | null) => void;
  /** `enoughBytes`: a bound that would not have been exceeded. */
  readonly onOutOfMemory: (residentBytes: number, enoughBytes: number) => void;
}

/** A load begins within this, unless it has something to prepare that takes longer. */
const BEGIN_MS = 100;

/**
 * The first thing of a start: reading signatures takes longer than all the rest, on a thread of its own. Scan threads, and what the
 * caller reads meanwhile, come when that has begun: they would want the cores, and this thread, before it.
 */
export async function startEngine(config: Config, log: Log, surroundings: EngineSurroundings): Promise<StartedEngine> {
  const { inFlightPath, onHung, onOutOfMemory } = surroundings;
  const signatures = startSignatures(config, log);
  const loaded = signatures.ready().catch(() => undefined);
  await endsWithin(loaded, BEGIN_MS);
  const sandbox = startSandbox(config, log);
  const inFlight = inFlightPath === null ? null : openInFlight(inFlightPath);
  const { memoryLimitBytes } = config;
  const memory =
    memoryLimitBytes === null
      ? null
      : startMemoryGuard({
          limitBytes: memoryLimitBytes,
          onExceeded: (bytes) => onOutOfMemory(bytes, enoughBytes(bytes, loadedShare(signatures.state()))),
        });
  const pool = startPool({
    threads: config.scanThreads,
    queueLimit: config.scanQueue,
    scanTimeoutMs: config.scanTimeoutMs,
    encryptedArchives: config.encryptedArchives,
    sandbox: sandbox.mode,
    onHung,
    ...(inFlight === null ? {} : { inFlight: inFlight.descriptor }),
    ...(memory === null ? {} : { refusal: memory.refusal }),
  });
  return {
    sandbox,
    pool,
    signatures,
    async stop() {
      await pool.stop();
      await signatures.stop();
      memory?.stop();
      inFlight?.close();
    },
  };
}

/** How much of the signatures that will be in memory is there: while others load beside them, half of it is what serves. */
function loadedShare(state: SignatureState): number {
  if (state.kind === 'loading') return state.progress;
  if (state.kind === 'failed' || state.reload.kind !== 'running') return 1;
  return (1 + state.reload.progress) / 2;
}

function startSandbox(config: Config, log: Log): FoundSandbox {
  const sandbox = findSandbox(config.sandbox);
  if (sandbox.warning !== null) log.warn({ warning: sandbox.warning }, 'sandbox');
  return sandbox;
}

function startSignatures(config: Config, log: Log): Signatures {
  return loadSignatures({
    ...config.signatureFolders,
    engine: config.engine,
    scanTimeoutMs: config.scanTimeoutMs,
    limits: config.scanLimits,
    gatesDirectory: config.hasGates ? join(config.dataDirectory, 'gates') : null,
    pollMs: config.signaturesPollMs,
    // An identity is needed only where verdicts are shared.
    wantsIdentity: config.redisUrl !== null && config.verdictCacheBytes > 0,
    onEvent: (event) => logSignatures(log, event),
  });
}

function logSignatures(log: Log, event: SignatureEvent): void {
  if (event.kind === 'warning') {
    log.warn({ warning: event.message }, 'signatures');
  } else if (event.kind === 'loaded') {
    log.info(loadFacts(event.engine), 'signatures loaded');
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
