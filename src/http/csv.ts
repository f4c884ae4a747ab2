// Cells and lines of CSV (RFC 4180); none is a formula for a spreadsheet, whatever a client has called something.

/** Spreadsheets take a text for UTF-8 only when it begins with this mark. */
const MARK = '\ufeff';

/** What spreadsheets read as the beginning of a formula; an apostrophe in front makes it text for them. */
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/;
const QUOTED = /[",\r\n']|^\s|\s$/;

export function csvHead(names: readonly string[]): string {
  return `${MARK}${names.join(',')}\r\n`;
}

export function csvLine(values: readonly (string | number | null)[]): string {
  return `${values.map(cell).join(',')}\r\n`;
}

function cell(value: string | number | null): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
