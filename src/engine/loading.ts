// One load of the signatures after another: which engine is built, which one serves afterwards, what is said of it; and who notices that databases have changed.
import type { EngineChoice } from '../config/config.js';
import { messageOfError } from '../error-text.js';
import { buildClamav } from './clamav/engine.js';
import type { NoiseRule } from './clamav/gates/noise.js';
import { fingerprint } from './databases.js';
import { type BuildOrder, type BuiltEngine, type SignatureEvent, type SignatureState, serve } from './engine.js';
import { buildYara } from './yara/engine.js';

export interface LoadingOptions extends Omit<BuildOrder, 'directories' | 'standsInFor' | 'warn'> {
  readonly folders: () => readonly string[];
  readonly choice: EngineChoice;
  readonly mayStandIn: boolean;
  readonly onEvent: (event: SignatureEvent) => void;
}

export type Loading = ReturnType<typeof createLoading>;

/**
 * Of gates that hit while no signature behind them matched. Somebody who sends contents full of gates can make few of them be given up
 * at a load.
 */
export const TRAFFIC_NOISE: NoiseRule = { leastTimes: 3, most: 200 };

export function createLoading(options: LoadingOptions) {
  const { folders, choice, mayStandIn, onEvent } = options;
  let state: SignatureState = { kind: 'loading', progress: 0 };
  let begunWith = '';
  let lastFailure: string | null = null;

  const warn = (message: string): void => onEvent({ kind: 'warning', message });

  async function build(isRetry: boolean): Promise<BuiltEngine> {
    const order = { ...options, directories: folders(), onProgress: progressed, warn };
    await learn();
    try {
      return await choices[choice].wanted.build(order);
    } catch (error) {
      const staysAsItIs = state.kind === 'ready' && (isRetry || state.engine.standsInFor === null);
      if (staysAsItIs || !mayStandIn) throw error;
      return await buildStandIn(choice, order, error);
    }
  }

  async function learn(): Promise<void> {
    const gates = state.kind === 'ready' ? state.engine.gates : null;
    await gates?.learn(TRAFFIC_NOISE).catch((error: unknown) => {
      warn(`What was learned of gates can't be kept: ${messageOfError(error)}`);
    });
  }

  function progressed(progress: number): void {
    state =
      state.kind === 'ready' ? { ...state, reload: { kind: 'running', progress } } : { kind: 'loading', progress };
    options.onProgress?.(progress);
  }

  function failed(message: string, isRetry: boolean): void {
    const serving = state.kind === 'ready';
    state =
      state.kind === 'ready'
        ? { ...state, reload: { kind: 'failed', message, failedAt: Math.floor(Date.now() / 1000) } }
        : { kind: 'failed', message };
    // A retry that fails for the same reason is not news.
    if (!isRetry || message !== lastFailure) onEvent({ kind: 'failed', message, serving });
    lastFailure = message;
  }

  return {
    state: () => state,
    /** The fingerprint of the folders when the last load began. */
    begunWith: () => begunWith,
    /** Keeps what the engine that serves has learned, for the next one. */
    learn,
    /** Resolves when it has ended, well or not. A retry leaves a stand-in that serves already as it is. */
    async load(isRetry: boolean): Promise<void> {
      begunWith = await fingerprintOrReason(folders());
      progressed(0);
      let built: BuiltEngine;
      try {
        built = await build(isRetry);
      } catch (error) {
        failed(messageOfError(error), isRetry);
        return;
      }
      const engine = serve(built);
      state = { kind: 'ready', engine, reload: { kind: 'none' } };
      for (const message of engine.warnings) warn(message);
      onEvent({ kind: 'loaded', engine });
    },
  };
}

interface EngineKind {
  /** As operators read it. */
  readonly title: string;
  readonly build: (order: BuildOrder) => Promise<BuiltEngine>;
}

const clamav: EngineKind = { title: 'ClamAV', build: buildClamav };
const yara: EngineKind = { title: 'YARA-X', build: buildYara };

/** The wanted engine, and the one that stands in for it. */
const choices: Readonly<Record<EngineChoice, { readonly wanted: EngineKind; readonly standIn: EngineKind | null }>> = {
  auto: { wanted: clamav, standIn: yara },
  clamav: { wanted: clamav, standIn: null },
  yara: { wanted: yara, standIn: null },
};

/** Rejects with both reasons when the stand-in can't be built either; with `failure` when there is no stand-in. */
async function buildStandIn(choice: EngineChoice, order: BuildOrder, failure: unknown): Promise<BuiltEngine> {
  const { wanted, standIn } = choices[choice];
  if (standIn === null) throw failure;
  const reason = messageOfError(failure);
  try {
    return await standIn.build({ ...order, standsInFor: { name: wanted.title, reason } });
  } catch (error) {
    const message = `${reason}; ${standIn.title} cannot stand in for ${wanted.title}: ${messageOfError(error)}`;
    throw new Error(message, { cause: error });
  }
}

interface FolderWatchOptions {
  readonly directories: () => readonly string[];
  /** Between two looks; 0: it never looks. */
  readonly pollMs: number;
  /** Files that differ must stay the same for so long before they are read: they may still be copied. */
  readonly settleMs: number;
  /** The fingerprint with which the last load began, good or bad. */
  readonly loaded: () => string;
  readonly onChange: () => Promise<unknown>;
}

/** By looking at names, sizes and times, since notifications don't cross every mount. */
export function watchDatabases({ directories, pollMs, settleMs, loaded, onChange }: FolderWatchOptions) {
  let timer: NodeJS.Timeout | null = null;
  let stopped = pollMs === 0;
  /** The fingerprint at the last look, if it differed from what is loaded. */
  let differing: string | null = null;

  async function look(): Promise<void> {
    const seen = await fingerprintOrReason(directories());
    if (stopped) return;
    if (seen === loaded()) {
      differing = null;
    } else if (seen === differing) {
      differing = null;
      await onChange();
    } else {
      differing = seen;
    }
    next();
  }

  function next(): void {
    if (stopped) return;
    timer = setTimeout(() => void look(), differing === null ? pollMs : settleMs);
    // The watch must not keep the process alive.
    timer.unref();
  }

  next();
  return {
    stop(): void {
      stopped = true;
      if (timer !== null) clearTimeout(timer);
    },
  };
}

/** That a folder can't be read is a state as well: it is reported once, and the watch notices when it ends. */
async function fingerprintOrReason(directories: readonly string[]): Promise<string> {
  try {
    return await fingerprint(directories);
  } catch (error) {
    return `unreadable: ${messageOfError(error)}`;
  }
}
