// Rows for people: columns as wide as they need, every cell safe to print.
import { escapeText } from './escape.js';

const GAP = '  ';

/** The heads and the rows as lines; numbers are aligned to the right. */
export function table(heads: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const cells = rows.map((row) => row.map((cell) => (typeof cell === 'number' ? String(cell) : escapeText(cell))));
  const widths = heads.map((head, column) => Math.max(head.length, ...cells.map((row) => row[column]?.length ?? 0)));
  const isNumber = heads.map((_, column) => rows.length > 0 && rows.every((row) => typeof row[column] === 'number'));
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => (isNumber[column] ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0)))
      .join(GAP)
      .trimEnd();
  return [heads, ...cells].map((row) => `${line(row)}\n`).join('');
}
