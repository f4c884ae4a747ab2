// `npm run bench:crowd`: what scans by clamd's protocol wait for beside connections that say nothing and streams that drip, by clamd's protocol and by ICAP, over loopback. In turns:
// alone, and with the crowd.
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { ownSignaturesDirectory } from '../src/paths.js';
import { freePort } from '../test/fixtures/free-port.js';
import { whole } from '../test/fixtures/option-values.js';
import { startSluiceClamd } from './contestants/sluice.js';
import { privateMegabytes, untilIdle } from './cpu.js';
import { tableOf, writeFigures } from './figures.js';
import { makeFileSet } from './files.js';
import { startLineProcess } from './line-process.js';
import { median } from './median.js';

const WARM_UP_SECONDS = 3;
const ROUNDS = 5;
/** HTTP has as many as each of the two. */
const PROTOCOLS = 3;
/** Of the scans that are measured, with what is kept for their socket, and of the bench itself. */
const ROOM = 400;
/** Of the server itself. */
const OWN = 1_000;

const options = new Command('bench:crowd')
  .description('The p99 of scans of 1 KB at half of the capacity, alone and beside a crowd that does next to nothing.')
  .option('--idle <count>', 'connections that say nothing, half of them of each protocol', whole, 10_000)
  .option('--slow <count>', 'streams that have a byte a second, half of them of each protocol', whole, 200)
  .option('--rounds <count>', 'of both', whole, ROUNDS)
  .option('--seconds <count>', 'of a measurement', whole, 3)
  .option('--figures', 'keep the table under docs/figures/, for the documents', false)
  .parse()
  .opts<{ idle: number; slow: number; rounds: number; seconds: number; figures: boolean }>();

const folder = await mkdtemp(join(tmpdir(), 'sluice-crowd-'));
const [clamd, icap] = [await freePort(), await freePort()];
const { rounds, seconds } = options;
const [idle, slow] = [Math.ceil(options.idle / 2), Math.ceil(options.slow / 2)];
const openFiles = PROTOCOLS * (idle + slow + ROOM) + OWN;
const contestant = await startSluiceClamd(
  { databaseDirectory: ownSignaturesDirectory, threads: availableParallelism(), folder, openFiles },
  32,
  { CLAMD_PORT: String(clamd), ICAP_PORT: String(icap), ICAP_ACCOUNT: 'bench@example.org' },
);
const crowd = startLineProcess('sh', {
  args: [
    '-c',
    'ulimit -n "$0" && exec "$@"',
    String(2 * (idle + slow) + ROOM),
    process.execPath,
    join(import.meta.dirname, 'crowd-process.js'),
  ],
});
const files = await makeFileSet(
  { name: '1KB', files: { kind: 'unique', sizeBytes: 1024 } },
  folder,
  async () => () => true,
);
const alone: { readonly p50s: number[]; readonly p99s: number[] } = { p50s: [], p99s: [] };
const beside: typeof alone = { p50s: [], p99s: [] };
try {
  await contestant.use(files);
  const { scans } = await contestant.run(WARM_UP_SECONDS);
  const rate = scans / WARM_UP_SECONDS / 2;
  const measure = async ({ p50s, p99s }: typeof alone): Promise<void> => {
    await untilIdle(contestant.pid);
    const { scans, errors, firstError, p50Us = Number.NaN, p99Us = Number.NaN } = await contestant.pace(seconds, rate);
    if (errors > 0) throw new Error(firstError);
    if (scans === 0) throw new Error('no scan was answered in the time');
    p50s.push(p50Us / 1000);
    p99s.push(p99Us / 1000);
  };
  let most = 0;
  for (let round = 0; round < rounds; round += 1) {
    await measure(alone);
    const before = privateMegabytes(contestant.pid);
    const [open = 0] = (await crowd.ask(`open ${clamd} ${icap} ${idle} ${slow}`)).split(' ').map(Number);
    if (open !== 2 * (idle + slow)) throw new Error(`${open} connections of the crowd are open`);
    await measure(beside);
    most = Math.max(most, privateMegabytes(contestant.pid) - before);
    await crowd.ask('close');
  }
  const ratio = median(beside.p99s.map((value, round) => value / (alone.p99s[round] ?? Number.NaN)));
  const times = ({ p50s, p99s }: typeof alone): string[] => [median(p50s).toFixed(2), median(p99s).toFixed(2)];
  const columns = ['idle', 'slow', 'scans/s', 'p50 ms', 'p99 ms', 'p99, of alone', 'MB more'];
  const rows = [
    ['0', '0', rate.toFixed(0), ...times(alone), '1.00', '0'],
    [String(2 * idle), String(2 * slow), rate.toFixed(0), ...times(beside), ratio.toFixed(2), most.toFixed(0)],
  ];
  const command = `npm run bench:crowd --${rounds === ROUNDS ? '' : ` --rounds ${rounds}`} --figures`;
  process.stdout.write(`${tableOf({ command, date: 'now', machine: 'this machine', columns, rows })}\n`);
  if (options.figures) writeFigures('crowd', { command, columns, rows });
} finally {
  await crowd.stop();
  await contestant.stop();
  await rm(folder, { recursive: true, force: true });
}
