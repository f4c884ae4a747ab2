// What a run leaves: a folder with all that was measured as one JSON document, and a picture for each chart.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { ratiosOf } from './bars.js';
import { type Figures, machineName } from './figures.js';
import { partNames, parts } from './parts.js';
import { projectRoot } from './paths.js';
import { compareReports, type Report } from './report.js';

export interface Results extends Report {
  /** Of the parts that are commands of their own, by name. */
  readonly tables: Readonly<Record<string, Figures>>;
}

const tables = Object.fromEntries(partNames.flatMap((name) => Object.entries(parts[name].tables)));

/** `given`: null for a folder of this run under bench-results/, which Git ignores. Returns the files, the JSON first. */
export function writeResults(results: Results, given: string | null): readonly string[] {
  const ownName = results.date.slice(0, 'YYYY-MM-DDTHH:MM:SS'.length).replaceAll(':', '-');
  const folder = resolve(given ?? join(projectRoot, 'bench-results', ownName));
  const written: string[] = [];
  const write = (name: string, text: string): void => {
    written.push(join(folder, name));
    writeFileSync(join(folder, name), text);
  };
  mkdirSync(folder, { recursive: true });
  write('bench.json', `${JSON.stringify(results, null, 2)}\n`);
  for (const threads of new Set(results.blocks.map((block) => block.threads))) {
    const own = results.blocks.filter((block) => block.threads === threads);
    write(`ratios-${threads}.svg`, ratiosOf(own, { machine: machineName(), date: results.date.slice(0, 10) }));
  }
  for (const [table, figures] of Object.entries(results.tables)) {
    const pictures = Object.entries(tables[table]?.pictures ?? {});
    for (const [name, draw] of pictures) write(`${name}.svg`, draw(figures));
  }
  return written;
}

/** `path`: the JSON document of an earlier run. */
export function readResults(path: string): Results {
  const results: Results = JSON.parse(readFileSync(path, 'utf8'));
  if (!Array.isArray(results.blocks) || typeof results.tables !== 'object') throw new Error(`${path} is no bench.json`);
  return results;
}

/** A line for each row that both runs have. */
export function compareResults(before: Results, after: Results): string[] {
  const lines = Object.entries(after.tables).flatMap(([table, { columns, rows }]) => {
    const keys = tables[table]?.keys ?? 1;
    const keyOf = (row: readonly string[]): string => row.slice(0, keys).join(' ');
    return rows.flatMap((row) => {
      const then = before.tables[table]?.rows.find((one) => keyOf(one) === keyOf(row));
      if (then === undefined) return [];
      const values = columns
        .slice(keys)
        .map((column, at) => `${column} ${then[at + keys]} then, ${row[at + keys]} now`);
      return [`${table}, ${keyOf(row)}: ${values.join('; ')}`];
    });
  });
  return [...compareReports(before, after), ...lines];
}
