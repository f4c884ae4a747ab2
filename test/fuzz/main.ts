// `npm run fuzz -- --minutes N [--only TARGET] [--seed N] [--corpus DIR] [--native]`: every parser of bytes from outside, in turn; exits with 1 at a finding.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command, Option } from 'commander';
import { positive, whole } from '../fixtures/option-values.js';
import { countModules } from './coverage.js';
import { fuzz } from './fuzz.js';

/** More of one target say no more than these. */
const FINDINGS_MAX = 5;

countModules();
const { targets } = await import('./targets.js');
const { minutes, only, seed, corpus, native } = new Command('npm run fuzz --')
  .description('Every parser of bytes from outside, in turn; exits with 1 at a finding.')
  .option('--minutes <count>', 'for all of them', positive, 10)
  .addOption(new Option('--only <target>', 'one of them').choices(targets.map(({ name }) => name)))
  .option('--seed <count>', 'of what is drawn', whole, 1 + (Date.now() % 1_000_000))
  .option('--corpus <folder>', 'inputs that reach new code are kept there, and begun with')
  .option('--native', "the addon's parsers as well, under sanitizers", false)
  .parse()
  .opts<{ minutes: number; only?: string; seed: number; corpus?: string; native: boolean }>();

const chosen = targets.filter(({ name }) => only === undefined || name === only);
const seconds = (minutes * 60) / (chosen.length + (native ? 1 : 0));
const folder = mkdtempSync(join(tmpdir(), 'sluice-findings-'));
const say = (text: string): void => void process.stdout.write(`${text}\n`);
say(`seed ${seed}, ${seconds.toFixed(0)} s for each target`);
let found = 0;
for (const target of chosen) {
  const kept = corpus === undefined ? null : join(corpus, target.name.replaceAll(' ', '-'));
  const report = fuzz(target, {
    runs: Number.POSITIVE_INFINITY,
    seconds,
    findingsMax: FINDINGS_MAX,
    seed,
    corpus: kept,
  });
  say(
    `${target.name}: ${report.runs} inputs, ${report.kept} of them reached new code, ${report.findings.length} findings`,
  );
  for (const { input, problem } of report.findings) {
    found += 1;
    const path = join(folder, `${target.name.replaceAll(' ', '-')}-${found}`);
    writeFileSync(path, input);
    say(`  ${problem}\n  ${path}`);
  }
}
if (native) {
  const env = { ...process.env, SECONDS_EACH: String(Math.ceil(seconds)) };
  const { status } = spawnSync('sh', ['test/sanitize/run.sh', 'fuzz'], { env, stdio: 'inherit' });
  if (status !== 0) found += 1;
}
if (found > 0) process.exitCode = 1;
