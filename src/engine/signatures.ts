// What is loaded: the engine's way from folders of signatures to ready, and from there to newer ones without a pause.
import type { EngineChoice, SignatureFolders } from '../config/config.js';
import { messageOfError } from '../error-text.js';
import { endsWithin } from '../waiting/within.js';
import { DAY_MS } from '../wire-text.js';
import {
  type BuildOrder,
  type Engine,
  type Gates,
  isWell,
  type SignatureEvent,
  type SignatureState,
  serving,
} from './engine.js';
import { presentFolders, unreadableFolders } from './folders.js';
import { createLoading, type Loading, TRAFFIC_NOISE, watchDatabases } from './loading.js';
import { makeScratch, type Scratch, SIGN_OF_LIFE_MS } from './scratch.js';

export interface SignatureOptions
  extends Pick<SignatureFolders, 'directories'>,
    Partial<Pick<SignatureFolders, 'optionalDirectories'>>,
    Pick<BuildOrder, 'scanTimeoutMs' | 'limits' | 'gatesDirectory' | 'wantsIdentity' | 'onProgress'> {
  /** Default: auto. */
  readonly engine?: EngineChoice;
  /** Default: yes, if the choice has a stand-in. */
  readonly mayStandIn?: boolean;
  /** How often to look for changed databases; default 0: never. */
  readonly pollMs?: number;
  readonly settleMs?: number;
  /** Between a load that failed and the next try, at first; default 10 s. */
  readonly retryMs?: number;
  /** After it a load that has not ended is worth a warning; default 2 min. */
  readonly slowMs?: number;
  /** Default: as below. */
  readonly relearning?: RelearningTimes;
  readonly onEvent?: OnEvent;
}

export type Signatures = ReturnType<typeof loadSignatures>;

/** Files that stayed the same for two seconds are whole, or their copying has stalled. In that case the load says what is wrong. */
const SETTLE_MS = 2_000;
const STOP_WAIT_MS = 3_000;
const RETRY_FIRST_MS = 10_000;
/** Millions of signatures take seconds. */
const SLOW_MS = 2 * 60_000;
/** ClamAV publishes a daily database every day; a week without one is a mistake. */
const OLD_DAYS = 7;

export function loadSignatures(options: SignatureOptions) {
  const { directories, optionalDirectories = [], onEvent = () => undefined } = options;
  const folders = (): string[] => presentFolders({ directories, optionalDirectories });
  const scratch = makeScratch();
  if (scratch.warning !== null) onEvent({ kind: 'warning', message: scratch.warning });
  const loading = createLoading({
    ...options,
    folders,
    temporaryDirectory: scratch.directory,
    choice: options.engine ?? 'auto',
    mayStandIn: options.mayStandIn ?? true,
    onEvent,
  });
  const leftOut = (): string[] => unreadableFolders({ optionalDirectories });
  const { retryMs = RETRY_FIRST_MS, slowMs = SLOW_MS } = options;
  const loads = startLoads(loading, { retryMs, slowMs, leftOut, onEvent });
  const watch = watchDatabases({
    directories: folders,
    pollMs: options.pollMs ?? 0,
    settleMs: options.settleMs ?? SETTLE_MS,
    loaded: loading.begunWith,
    onChange: loads.reload,
  });
  // A machine that takes newer signatures by a restart only may not have the memory for two engines.
  const relearning =
    (options.pollMs ?? 0) === 0 ? null : startRelearning(loading.state, loads.reload, onEvent, options.relearning);
  const upkeep = startUpkeep(loading, scratch, options.scanTimeoutMs, onEvent);
  return {
    state: loading.state,
    serving,
    /** Resolves when the engine can scan; rejects with the reason when the first load fails. */
    ready: () => loads.first,
    reload: loads.reload,
    /** Removes the engine's temporary folder; nothing may be scanned any more. */
    async stop(): Promise<void> {
      watch.stop();
      upkeep.stop();
      relearning?.stop();
      await loads.stop();
      await loading.learn();
      scratch.remove();
    },
  };
}

