// The whole bench: what a quick run is planned to take, its pictures, and that a run can be compared with another one.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import t from 'tap';
import { barsOf } from '../../bench/bars.js';
import { curveOf, growthOf } from '../../bench/curve.js';
import { readFigures } from '../../bench/figures.js';
import { plannedSeconds, readOptions } from '../../bench/options.js';
import { partNames, parts, runPart } from '../../bench/parts.js';
import { builtPath } from '../../bench/paths.js';
import { describeMachine, type Report } from '../../bench/report.js';
import { compareResults, type Results, readResults, writeResults } from '../../bench/results.js';
import { temporaryFolder } from '../fixtures/folder.js';

const QUICK_SECONDS_MOST = 180;
const HOSTILE = `"><script>alert('x')</script>&amp;\u0000\ud800`;

const optionsOf = (...args: readonly string[]) => readOptions(['node', 'bench', ...args]);

t.test(
  'a quick run has all parts, and all contestants but the one that learns, and is planned to end in three minutes',
  async (t) => {
    const [whole, quick] = [optionsOf(), optionsOf('--quick')];
    t.strictSame(quick.parts, partNames);
    t.strictSame(
      quick.contestants,
      whole.contestants.filter((name) => name !== 'sluice-learned'),
    );
    const planned = plannedSeconds(quick);
    t.ok(planned <= QUICK_SECONDS_MOST, `${planned.toFixed(0)} seconds`);
    t.ok(plannedSeconds(whole) > 3 * planned, 'the whole one is longer');
  },
);

t.test('a run of chosen rows has them alone', async (t) => {
  const chosen = optionsOf('--only', '1KB', '--contestants', 'sluice,clamd');
  t.match(chosen, { whole: false, parts: [], contestants: ['sluice', 'clamd'], gatesLearn: null });
  t.strictSame(optionsOf('--parts', 'none').parts, []);
  t.strictSame(optionsOf('--only', '1KB', '--parts', 'growth').parts, ['growth']);
});

