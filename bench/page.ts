// `npm run bench:page`: puts the figures of docs/figures/ into the documents that show them, as tables, and latency by load and growth as pictures.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { curveOf, growthOf } from './curve.js';
import { documents, filled } from './documents.js';
import { readFigures } from './figures.js';
import { projectRoot } from './paths.js';

for (const name of documents) {
  const path = join(projectRoot, name);
  writeFileSync(path, filled(readFileSync(path, 'utf8')));
}
const pictures = { latency: curveOf(readFigures('overload')), growth: growthOf(readFigures('growth')) };
for (const [name, picture] of Object.entries(pictures))
  writeFileSync(join(projectRoot, 'docs', 'images', `${name}.svg`), picture);
