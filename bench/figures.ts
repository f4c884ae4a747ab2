// Tables of figures: what a bench has measured, kept as JSON under docs/figures/, and shown by the documents (documents.ts) as it stands there.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, release, type } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { projectRoot } from './paths.js';

const shape = z.strictObject({
  /** What anybody can run to have them again. */
  command: z.string(),
  /** YYYY-MM-DD. */
  date: z.string(),
  machine: z.string(),
  columns: z.array(z.string()),
  rows: z.array(z.array(z.string())),
});

export type Figures = z.infer<typeof shape>;

const folder = join(projectRoot, 'docs', 'figures');

export function machineName(): string {
  return `${cpus()[0]?.model ?? 'unknown'}, ${availableParallelism()} cores, ${type()} ${release()}, Node ${process.version}`;
}

export function writeFigures(
  name: string,
  table: Pick<Figures, 'command' | 'columns' | 'rows'>,
  directory = folder,
): void {
  const figures: Figures = { date: new Date().toISOString().slice(0, 10), machine: machineName(), ...table };
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, `${name}.json`), `${JSON.stringify(figures, null, 2)}\n`);
}

export function readFigures(name: string, directory = folder): Figures {
  const path = join(directory, `${name}.json`);
  if (!existsSync(path)) throw new Error(`${directory === folder ? 'docs/figures/' : directory} has no ${name}.json`);
  return shape.parse(JSON.parse(readFileSync(path, 'utf8')));
}

/** A table of Markdown, the first column to the left, with what it was made by. */
export function tableOf({ command, date, machine, columns, rows }: Figures): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const rule = `|---|${'---:|'.repeat(columns.length - 1)}`;
  return [`\`${command}\`, ${date}, ${machine}:`, '', line(columns), rule, ...rows.map(line)].join('\n');
}
