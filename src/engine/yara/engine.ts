// The YARA engine: YARA-X with rules alone. It looks at raw content, and calls containers incomplete.
import { performance } from 'node:perf_hooks';
import { type BuildOrder, type BuiltEngine, defineEngine } from '../engine.js';
import { loadRulesAlone, problemsOf, rulesFacts, warningsOf } from './rules.js';

export async function buildYara({ directories, standsInFor = null }: BuildOrder): Promise<BuiltEngine> {
  const startedMs = performance.now();
  const rules = await loadRulesAlone(directories);
  const engine = defineEngine(
    {
      name: 'yara-x',
      engineVersion: rules.engineVersion,
      signatureCount: rules.ruleCount,
      signatureVersion: rules.signatureVersion,
      signaturesBuiltAt: rules.signaturesBuiltAt,
      dailyBuiltAt: null,
      contents: `${rules.ruleCount} YARA rules`,
      loadMillis: Math.round(performance.now() - startedMs),
      warnings: [...standInWarnings(standsInFor), ...problemsOf(rules.files), ...warningsOf(rules.files)],
      rules: rulesFacts(rules),
      standsInFor,
      identity: null,
      notice: 'raw-content',
      // Rules need no confinement: YARA-X is memory-safe.
      isConfined: false,
      gates: null,
      work: { nativeEpoch: null, rules: rules.set },
    },
    null,
  );
  return { engine, takePlace: () => undefined };
}

function standInWarnings(standsInFor: BuildOrder['standsInFor']): string[] {
  if (!standsInFor) return [];
  const { name, reason } = standsInFor;
  return [`YARA-X stands in for ${name} and looks at raw content only, because: ${reason}`];
}
