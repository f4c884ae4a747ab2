// The documents with the tables of figures in them.
import { type Figures, readFigures, tableOf } from './figures.js';
import { plannedFor } from './scale-plan.js';

/** From the project's folder. */
export const documents: readonly string[] = [
  'README.md',
  'docs/benchmarks.md',
  'docs/durability.md',
  'docs/operations.md',
  'docs/scale.md',
];

const BLOCK = /(<!-- figures: ([a-z0-9-]+) -->\n)[\s\S]*?(\n<!-- end -->)/g;

/** The document with all of its tables as the figures are now. */
export function filled(document: string): string {
  return document.replaceAll(
    BLOCK,
    (_, begin: string, name: string, end: string) => `${begin}\n${tableOf(shown(name))}\n${end}`,
  );
}

/** `scale` is computed: nobody has measured it. */
function shown(name: string): Figures {
  return name === 'scale' ? plannedFor(readFigures('cost'), readFigures('held-out')) : readFigures(name);
}
