// The figures of the documents are those that a bench has written, and no other ones stand there, neither in tables nor in sentences.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { curveOf, growthOf } from '../../bench/curve.js';
import { documents, filled } from '../../bench/documents.js';
import { readFigures, tableOf } from '../../bench/figures.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));

for (const name of documents) {
  t.test(`${name} shows the figures as they were measured`, async (t) => {
    const document = readFileSync(join(root, name), 'utf8');
    t.equal(filled(document), document, '`npm run bench:page` puts them there');
    const tables = document.replaceAll(/<!-- figures: [\s\S]*?<!-- end -->/g, '');
    t.notMatch(tables, /\|[^|\n]*\b(?:scans\/s|p50 ms|of clamd|Sluice \/ clamd)[^|\n]*\|/, 'another table of speed');
  });
}

/** What sentences say of a measurement, which nobody would renew there. */
const MEASURED: readonly RegExp[] = [
  /\d[\d.,]* [uµ]s\b/,
  /\bp(?:50|99)\b[^.\n|]*?\d[\d.,]* ms|\d[\d.,]* ms[^.\n|]*?\bp(?:50|99)\b/,
  /\d[\d.,]* ?(?:times|%)[^.\n|]{0,40}(?:processor|memory|clamd|plain|stock|as (?:long|many|fast|much)|slower|faster)/,
  /\b(?:took|measured|median)\b[^.|\n]*?\d[\d.,]* (?:ms|s|seconds|bytes|MB|GB|GiB|%)(?![\w])/,
];
/** Figures there are of the day of each paragraph, as its beginning says. */
const OF_THEIR_DAY = 'decisions.md';

t.test('no sentence has a figure of a measurement', async (t) => {
  const all = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md') && name !== OF_THEIR_DAY);
  for (const name of ['README.md', 'SECURITY.md', ...all.map((one) => join('docs', one))]) {
    const document = readFileSync(join(root, name), 'utf8');
    const sentences = document.replaceAll(/<!-- figures: [\s\S]*?<!-- end -->/g, '');
    for (const pattern of MEASURED) t.notMatch(sentences, pattern, name);
  }
  t.ok(
    MEASURED.every((pattern) => pattern.test('it took 3 us (p50 2 ms), 3 times the processor time: measured, 2 MB')),
  );
});

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
