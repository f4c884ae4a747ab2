// `npm run fuzz -- --minutes N [--only TARGET] [--seed N] [--corpus DIR] [--native]`: every parser of bytes from outside, in turn; exits with 1 at a finding.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { countModules } from './coverage.js';
import { fuzz } from './fuzz.js';

/** More of one target say no more than these. */
const FINDINGS_MAX = 5;

countModules();
const { targets } = await import('./targets.js');
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    only: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    corpus: { type: 'string' },
    native: { type: 'boolean', default: false },
  },
});

const chosen = targets.filter(({ name }) => values.only === undefined || name === values.only);
if (chosen.length === 0)
  throw new Error(`There is no target "${values.only}": ${targets.map(({ name }) => name).join(', ')}`);
const seconds = (Number(values.minutes) * 60) / (chosen.length + (values.native ? 1 : 0));
const folder = mkdtempSync(join(tmpdir(), 'sluice-findings-'));
const say = (text: string): void => void process.stdout.write(`${text}\n`);
say(`seed ${values.seed}, ${seconds.toFixed(0)} s for each target`);
let found = 0;
for (const target of chosen) {
  const corpus = values.corpus === undefined ? null : join(values.corpus, target.name.replaceAll(' ', '-'));
  const report = fuzz(target, {
    runs: Number.POSITIVE_INFINITY,
    seconds,
    findingsMax: FINDINGS_MAX,
    seed: Number(values.seed),
    corpus,
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
if (values.native) {
  const env = { ...process.env, SECONDS_EACH: String(Math.ceil(seconds)) };
  const { status } = spawnSync('sh', ['test/sanitize/run.sh', 'fuzz'], { env, stdio: 'inherit' });
  if (status !== 0) found += 1;
}
if (found > 0) process.exitCode = 1;
