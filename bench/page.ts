// `npm run bench:page`: puts the figures of docs/figures/ into the documents that show them, as tables, and those of latency by load as a picture.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { curveOf } from './curve.js';
import { filled, readFigures } from './figures.js';
import { projectRoot } from './paths.js';

for (const name of ['README.md', 'docs/benchmarks.md', 'docs/scale.md']) {
  const path = join(projectRoot, name);
  writeFileSync(path, filled(readFileSync(path, 'utf8')));
}
writeFileSync(join(projectRoot, 'docs', 'images', 'latency.svg'), curveOf(readFigures('overload')));
