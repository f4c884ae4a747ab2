// The ClamAV engine: libclamav with the databases of the folders, and the operator's YARA rules beside it.
import { hash } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { messageOfError } from '../../error-text.js';
import { dailyBuiltAt } from '../databases.js';
import { type BuildOrder, type BuiltEngine, defineEngine, type Gates, serving } from '../engine.js';
import { type LoadedRules, loadRules, problemsOf, rulesFacts, warningsOf } from '../yara/engine.js';
import {
  countWindows,
  defaultEngineLimits,
  EngineLoadError,
  gateStatistics,
  type PreparedEngine,
  prepareEngine,
} from './addon.js';
import { learnNoise, noiseShare } from './gates/noise.js';
import { type PreparedGates, prepareGatesApart, windowsForGatesApart } from './gates/prepare.js';
import { isSinglePassFaster } from './single-pass.js';

/** Share of the deadline after which libclamav gives up by itself; content with encrypted members is scanned twice (native/). */
const DEADLINE_SHARE = 0.45;
/** Where gates must be made first, that takes about so much of a load. */
const GATES_SHARE = 0.7;
/** Each takes some 100 MB while they are made. */
const GATES_THREADS_MAX = 4;

export async function buildClamav(order: BuildOrder): Promise<BuiltEngine> {
  const rules = await rulesBeside(order);
  const { directories, gatesDirectory = null, wantsIdentity = false } = order;
  const limits = {
    ...defaultEngineLimits,
    ...order.limits,
    maxScanTimeMs: Math.ceil(order.scanTimeoutMs * DEADLINE_SHARE),
  };
  const { temporaryDirectory } = order;
  // What can't be read can't be loaded either, and the message of the load is better.
  const singlePass = await isSinglePassFaster(directories).catch(() => false);
  const options = { directories, temporaryDirectory, limits, wantsDigest: wantsIdentity, singlePass };
  const { prepared, gates, without } = await withGates(order, (made, onProgress) =>
    prepareEngine({ ...options, ...made }, onProgress),
  );
  const { digest, files, nativeEpoch, serve, ...facts } = prepared;
  const engine = defineEngine(
    {
      ...facts,
      name: 'clamav',
      dailyBuiltAt: dailyBuiltAt(files),
      contents: `${facts.signatureCount} signatures${rules === null ? '' : ` and ${rules.ruleCount} YARA rules beside them`}`,
      warnings: [...facts.warnings, ...without, ...problemsOf(rules?.files ?? []), ...warningsOf(rules?.files ?? [])],
      rules: rules === null ? null : rulesFacts(rules),
      standsInFor: null,
      identity: digest === null ? null : identityOf([facts.engineVersion, digest, limits, rulesIdentity(rules)]),
      notice: null,
      isConfined: true,
      gates:
        gates === null || gatesDirectory === null
          ? null
          : gatesOf(gates, { directories, directory: gatesDirectory, nativeEpoch }),
      work: { nativeEpoch, rules: rules?.set ?? null },
    },
    rules !== null && rules.ruleCount > 0 ? rulesFacts(rules).engine : null,
  );
  return { engine, takePlace: serve };
}

type MadeOptions = Partial<PreparedGates['options']>;

interface GatedEngine {
  readonly prepared: PreparedEngine;
  readonly gates: PreparedGates | null;
  /** Why there are no gates though they were wanted. */
  readonly without: readonly string[];
}

/** Gates make an engine faster, not better: where they can't be had, one engine looks at everything. */
async function withGates(
  { directories, gatesDirectory = null, onProgress }: BuildOrder,
  prepareWith: (made: MadeOptions, onProgress: (fraction: number) => void) => Promise<PreparedEngine>,
): Promise<GatedEngine> {
  const beginPart = partsOf(onProgress);
  const prepare = (made: MadeOptions): Promise<PreparedEngine> => prepareWith(made, beginPart(1));
  if (gatesDirectory === null) return { prepared: await prepare({}), gates: null, without: [] };
  const without = async (error: unknown): Promise<GatedEngine> => ({
    prepared: await prepare({}),
    gates: null,
    without: [`Signatures are loaded without gates: ${messageOfError(error)}`],
  });
  let gates: PreparedGates;
  try {
    const order = { directories, directory: gatesDirectory, threads: threadsForGates() };
    gates = await prepareGatesApart(order, beginPart(GATES_SHARE));
  } catch (error) {
    return await without(error);
  }
  try {
    return { prepared: await prepare(gates.options), gates, without: [] };
  } catch (error) {
    // What is wrong with the databases themselves would be wrong again.
    if (error instanceof EngineLoadError && error.message.includes(gatesDirectory)) return await without(error);
    throw error;
  }
}

/** While an engine serves, the cores are for what it looks at. */
const threadsForGates = (): number =>
  serving.engine === null ? Math.min(availableParallelism(), GATES_THREADS_MAX) : 1;

/** One progress of what is done one after the other: each part takes a share of what is left when it begins, so what is done anew goes on from there. */
function partsOf(onProgress: BuildOrder['onProgress']) {
  let reached = 0;
  return (share: number) => {
    const from = reached;
    return (fraction: number): void => {
      reached = from + fraction * share * (1 - from);
      onProgress?.(reached);
    };
  };
}

interface GatesPlace {
  readonly directories: readonly string[];
  readonly directory: string;
  readonly nativeEpoch: number;
}

function gatesOf({ facts, keys }: PreparedGates, { directories, directory, nativeEpoch }: GatesPlace): Gates {
  let counting: Promise<void> | null = null;
  async function count(): Promise<void> {
    countWindows(
      nativeEpoch,
      await windowsForGatesApart({ directories, directory, isBackground: true }, () => undefined),
    );
  }
  return {
    gated: facts.gated,
    kept: facts.kept,
    givenUp: facts.noisy,
    statistics: gateStatistics,
    countWindows() {
      counting ??= count();
      return counting;
    },
    learn: (rule) => learnNoise(directory, keys, rule),
    wasted(rule) {
      const statistics = gateStatistics();
      return statistics === null ? 0 : noiseShare(statistics, rule);
    },
  };
}

/** Without YARA-X the same files still serve, as far as libclamav knows their language. */
async function rulesBeside({ directories, warn }: BuildOrder): Promise<LoadedRules | null> {
  try {
    return await loadRules(directories);
  } catch (error) {
    const reason = messageOfError(error);
    warn?.(`${reason}: YARA rules are left to ClamAV, which knows a part of their language`);
    return null;
  }
}

/** Of the rules that serve: the files on disk may be newer by now. */
function rulesIdentity(rules: LoadedRules | null): readonly string[] | null {
  if (rules === null) return null;
  return [rules.engineVersion, hash('sha256', new Uint8Array(rules.set.text))];
}

function identityOf(facts: readonly unknown[]): string {
  return hash('sha256', JSON.stringify(facts));
}
