// The environment variables as the help of a command shows them.
import { environment } from '../config/variables.js';

const WIDTH = 100;
const INDENT = '      ';

/** The table as text; `environmentHelp(['SCAN_THREADS'])` only shows that variable. */
export function environmentHelp(names: readonly string[] = environment.map(({ name }) => name)): string {
  const shown = environment.filter(({ name }) => names.includes(name));
  const rows = shown.map((row) => `  ${row.name}${row.default === null ? '' : `=${row.default}`}\n${wrap(row.about)}`);
  return ['Environment variables, with their defaults:', ...rows].join('\n');
}

function wrap(text: string): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && INDENT.length + line.length + 1 + word.length > WIDTH) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  return [...lines, line].map((each) => INDENT + each).join('\n');
}
