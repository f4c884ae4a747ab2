// `npm run soak -- --minutes N --rate R [--store embedded|outside] [--faults SECONDS|none] [--seed N]`: exits with 1 when anything was lost, doubled, wrong, or grew.
import { parseArgs } from 'node:util';
import { generator } from '../faults/random.js';
import { runSoak } from './soak.js';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    rate: { type: 'string', default: '100' },
    store: { type: 'string', default: 'embedded' },
    faults: { type: 'string', default: '30' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  },
});
const { minutes, rate, store, faults, seed } = values;
if (store !== 'embedded' && store !== 'outside') throw new Error(`--store is embedded or outside, not ${store}`);

const say = (text: string): void => void process.stdout.write(`${text}\n`);
say(`${minutes} minutes at ${rate} requests a second, stores: ${store}, faults: ${faults}, seed ${seed}`);
const report = await runSoak({
  seconds: Number(minutes) * 60,
  rate: Number(rate),
  store,
  faultSeconds: faults === 'none' ? null : Number(faults),
  faults: null,
  random: generator(Number(seed)),
  onLine: say,
});
say(JSON.stringify(report, null, 2));
say(
  report.problems.length === 0
    ? 'Verdict: nothing lost, doubled or wrong.'
    : `Verdict: ${report.problems.length} problems.`,
);
if (report.problems.length > 0) process.exitCode = 1;
