// The table of docs/limits.md, made of src/limits.ts and of the variables that set a bound. `node dist/test/docs/limits-table.js` prints it.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { LIVE_KEYS_MAX } from '../../src/account/keys.js';
import { environment } from '../../src/config/variables.js';
import * as limits from '../../src/limits.js';
import { ENDPOINTS_MAX } from '../../src/webhooks/endpoints.js';

const COMMENT = /(?:\/\*\*\s*((?:(?!\*\/)[\s\S])*?)\s*\*\/\n)?export const ([A-Z0-9_]+)/g;
/** Variables whose names say that they are a bound. */
const BOUND = /_(?:MB|MAX|MS|SECONDS|DAYS|TIMEOUT|LIMIT|FILES|THREADS|PER_USER)$|^(?:CONNECTIONS|PLANS|SCAN_THREADS)$/;
const SOURCE = new URL('../../../src/limits.ts', import.meta.url);

function textOf(comment: string): string {
  const lines = comment.split('\n').map((line) => line.replace(/^\s*\*\s?/, ''));
  return lines.join(' ').replaceAll('|', '\\|').trim();
}

/** One without a comment of its own is explained by the one before. */
export function fixedRows(): readonly string[] {
  const values = new Map<string, unknown>(Object.entries(limits));
  let text = '';
  return [...readFileSync(SOURCE, 'utf8').matchAll(COMMENT)].map(([, comment, name = '']) => {
    text = comment === undefined ? text : textOf(comment);
    return `| \`${name}\` | ${Number(values.get(name)).toLocaleString('en')} | ${text} |`;
  });
}

export function variableRows(): readonly string[] {
  return environment
    .filter(({ name }) => BOUND.test(name))
    .map(({ name, default: value, about }) => `| \`${name}\` | ${value === null ? '' : `\`${value}\``} | ${about} |`);
}

export function accountRows(): readonly string[] {
  return [
    `| \`LIVE_KEYS_MAX\` | ${LIVE_KEYS_MAX} | live API keys of one account |`,
    `| \`ENDPOINTS_MAX\` | ${ENDPOINTS_MAX} | webhooks of one account |`,
  ];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const head = ['| limit | value | what it is |', '|---|---|---|'];
  process.stdout.write(
    [
      '# Which limits are there?',
      '',
      'What is beyond one is refused with an answer that says so: [errors](errors.md). How often somebody may sign in, register, or make and delete keys is said with each route in `/docs/reference`.',
      '',
      '## What can an operator set?',
      '',
      'These are variables; an empty value is what their text says. All variables are in [operations](operations.md#which-variables-are-there).',
      '',
      ...head,
      ...variableRows(),
      '',
      '## What may one account have?',
      '',
      'Its plan says how many scans an hour: `PLANS` above, [quotas](quotas.md).',
      '',
      ...head,
      ...accountRows(),
      '',
      '## What is fixed?',
      '',
      'The end of a name is the unit of its value: `_BYTES`, `_MS` (milliseconds), `_SECONDS`. They are in `src/limits.ts`.',
      '',
      ...head,
      ...fixedRows(),
      '',
    ].join('\n'),
  );
}
