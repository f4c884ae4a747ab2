// Builds what serves: ClamAV with the operator's YARA rules beside it, or rules alone where ClamAV is not there.
import { createHash } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { type LoadedEngine, type LoadOptions, type LoadProgress, loadEngine } from './addon.js';
import type { GateFacts } from './clamav/gates/prepare.js';
import { prepareGatesApart } from './clamav/gates/prepare-apart.js';
import { type DatabaseFile, describeDatabases } from './databases.js';
import { type LoadedRules, loadRules, loadStandIn, type RuleFile } from './rules.js';
import { beginServing } from './serving.js';

export type EngineChoice =
  /** ClamAV; rules alone where it can't be loaded. */
  'auto' | 'clamav' | 'yara';

/** What serves, or has served: every verdict bears its epoch. */
export interface ServingEngine extends LoadedEngine {
  readonly name: 'clamav' | 'yara-x';
  /** The YARA rules that look at every content, and the version of their engine; null: there are none. */
  readonly rules: {
    readonly engineVersion: string;
    readonly ruleCount: number;
    readonly files: readonly RuleFile[];
  } | null;
  /** Why rules serve though ClamAV was wanted; null: what was wanted serves. */
  readonly standsInFor: string | null;
  /**
   * SHA-256 over all that its verdicts depend on: versions, every byte of the databases, limits. Two engines that have the
   * same one say the same of a content, also on two machines. Null where it wasn't wanted, and for stand-ins.
   */
  readonly identity: string | null;
  /** Null: there are no gates. */
  readonly gates: (GateFacts & { /** Of each gate, by its number. */ readonly keys: readonly string[] }) | null;
}

/** `gatesDirectory`: where the files of gates are kept; null: no gates. */
export async function buildClamav(
  options: Omit<LoadOptions, 'gates'> & { readonly gatesDirectory?: string | null },
  onProgress: (progress: LoadProgress) => void,
  warn: (message: string) => void,
): Promise<ServingEngine> {
  const rules = await rulesBeside(options.directories, warn);
  const { gatesDirectory = null, ...others } = options;
  const gates =
    gatesDirectory === null
      ? null
      : await prepareGatesApart({ directories: options.directories, directory: gatesDirectory });
  const loaded = await loadEngine({ ...others, gates: gates?.files ?? null }, onProgress);
  const epoch = beginServing(loaded.epoch, rules?.set ?? null);
  const { digest, engineVersion } = loaded;
  const identity = digest === null ? null : identityOf([engineVersion, digest, options.limits, rulesFacts(rules)]);
  return {
    ...loaded,
    epoch,
    name: 'clamav',
    rules: factsOf(rules),
    standsInFor: null,
    identity,
    gates: gates === null ? null : { ...gates.facts, keys: gates.keys },
  };
}

/** What is on disk by now may be newer than the rules that serve. */
function rulesFacts(rules: LoadedRules | null): readonly string[] | null {
  if (rules === null) return null;
  return [rules.engineVersion, createHash('sha256').update(new Uint8Array(rules.set.text)).digest('hex')];
}

function identityOf(facts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex');
}

/** Without YARA-X the same files still serve as far as libclamav knows their language. */
async function rulesBeside(
  directories: readonly string[],
  warn: (message: string) => void,
): Promise<LoadedRules | null> {
  try {
    return await loadRules(directories);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    warn(`${reason}: YARA rules are left to ClamAV, which knows a part of their language`);
    return null;
  }
}

export async function buildStandIn(directories: readonly string[], standsInFor: string | null): Promise<ServingEngine> {
  const startedMs = performance.now();
  const rules = await loadStandIn(directories);
  const files: DatabaseFile[] = [...(await describeDatabases(rules.files.map(({ path }) => path))).files];
  const facts = {
    name: 'yara-x' as const,
    engineVersion: rules.engineVersion,
    signatureCount: rules.ruleCount,
    signatureVersion: rules.signatureVersion,
    signaturesBuiltAt: rules.signaturesBuiltAt,
    loadMillis: Math.round(performance.now() - startedMs),
    warnings: [],
    files,
    rules: factsOf(rules),
    standsInFor,
    digest: null,
    identity: null,
    gates: null,
  };
  return { epoch: beginServing(null, rules.set), ...facts };
}

function factsOf(rules: LoadedRules | null): ServingEngine['rules'] {
  if (rules === null) return null;
  const { engineVersion, ruleCount, files } = rules;
  return { engineVersion, ruleCount, files };
}

const descriptions = new WeakMap<ServingEngine, string>();

/** `clamav/1.4.6; signatures=daily:27000; built=2026-11-20T08:00:00`; with rules beside it `clamav/1.4.6+yara-x/1.7.1; ...`. */
export function describeEngine(engine: ServingEngine): string {
  const known = descriptions.get(engine);
  if (known !== undefined) return known;
  const { name, engineVersion, rules, signatureVersion, signaturesBuiltAt } = engine;
  const built = new Date(signaturesBuiltAt * 1000).toISOString().slice(0, 19);
  const beside = name === 'clamav' && rules !== null && rules.ruleCount > 0 ? `+yara-x/${rules.engineVersion}` : '';
  const description = `${name}/${engineVersion}${beside}; signatures=${signatureVersion}; built=${built}`;
  descriptions.set(engine, description);
  return description;
}
