// `npm run soak -- --minutes N --rate R [--store embedded|outside] [--faults SECONDS|none] [--seed N] [--figures NAME]`: exits with 1 when anything was lost, doubled, wrong, or grew.
import { Command, Option } from 'commander';
import { writeFigures } from '../../bench/figures.js';
import { positive, whole } from '../fixtures/option-values.js';
import { generator } from '../fixtures/random.js';
import { figuresOf } from './report.js';
import { runSoak } from './soak.js';

const { minutes, rate, store, faults, seed, figures } = new Command('npm run soak --')
  .description(
    'Mixed traffic of all protocols while parts fail; exits with 1 when anything was lost, doubled, wrong, or grew.',
  )
  .option('--minutes <count>', 'how long', positive, 60)
  .option('--rate <count>', 'requests a second', whole, 100)
  .addOption(new Option('--store <kind>', 'the stores').choices(['embedded', 'outside'] as const).default('embedded'))
  .option('--faults <seconds>', 'between two faults, or none', faultSeconds, 30)
  .option('--seed <count>', 'of what is drawn', whole, 1 + (Date.now() % 1_000_000))
  .option('--figures <name>', 'keep them for the documents, as docs/figures/NAME.json')
  .parse()
  .opts<{
    minutes: number;
    rate: number;
    store: 'embedded' | 'outside';
    faults: number;
    seed: number;
    figures?: string;
  }>();

function faultSeconds(text: string): number {
  return text === 'none' ? Number.POSITIVE_INFINITY : positive(text);
}

const say = (text: string): void => void process.stdout.write(`${text}\n`);
say(
  `${minutes} minutes at ${rate} requests a second, stores: ${store}, ${Number.isFinite(faults) ? `a fault every ${faults} s` : 'no faults'}, seed ${seed}`,
);
const report = await runSoak({
  seconds: minutes * 60,
  rate,
  store,
  faultSeconds: Number.isFinite(faults) ? faults : null,
  faults: null,
  random: generator(seed),
  onLine: say,
});
const { minutes: _, ...totals } = report;
say(JSON.stringify(totals, null, 2));
if (figures !== undefined) {
  const often = Number.isFinite(faults) ? faults : 'none';
  const command = `npm run soak -- --minutes ${minutes} --rate ${rate} --store ${store} --faults ${often}`;
  writeFigures(figures, { command, ...figuresOf(report) });
}
say(
  report.problems.length === 0
    ? 'Verdict: nothing lost, doubled or wrong.'
    : `Verdict: ${report.problems.length} problems.`,
);
if (report.problems.length > 0) process.exitCode = 1;
