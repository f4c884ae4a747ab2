// The engine's side of the service: scan threads, what guards them, and the signatures, which load from here on.
import { join } from 'node:path';
import type { Config } from './config-types.js';
import { openInFlight } from './engine/in-flight.js';
import { enoughBytes, startMemoryGuard } from './engine/memory-guard.js';
import { type ScanPool, startPool } from './engine/pool.js';
import { type FoundSandbox, findSandbox } from './engine/sandbox.js';
import { loadSignatures, type SignatureEvent, type SignatureState, type Signatures } from './engine/signatures.js';
import type { Log } from './log.js';

export interface Engine {
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

/** The first thing of a start: reading signatures takes longer than all the rest, and most of it runs on another thread. */
export function startEngine(config: Config, log: Log, surroundings: EngineSurroundings): Engine {
  const { inFlightPath, onHung, onOutOfMemory } = surroundings;
  const sandbox = startSandbox(config, log);
  const inFlight = inFlightPath === null ? null : openInFlight(inFlightPath);
  let share = (): number => 0;
  const { memoryLimitBytes } = config;
  const memory =
    memoryLimitBytes === null
      ? null
      : startMemoryGuard({
          limitBytes: memoryLimitBytes,
          onExceeded: (bytes) => onOutOfMemory(bytes, enoughBytes(bytes, share())),
        });
  const pool = startPool({
    threads: config.scanThreads,
    queueLimit: config.scanQueue,
    scanTimeoutMs: config.scanTimeoutMs,
    encryptedArchives: config.encryptedArchives,
    sandbox: sandbox.mode,
    onHung,
    ...(inFlight === null ? {} : { onBegin: inFlight.enter }),
    ...(memory === null ? {} : { refusal: memory.refusal }),
  });
  const signatures = startSignatures(config, log, pool);
  share = () => loadedShare(signatures.state());
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
  if (state.kind === 'failed' || state.reload.kind !== 'running' || state.reload.scansWait) return 1;
  return (1 + state.reload.progress) / 2;
}

function startSandbox(config: Config, log: Log): FoundSandbox {
  const sandbox = findSandbox(config.sandbox);
  if (sandbox.warning !== null) log.warn({ warning: sandbox.warning }, 'sandbox');
  return sandbox;
}

function startSignatures(config: Config, log: Log, pool: ScanPool): Signatures {
  const copyDirectory = join(config.dataDirectory, 'serving-signatures');
  return loadSignatures({
    ...config.signatureFolders,
    engine: config.engine,
    scanTimeoutMs: config.scanTimeoutMs,
    limits: config.scanLimits,
    mode: config.reload === 'frugal' ? { kind: 'frugal', copyDirectory, pause: pool.pause } : { kind: 'concurrent' },
    gatesDirectory: config.hasGates ? join(config.dataDirectory, 'gates') : null,
    pollMs: config.signaturesPollMs,
    // Whose verdicts may be shared is asked only where they are.
    wantsIdentity: config.redisUrl !== null && config.verdictCacheBytes > 0,
    onEvent: (event) => logSignatures(log, event),
  });
}

function logSignatures(log: Log, event: SignatureEvent): void {
  if (event.kind === 'warning') {
    log.warn({ warning: event.message }, 'signatures');
  } else if (event.kind === 'loaded') {
    const { files: _files, warnings: _warnings, digest: _digest, rules, gates, ...facts } = event.info;
    log.info({ ...facts, ruleCount: rules?.ruleCount ?? 0, gated: gates?.gated ?? 0 }, 'signatures loaded');
  } else {
    const after = event.serving ? 'those from before go on' : 'scans are refused';
    log.error({ reason: event.message }, `the signatures could not be loaded: ${after}`);
  }
}
