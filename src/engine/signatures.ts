// What is loaded: the engine's way from folders of signatures to ready, and from there to newer ones without a pause.
import type { SignatureFolders } from '../config-types.js';
import { defaultEngineLimits, type EngineLimits, engineInfo } from './addon.js';
import { buildClamav, buildStandIn, type EngineChoice, type ServingEngine } from './build.js';
import { learnNoise } from './clamav/gates/noise.js';
import { dailyBuiltAt } from './databases.js';
import { presentFolders } from './folders.js';
import { createKeptCopy } from './kept-copy.js';
import { SIGN_OF_LIFE_MS } from './owned.js';
import type { Pause } from './pool.js';
import { problemsOf, warningsOf } from './rules.js';
import { makeScratch } from './scratch.js';
import { ENGINES_KEPT } from './serving.js';
import { fingerprintOrReason, watchDatabases } from './watch.js';

/** What became of the last wish for newer signatures, while others serve. */
export type ReloadState =
  | { readonly kind: 'none' }
  /** `scansWait`: the old engine is gone already (RELOAD=frugal). */
  | { readonly kind: 'running' /** 0 to 1 */; readonly progress: number; readonly scansWait: boolean }
  | { readonly kind: 'failed'; readonly message: string /** Epoch seconds. */; readonly failedAt: number };

export type SignatureState =
  | { readonly kind: 'loading' /** 0 to 1 */; readonly progress: number }
  | { readonly kind: 'ready'; readonly info: ServingEngine; readonly reload: ReloadState }
  | { readonly kind: 'failed'; readonly message: string };

export type SignatureEvent =
  | { readonly kind: 'loaded'; readonly info: ServingEngine }
  /** `serving`: the signatures from before go on. */
  | { readonly kind: 'failed'; readonly message: string; readonly serving: boolean }
  | { readonly kind: 'warning'; readonly message: string };

export type ReloadMode =
  /** The new engine is built beside the old one: twice the memory for as long as that takes, and no scan waits. */
  | { readonly kind: 'concurrent' }
  /** The old engine is freed first. `pause` holds scans back; the databases that serve are kept as a copy in a folder of this process below `copyDirectory`. */
  | { readonly kind: 'frugal'; readonly copyDirectory: string; readonly pause: () => Pause };

export interface SignatureOptions
  extends Pick<SignatureFolders, 'directories'>,
    Partial<Pick<SignatureFolders, 'optionalDirectories'>> {
  /** Default: auto. */
  readonly engine?: EngineChoice;
  /** The deadline of a scan: the engine's own limit is set below it, so that the engine gives up first. */
  readonly scanTimeoutMs: number;
  readonly limits?: Partial<Omit<EngineLimits, 'maxScanTimeMs'>>;
  readonly mode?: ReloadMode;
  /** Where the files of gates and what was learned of them are kept; default null: no gates, one engine looks at everything. */
  readonly gatesDirectory?: string | null;
  /** Every engine gets its identity, at the price of reading its databases once more; default: no. */
  readonly wantsIdentity?: boolean;
  /** How often to look for changed databases; default 0: never. */
  readonly pollMs?: number;
  readonly settleMs?: number;
  /** Between a load that failed and the next try, at first; default 10 s. */
  readonly retryMs?: number;
  readonly onProgress?: (fraction: number) => void;
  readonly onEvent?: (event: SignatureEvent) => void;
}

export interface Signatures {
  state(): SignatureState;
  /** Resolves when the engine can scan; rejects with the reason when the first load fails. */
  ready(): Promise<ServingEngine>;
  /** The engine of an epoch that some verdict came from, also after it was replaced; null if that is long ago. */
  engineOf(epoch: number): ServingEngine | null;
  /** Reads the folders again. Resolves when that has been done, well or not; wishes during a load are one more load. */
  reload(): Promise<void>;
  /** Removes the engine's temporary folder; nothing may be scanned any more. */
  stop(): Promise<void>;
}

