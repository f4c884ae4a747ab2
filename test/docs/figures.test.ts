// The figures of the documents are those that a bench has written, and no table of speed stands there without them.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { curveOf, growthOf } from '../../bench/curve.js';
import { filled, readFigures, tableOf } from '../../bench/figures.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));

for (const name of ['README.md', 'docs/benchmarks.md', 'docs/scale.md']) {
  t.test(`${name} shows the figures as they were measured`, async (t) => {
    const document = readFileSync(join(root, name), 'utf8');
    t.equal(filled(document), document, '`npm run bench:page` puts them there');
    const tables = document.replaceAll(/<!-- figures: [\s\S]*?<!-- end -->/g, '');
    t.notMatch(tables, /\|[^|\n]*\b(?:scans\/s|p50 ms|of clamd|Sluice \/ clamd)[^|\n]*\|/, 'another table of speed');
  });
}

t.test('the pictures show the figures as they were measured', async (t) => {
  const picture = (name: string): string => readFileSync(join(root, 'docs/images', `${name}.svg`), 'utf8');
  t.equal(curveOf(readFigures('overload')), picture('latency'), '`npm run bench:page` puts them there');
  t.equal(growthOf(readFigures('growth')), picture('growth'), 'likewise');
});

t.test('a table has its command, its day and its machine', async (t) => {
  const figures = { command: 'npm run x', date: '2026-01-02', machine: 'm', columns: ['a', 'b'], rows: [['1', '2']] };
  t.equal(tableOf(figures), '`npm run x`, 2026-01-02, m:\n\n| a | b |\n|---|---:|\n| 1 | 2 |');
  t.throws(() => filled('<!-- figures: unknown -->\n\n<!-- end -->'), /has no unknown\.json/);
});