/** Every element that begins ends, in its order, and nothing else has a character of markup. Throws otherwise. */
function assertWellFormed(xml: string): void {
  const open: string[] = [];
  const rest = xml.replaceAll(
    /<(\/?)([a-z]+)((?: [a-zA-Z-]+="[^"<]*")*)(\/?)>/g,
    (_, closes, name, _attributes, empty) => {
      if (closes === '/' && open.pop() !== name) throw new Error(`${name} ends and did not begin`);
      if (closes === '' && empty === '') open.push(name);
      return '';
    },
  );
  if (open.length > 0) throw new Error(`${open.join()} did not end`);
  const bad = /[<>"]|&(?!#\d+;)/.exec(rest);
  if (bad !== null) throw new Error(`markup in text: ${rest.slice(bad.index, bad.index + 40)}`);
  if (/[\p{Surrogate}\0]/u.test(xml)) throw new Error('a character that XML has not');
}

t.test('bars have every value, and text of others is text', async (t) => {
  const groups = [
    {
      name: HOSTILE,
      bars: [
        { name: 'sluice', value: 2.75 },
        { name: 'clamd', value: 1 },
      ],
    },
    {
      name: 'empty',
      bars: [
        { name: HOSTILE, value: null },
        { name: 'raw', value: 1234 },
      ],
    },
  ];
  const svg = barsOf({ heading: HOSTILE, unit: HOSTILE, reference: 1, groups, machine: HOSTILE, date: '2026-01-02' });
  assertWellFormed(svg);
  t.notMatch(svg, '<script');
  for (const value of ['2.75', '1.00', '-', '1234']) t.match(svg, `>${value}</text>`);
  t.match(svg, '2026-01-02');
  assertWellFormed(barsOf({ heading: 'nothing', unit: '', groups: [], machine: '', date: '' }));
});

t.test('curves have a point for every value that was measured', async (t) => {
  const points = (svg: string) => [...svg.matchAll(/points="([^"]*)"/g)].flatMap(([, list = '']) => list.split(' '));
  const [latency, growth] = [readFigures('overload'), readFigures('growth')];
  for (const svg of [curveOf(latency), growthOf(growth)]) {
    assertWellFormed(svg);
    t.notMatch(svg, 'NaN');
  }
  t.equal(points(growthOf(growth)).length, 2 * growth.rows.length);
  const cells = latency.rows.flatMap((row) => row.filter((_, at) => /p(50|99) ms$/.test(latency.columns[at] ?? '')));
  t.equal(points(curveOf(latency)).length, cells.filter((cell) => cell !== '-').length);
  const [first = [], ...others] = growth.rows;
  assertWellFormed(growthOf({ ...growth, machine: HOSTILE, rows: [[HOSTILE, ...first.slice(1)], ...others] }));
});

const table = { command: 'c', date: '2026-01-02', machine: 'm' };

function resultsOf(ratioToClamd: number): Results {
  const measured = { scans: 1, note: null, rounds: 1, invalidRounds: 0, firstError: null, connections: 32 };
  const times = { p50Us: 1, p95Us: 1, p99Us: 1, cpuUsPerScan: 1, clientCpuUsPerScan: 1, ratioToRaw: 1 };
  const scansPerSecond = { median: 5000, min: 1, max: 2 };
  const block: Report['blocks'][number] = {
    scenario: '1KB',
    threads: 2,
    files: { scenario: '1KB', unique: true, count: 1, totalBytes: 1024, sha256: '', leftOut: 0 },
    results: [{ contestant: 'sluice', ...measured, ...times, scansPerSecond, ratioToClamd }],
  };
  return {
    date: '2026-01-02T03:04:05.678Z',
    machine: describeMachine('1.0'),
    database: { name: 'own', signatures: 16 },
    rounds: 1,
    secondsPerRound: 1,
    blocks: [block],
    tables: {
      overload: readFigures('overload'),
      growth: readFigures('growth'),
      start: { ...table, columns: ['', 'ready s', 'processor s', 'MiB'], rows: [['sluice', '1.25', '0.90', '64']] },
      reload: { ...table, columns: ['', 'p50 ms', 'p99 ms'], rows: [['with reloads', '0.75', '-']] },
    },
  };
}

t.test('a run leaves a document that it can be compared with, and a picture for each chart', async (t) => {
  const folder = join(temporaryFolder(t), 'results');
  const results = resultsOf(2.5);
  const [document = '', ...pictures] = writeResults(results, folder);
  t.equal(document, join(folder, 'bench.json'));
  const names = ['growth', 'latency', 'memory', 'ratios-2', 'reload', 'start'].map((name) => `${name}.svg`);
  t.strictSame(pictures.map((path) => basename(path)).toSorted(), names);
  for (const path of pictures) assertWellFormed(readFileSync(path, 'utf8'));
  t.match(readFileSync(join(folder, 'ratios-2.svg'), 'utf8'), '>2.50</text>');
  t.match(readFileSync(join(folder, 'start.svg'), 'utf8'), '>1.25</text>');
  t.match(readFileSync(join(folder, 'memory.svg'), 'utf8'), '>64.00</text>');

  const lines = compareResults(readResults(document), results);
  const rows = Object.values(results.tables).reduce((sum, one) => sum + one.rows.length, 0);
  t.equal(lines.length, results.blocks.length + rows, 'each row is compared');
  t.match(lines, ['1KB, 2 thread(s), sluice: 5000 then, 5000 now; of clamd 2.50 then, 2.50 now']);
  for (const [, then, now] of lines.join('\n').matchAll(/(\S+) then, ([^\s;]+) now/g)) t.equal(then, now);
  t.match(compareResults(readResults(document), resultsOf(3)).join('\n'), 'of clamd 2.50 then, 3.00 now');
  writeFileSync(document, JSON.stringify({ blocks: [] }));
  t.throws(() => readResults(document), /is no bench\.json/);
});

t.test('a part that fails says which one', async (t) => {
  const folder = temporaryFolder(t);
  const setting = { quick: true, database: join(folder, 'none'), folder, signal: new AbortController().signal };
  await t.rejects(runPart('reload', setting), { message: 'reload ended with 1' });
});

t.test('every part takes signatures of others', async (t) => {
  for (const name of partNames) {
    const help = execFileSync(process.execPath, [builtPath(parts[name].program), '--help'], { encoding: 'utf8' });
    t.match(help, '--database <', name);
  }
});

t.test('every table of a part has columns that tell its rows apart', async (t) => {
  const tables = Object.assign({}, ...partNames.map((name) => parts[name].tables));
  for (const name of ['overload', 'growth']) {
    const keys = readFigures(name).rows.map((row) => row.slice(0, tables[name].keys).join());
    t.equal(new Set(keys).size, keys.length, name);
  }
});