/** Share of the deadline after which libclamav gives up by itself; content with encrypted members is scanned twice (native/). */
const ENGINE_SHARE = 0.45;
/** Reading the database takes about two thirds of a load, compiling it the rest. */
const LOAD_SHARE = 2 / 3;
/** Files that nobody has touched for two seconds are whole, or their copying has stalled; then the load says what is wrong. */
const SETTLE_MS = 2_000;
const STOP_WAIT_MS = 3_000;
/**
 * What failed may fail for a reason that isn't in the files: no memory for a second engine, no descriptor, a full disk. It is tried
 * again, at doubling distances: reading a large database that is damaged costs a minute each time.
 */
const RETRY_FIRST_MS = 10_000;
const RETRY_MAX_MS = 30 * 60_000;
const DAY_MS = 24 * 60 * 60 * 1000;
/** A gate that hit so often, and no signature behind it matched, is given up. */
const NOISE_TIMES = 3;
/** ClamAV publishes a daily database every day; a week without one is somebody's mistake. */
const OLD_DAYS = 7;

export function loadSignatures(options: SignatureOptions): Signatures {
  const {
    directories,
    optionalDirectories = [],
    engine = 'auto',
    mode = { kind: 'concurrent' },
    onEvent = () => undefined,
  } = options;
  const folders = (): string[] => presentFolders({ directories, optionalDirectories });
  const scratch = makeScratch();
  if (scratch.warning !== null) onEvent({ kind: 'warning', message: scratch.warning });
  const engines = new Map<number, ServingEngine>();
  const copy = mode.kind === 'frugal' ? createKeptCopy(folders, mode.copyDirectory) : null;
  let state: SignatureState = { kind: 'loading', progress: 0 };
  let begunWith = '';
  let stopped = false;
  let retryTimer: NodeJS.Timeout | null = null;
  let failures = 0;
  let lastFailure: string | null = null;

  /** The new engine is what `state` says in the same breath in which it begins to serve. */
  async function load(from: readonly string[], scansWait: boolean): Promise<ServingEngine> {
    const limits = {
      ...defaultEngineLimits,
      ...options.limits,
      maxScanTimeMs: Math.ceil(options.scanTimeoutMs * ENGINE_SHARE),
    };
    const freeFirstWaitMs = scansWait ? options.scanTimeoutMs : 0;
    await learn();
    const loaded = await buildClamav(
      {
        directories: from,
        temporaryDirectory: scratch.directory,
        limits,
        freeFirstWaitMs,
        wantsDigest: options.wantsIdentity ?? false,
        gatesDirectory: options.gatesDirectory ?? null,
      },
      ({ phase, done, total }) => {
        const share = total === 0 ? 1 : done / total;
        progressed(phase === 'load' ? share * LOAD_SHARE : LOAD_SHARE + share * (1 - LOAD_SHARE), scansWait);
      },
      (message) => onEvent({ kind: 'warning', message }),
    );
    const inFolder = <Described extends { readonly path: string }>(file: Described): Described => ({
      ...file,
      path: copy?.translate(file.path) ?? file.path,
    });
    const { files, rules } = loaded;
    const info = {
      ...loaded,
      files: files.map(inFolder),
      rules: rules === null ? null : { ...rules, files: rules.files.map(inFolder) },
    };
    serve(info);
    return info;
  }

  /** What the engine that serves has met, for the next one. */
  async function learn(): Promise<void> {
    const gates = state.kind === 'ready' ? state.info.gates : null;
    if (gates === null || options.gatesDirectory == null) return;
    await learnNoise(options.gatesDirectory, gates.keys, NOISE_TIMES).catch((error: unknown) => {
      onEvent({ kind: 'warning', message: `What was learned of gates can't be kept: ${messageOf(error)}` });
    });
  }

  /** `reason`: why ClamAV doesn't; null: it was not wanted. Rejects when rules can't serve either. */
  async function standIn(reason: string | null): Promise<ServingEngine> {
    try {
      const info = await buildStandIn(folders(), reason);
      serve(info);
      return info;
    } catch (error) {
      if (reason === null) throw error;
      throw new Error(`${reason}; YARA-X cannot stand in for ClamAV: ${messageOf(error)}`, { cause: error });
    }
  }

  /** ClamAV, and where that fails and has not served before, rules alone; those that serve already are left alone by a retry. */
  async function loadWanted(isRetry: boolean): Promise<ServingEngine> {
    if (engine === 'yara') return await standIn(null);
    try {
      const isFrugal = mode.kind === 'frugal' && copy !== null;
      return await (isFrugal ? loadFrugally(copy, mode.pause) : load(folders(), false));
    } catch (error) {
      const isServed = state.kind === 'ready' && (isRetry || state.info.name === 'clamav');
      if (engine === 'clamav' || isServed) throw error;
      return await standIn(copy?.translate(messageOf(error)) ?? messageOf(error));
    }
  }

  function serve(info: ServingEngine): void {
    engines.set(info.epoch, info);
    const [oldest] = engines.keys();
    if (engines.size > ENGINES_KEPT && oldest !== undefined) engines.delete(oldest);
    state = { kind: 'ready', info, reload: { kind: 'none' } };
  }

  function progressed(progress: number, scansWait: boolean): void {
    state =
      state.kind === 'ready'
        ? { ...state, reload: { kind: 'running', progress, scansWait } }
        : { kind: 'loading', progress };
    options.onProgress?.(progress);
  }

  /** Needs the memory of one engine, and for a fallback the disk for two copies of its databases. */
  async function loadFrugally(kept: NonNullable<typeof copy>, pause: () => Pause): Promise<ServingEngine> {
    const staged = await kept.stage();
    const { drained, resume } = pause();
    progressed(0, true);
    try {
      if (!(await endsWithin(drained, options.scanTimeoutMs)))
        throw new Error('The old signatures cannot be freed first: scans with them have not ended');
      const info = await load(staged, true);
      await kept.keepStaged().catch((error: unknown) => {
        onEvent({ kind: 'warning', message: `The databases could not be kept for a fallback: ${messageOf(error)}` });
      });
      return info;
    } catch (error) {
      await fallBack(kept);
      throw error;
    } finally {
      resume();
    }
  }

  /** After a failure the old engine may be gone: its databases are loaded again from the copy. */
  async function fallBack(kept: NonNullable<typeof copy>): Promise<void> {
    const copied = kept.kept();
    if (state.kind !== 'ready' || state.info.name !== 'clamav' || engineInfo() !== null) return;
    try {
      if (copied === null) throw new Error('No copy of the databases from before was kept');
      await load(copied, true);
    } catch (error) {
      state = { kind: 'failed', message: kept.translate(messageOf(error)) };
    }
  }

  async function loadOnce(isRetry: boolean): Promise<void> {
    if (retryTimer !== null) clearTimeout(retryTimer);
    begunWith = await fingerprintOrReason(folders());
    progressed(0, false);
    try {
      const info = await loadWanted(isRetry);
      for (const message of warningsAbout(info)) onEvent({ kind: 'warning', message });
      onEvent({ kind: 'loaded', info });
      warnOfAge();
    } catch (error) {
      const message = copy?.translate(messageOf(error)) ?? messageOf(error);
      const serving = state.kind === 'ready';
      if (state.kind === 'ready') {
        state = { ...state, reload: { kind: 'failed', message, failedAt: Math.floor(Date.now() / 1000) } };
      } else {
        state = { kind: 'failed', message };
      }
      // The same again is not told again.
      if (!isRetry || message !== lastFailure) onEvent({ kind: 'failed', message, serving });
      lastFailure = message;
    }
    retryLater();
  }

  /** While what is wanted doesn't serve; a frugal reload that fails keeps scans waiting, so it waits for newer files. */
  function retryLater(): void {
    const isWell = state.kind === 'ready' && state.reload.kind !== 'failed' && state.info.standsInFor === null;
    const isServing = state.kind === 'ready' && state.info.standsInFor === null;
    if (isWell) failures = 0;
    if (isWell || stopped || (isServing && mode.kind === 'frugal')) return;
    const delayMs = Math.min(RETRY_MAX_MS, (options.retryMs ?? RETRY_FIRST_MS) * 2 ** failures);
    failures += 1;
    retryTimer = setTimeout(() => {
      if (running === null && !stopped) void run(true);
    }, delayMs);
    retryTimer.unref();
  }

  function warnOfAge(): void {
    if (state.kind !== 'ready') return;
    const days = daysOld(state.info, Date.now());
    if (days === null || days <= OLD_DAYS) return;
    onEvent({ kind: 'warning', message: `The newest daily signatures are ${Math.floor(days)} days old` });
  }

  let running: Promise<void> | null = null;
  let following: Promise<void> | null = null;

  function run(isRetry = false): Promise<void> {
    const work = loadOnce(isRetry).finally(() => {
      if (running === work) running = null;
    });
    running = work;
    return work;
  }

  function reload(): Promise<void> {
    if (stopped) return Promise.resolve();
    if (running === null) return run();
    // The load that runs may have read the files before they changed.
    following ??= running.then(() => {
      following = null;
      return stopped ? undefined : run();
    });
    return following;
  }

  const first = run().then(() => {
    if (state.kind === 'ready') return state.info;
    throw new Error(state.kind === 'failed' ? state.message : 'The signatures are not loaded');
  });
  // Whoever doesn't wait reads the state; a failed load must not end the process.
  first.catch(() => undefined);
  const watch = watchDatabases({
    directories: folders,
    pollMs: options.pollMs ?? 0,
    settleMs: options.settleMs ?? SETTLE_MS,
    loaded: () => begunWith,
    onChange: reload,
  });
  const ageTimer = setInterval(warnOfAge, DAY_MS);
  ageTimer.unref();
  // A scan that is over its deadline may still be at it for as long again.
  const sweepTimer = setInterval(() => {
    copy?.tend();
    void scratch.sweep(options.scanTimeoutMs * 2 + SIGN_OF_LIFE_MS).then((message) => {
      if (message !== null && !stopped) onEvent({ kind: 'warning', message });
    });
  }, SIGN_OF_LIFE_MS);
  sweepTimer.unref();

  return {
    state: () => state,
    ready: () => first,
    engineOf: (epoch) => engines.get(epoch) ?? null,
    reload,
    async stop() {
      stopped = true;
      watch.stop();
      if (retryTimer !== null) clearTimeout(retryTimer);
      clearInterval(ageTimer);
      clearInterval(sweepTimer);
      // A load can't be broken off. What it still unpacks goes with the next start, or with the process.
      await endsWithin(running ?? Promise.resolve(), STOP_WAIT_MS);
      await learn();
      scratch.remove();
      await copy?.remove().catch(() => undefined);
    },
  };
}

function warningsAbout({ warnings, rules, standsInFor }: ServingEngine): string[] {
  const files = rules?.files ?? [];
  const told = [...warnings, ...problemsOf(files), ...warningsOf(files)];
  if (standsInFor === null) return told;
  return [`YARA-X stands in for ClamAV and looks at raw content only, because: ${standsInFor}`, ...told];
}

async function endsWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Of the newest official daily database; null without one. */
export function daysOld(info: ServingEngine, nowMs: number): number | null {
  const builtAt = dailyBuiltAt(info.files);
  return builtAt === null ? null : Math.max(0, nowMs - builtAt * 1000) / DAY_MS;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