type OnEvent = (event: SignatureEvent) => void;

interface LoadsOptions {
  readonly retryMs: number;
  readonly slowMs: number;
  /** Why folders are not among what was loaded. */
  readonly leftOut: () => readonly string[];
  readonly onEvent: OnEvent;
}

/** One load at a time, the first one at once. */
function startLoads(loading: Loading, { retryMs, slowMs, leftOut, onEvent }: LoadsOptions) {
  let running: Promise<void> | null = null;
  let following: Promise<void> | null = null;
  let isStopped = false;
  const retries = createRetries(retryMs, () => {
    if (running === null) void run(true);
  });

  async function load(isRetry: boolean): Promise<void> {
    retries.begin();
    const slow = setTimeout(() => onEvent({ kind: 'warning', message: slowLoad(slowMs) }), slowMs).unref();
    await loading.load(isRetry).finally(() => clearTimeout(slow));
    for (const message of leftOut()) onEvent({ kind: 'warning', message });
    const state = loading.state();
    if (state.kind === 'ready' && state.reload.kind === 'none') warnOfAge(state, onEvent);
    retries.end(isWell(state));
  }

  function run(isRetry = false): Promise<void> {
    const work = load(isRetry).finally(() => {
      if (running === work) running = null;
    });
    running = work;
    return work;
  }

  const first = run().then(() => {
    const state = loading.state();
    if (state.kind === 'ready') return state.engine;
    throw new Error(state.kind === 'failed' ? state.message : 'The signatures are not loaded');
  });
  // A service that doesn't wait for it reads the state: a failed load must not end the process.
  first.catch(() => undefined);
  return {
    first,
    /** Reads the folders again. Resolves when that has been done, well or not; all requests during a load are one more load. */
    reload(): Promise<void> {
      if (isStopped) return Promise.resolve();
      if (running === null) return run();
      // The load that runs may have read the files before they changed.
      following ??= running.then(() => {
        following = null;
        return isStopped ? undefined : run();
      });
      return following;
    },
    async stop(): Promise<void> {
      isStopped = true;
      retries.stop();
      // A load can't be broken off. What it still unpacks is removed by the next start, or by the end of the process.
      await endsWithin(running ?? Promise.resolve(), STOP_WAIT_MS);
    },
  };
}

/** Nothing can break it off, nor tell what it is at. */
function slowLoad(afterMs: number): string {
  const seconds = Math.round(afterMs / 1000);
  return `The signatures are still being loaded after ${seconds} s. Where this does not end: a YARA rule with a loop over very many numbers keeps libclamav at it; take its file away and restart the service, or replace its process (SIGUSR2)`;
}

/** What is due every minute and every day, as long as something is loaded. */
function startUpkeep(loading: Loading, scratch: Scratch, scanTimeoutMs: number, onEvent: OnEvent): { stop(): void } {
  let isStopped = false;
  const ageTimer = setInterval(() => warnOfAge(loading.state(), onEvent), DAY_MS).unref();
  // A scan that is over its deadline may go on for as long again.
  const sweepTimer = setInterval(() => {
    if (scratch.isGone()) {
      onEvent({ kind: 'folderGone' });
      return;
    }
    void scratch.sweep(scanTimeoutMs * 2 + SIGN_OF_LIFE_MS).then((message) => {
      if (message !== null && !isStopped) onEvent({ kind: 'warning', message });
    });
  }, SIGN_OF_LIFE_MS).unref();
  return {
    stop() {
      isStopped = true;
      clearInterval(ageTimer);
      clearInterval(sweepTimer);
    },
  };
}

function warnOfAge(state: SignatureState, onEvent: OnEvent): void {
  const days = state.kind === 'ready' ? daysOld(state.engine, Date.now()) : null;
  if (days === null || days <= OLD_DAYS) return;
  onEvent({ kind: 'warning', message: `The newest daily signatures are ${Math.floor(days)} days old` });
}

