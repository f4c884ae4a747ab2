// Rows of the history as CSV (RFC 4180) that a spreadsheet may open: no cell is a formula, whatever a file was called.
import { wireTime } from '../wire-time.js';
import type { ScanDetail } from './stats.js';

const columns: readonly (readonly [string, (row: ScanDetail) => string | number | null])[] = [
  ['id', ({ id }) => id],
  ['creationDate', ({ creation_date }) => `${wireTime(creation_date)}Z`],
  ['lastUpdate', ({ last_update }) => `${wireTime(last_update)}Z`],
  ['filename', ({ filename }) => filename],
  ['status', ({ status }) => status],
  ['infected', ({ infected }) => String(infected)],
  ['virusName', ({ virus_name }) => virus_name],
  ['error', ({ error }) => error],
  ['sizeInBytes', ({ size_bytes }) => size_bytes],
  ['sha256', ({ sha256 }) => sha256],
  ['scanDurationMillis', ({ duration_ms }) => duration_ms],
  ['engine', ({ engine }) => engine],
  ['env', ({ env }) => env],
];

export const csvColumns: readonly string[] = columns.map(([name]) => name);

/** Spreadsheets take a text for UTF-8 only when it begins with this mark. */
export const csvHead = `\ufeff${csvColumns.join(',')}\r\n`;

export function csvLine(row: ScanDetail): string {
  return `${columns.map(([, value]) => cell(value(row))).join(',')}\r\n`;
}

/** What spreadsheets read as the beginning of a formula; an apostrophe in front makes it text for them. */
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/;
const QUOTED = /[",\r\n']|^\s|\s$/;

function cell(value: string | number | null): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
