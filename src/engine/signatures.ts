// What is loaded: the engine's way from folders of signatures to ready, or to a message that says why not.
import { defaultEngineLimits, type EngineInfo, loadEngine } from './addon.js';
import { makeScratch } from './scratch.js';

export type SignatureState =
  | { readonly kind: 'loading' /** 0 to 1 */; readonly progress: number }
  | { readonly kind: 'ready'; readonly info: EngineInfo }
  | { readonly kind: 'failed'; readonly message: string };

export interface SignatureOptions {
  readonly directories: readonly string[];
  /** The deadline of a scan: the engine's own limit is set below it, so that the engine gives up first. */
  readonly scanTimeoutMs: number;
  readonly onProgress?: (fraction: number) => void;
  readonly onWarning?: (message: string) => void;
}

export interface Signatures {
  state(): SignatureState;
  /** Resolves when the engine can scan; rejects with the reason when it can't. */
  ready(): Promise<EngineInfo>;
  /** Removes the engine's temporary folder; nothing may be scanned any more. */
  stop(): Promise<void>;
}

/** Share of the deadline after which libclamav gives up by itself; content with encrypted members is scanned twice (native/). */
const ENGINE_SHARE = 0.45;
/** Reading the database takes about two thirds of a load, compiling it the rest. */
const LOAD_SHARE = 2 / 3;

export function loadSignatures(options: SignatureOptions): Signatures {
  const scratch = makeScratch();
  if (scratch.warning !== null) options.onWarning?.(scratch.warning);
  let state: SignatureState = { kind: 'loading', progress: 0 };

  const loaded = loadEngine(
    {
      directories: options.directories,
      temporaryDirectory: scratch.directory,
      limits: { ...defaultEngineLimits, maxScanTimeMs: Math.ceil(options.scanTimeoutMs * ENGINE_SHARE) },
    },
    ({ phase, done, total }) => {
      const share = total === 0 ? 1 : done / total;
      const progress = phase === 'load' ? share * LOAD_SHARE : LOAD_SHARE + share * (1 - LOAD_SHARE);
      if (state.kind === 'loading') state = { kind: 'loading', progress };
      options.onProgress?.(progress);
    },
  ).then(
    (info) => {
      state = { kind: 'ready', info };
      for (const warning of info.warnings) options.onWarning?.(warning);
      return info;
    },
    (error: unknown) => {
      state = { kind: 'failed', message: error instanceof Error ? error.message : String(error) };
      throw error;
    },
  );
  // Whoever doesn't wait reads the state; a failed load must not end the process.
  loaded.catch(() => undefined);

  return {
    state: () => state,
    ready: () => loaded,
    async stop() {
      await loaded.catch(() => undefined);
      scratch.remove();
    },
  };
}