/** Of the newest official daily database; null without one. */
export function daysOld({ dailyBuiltAt }: Pick<Engine, 'dailyBuiltAt'>, nowMs: number): number | null {
  return dailyBuiltAt === null ? null : Math.max(0, nowMs - dailyBuiltAt * 1000) / DAY_MS;
}

const LONGEST_MS = 30 * 60_000;

/** What failed may have failed for a reason that isn't in the files: no memory for a second engine, no descriptor, a full disk. */
function createRetries(firstMs: number, retry: () => void) {
  let timer: NodeJS.Timeout | null = null;
  let failures = 0;
  let isStopped = false;

  function clear(): void {
    if (timer !== null) clearTimeout(timer);
  }

  return {
    /** To be called when a load begins. */
    begin: clear,
    /** To be called when a load has ended. `isWell`: there is nothing to try again. */
    end(isWell: boolean): void {
      if (isWell) failures = 0;
      if (isWell || isStopped) return;
      timer = setTimeout(retry, Math.min(LONGEST_MS, firstMs * 2 ** failures)).unref();
      failures += 1;
    },
    stop(): void {
      isStopped = true;
      clear();
    },
  };
}

export interface RelearningTimes {
  /** Between two looks at what was learned. */
  readonly lookMs?: number;
  /** Between such a load and the next one, at least. */
  readonly apartMs?: number;
  /** Such loads in 24 hours. */
  readonly loadsADay?: number;
  /** Before so many scans nothing is known. */
  readonly scansMin?: number;
}

const LOOK_MS = 10_000;
const APART_MS = 60_000;
/** Newer databases bring new gates, and a gate that takes the place of another one may hit as often: some four loads each time. */
const LOADS_A_DAY = 12;
const SCANS_MIN = 500;
/** A load takes as long as some thousand second looks. */
const SHARE_MIN = 0.01;

function startRelearning(
  state: () => SignatureState,
  reload: () => Promise<void>,
  onEvent: OnEvent,
  { lookMs = LOOK_MS, apartMs = APART_MS, loadsADay = LOADS_A_DAY, scansMin = SCANS_MIN }: RelearningTimes = {},
): { stop(): void } {
  /** The engine whose windows are counted, and after how many of its scans that began; null: not yet. */
  let counted: { readonly engine: Engine; readonly afterScans: number | null } | null = null;
  /** When the loads of the last day began, in `performance.now()`; the latest last. */
  let begun: number[] = [];
  /** Such a load was asked for, and may not have begun. */
  let isLoading = false;

  function mayLoad(): boolean {
    const nowMs = performance.now();
    begun = begun.filter((atMs) => nowMs - atMs < DAY_MS);
    return begun.length < loadsADay && nowMs - (begun.at(-1) ?? Number.NEGATIVE_INFINITY) >= apartMs;
  }

  async function count(engine: Engine, gates: Gates): Promise<void> {
    counted = { engine, afterScans: null };
    await gates.countWindows().catch((error: unknown) => {
      onEvent({ kind: 'warning', message: `Windows are not counted, gates alone are: ${messageOfError(error)}` });
    });
    if (counted.engine === engine) counted = { engine, afterScans: gates.statistics()?.scans ?? 0 };
  }

  function look(): void {
    const now = state();
    if (isLoading || now.kind !== 'ready' || now.reload.kind !== 'none') return;
    const { engine } = now;
    const { gates } = engine;
    const scans = gates?.statistics()?.scans ?? 0;
    // To list what is to be counted takes seconds of a core: not before it is worth a load.
    if (gates === null || scans < scansMin || !mayLoad()) return;
    const share = gates.wasted(TRAFFIC_NOISE);
    if (share < SHARE_MIN) return;
    if (counted?.engine !== engine) {
      void count(engine, gates);
      return;
    }
    if (counted.afterScans === null || scans - counted.afterScans < scansMin) return;
    begun.push(performance.now());
    onEvent({ kind: 'noise', share });
    isLoading = true;
    void reload().finally(() => {
      isLoading = false;
    });
  }

  const timer = setInterval(look, lookMs).unref();
  return { stop: () => clearInterval(timer) };
}
