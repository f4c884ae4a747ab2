// The tables of docs/limits.md, made of src/limits.ts and of the rules of src/account/throttle.ts. `node dist/test/docs/limits-table.js` prints it.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { LIVE_KEYS_MAX } from '../../src/account/keys.js';
import { RECOVERY_CODES } from '../../src/account/protection.js';
import { RESET_MINUTES, RESETS_MAX } from '../../src/account/resets.js';
import { REFRESH_TOKEN_MS, SESSION_MAX_MS, SESSIONS_MAX } from '../../src/account/sessions.js';
import { rules } from '../../src/account/throttle.js';
import { ACCESS_TOKEN_SECONDS } from '../../src/account/tokens.js';
import { PASSWORD_MAX_CHARACTERS, PASSWORD_MIN_CHARACTERS } from '../../src/account/users.js';
import * as limits from '../../src/limits.js';
import { ENDPOINTS_MAX } from '../../src/webhooks/deliveries.js';

const COMMENT = /(?:\/\*\*\s*((?:(?!\*\/)[\s\S])*?)\s*\*\/\n)?export const ([A-Z0-9_]+)/g;
const RULE = /\/\*\* (.*) \*\/\n {2}(\w+): \{ name: /g;
const SOURCE = new URL('../../../src/limits.ts', import.meta.url);
const THROTTLE = new URL('../../../src/account/throttle.ts', import.meta.url);

const Rule = z.object({ burst: z.int(), everyMs: z.int() });

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

export function accountRows(): readonly string[] {
  return [
    `| \`LIVE_KEYS_MAX\` | ${LIVE_KEYS_MAX} | live API keys of one account |`,
    `| \`ENDPOINTS_MAX\` | ${ENDPOINTS_MAX} | webhooks of one account |`,
  ];
}

export function signInRows(): readonly string[] {
  const rows: readonly (readonly [string, number, string])[] = [
    [
      'PASSWORD_MIN_CHARACTERS',
      PASSWORD_MIN_CHARACTERS,
      'characters that a password has at least, as Unicode composes them (NFC)',
    ],
    ['PASSWORD_MAX_CHARACTERS', PASSWORD_MAX_CHARACTERS, 'and at most'],
    ['ACCESS_TOKEN_SECONDS', ACCESS_TOKEN_SECONDS, 'that an access token is good for; its session may end before'],
    ['REFRESH_TOKEN_MS', REFRESH_TOKEN_MS, 'that a refresh token is good for, once: 30 days'],
    ['SESSION_MAX_MS', SESSION_MAX_MS, 'that a session lives, however often it is refreshed: 90 days'],
    ['SESSIONS_MAX', SESSIONS_MAX, 'sessions of one account; the one that was used longest ago makes room'],
    ['RESET_MINUTES', RESET_MINUTES, 'that a link to another password is good for, once'],
    ['RESETS_MAX', RESETS_MAX, 'such links of one account; the oldest one makes room'],
    ['RECOVERY_CODES', RECOVERY_CODES, 'recovery codes beside a second factor, each good once'],
  ];
  return rows.map(([name, value, text]) => `| \`${name}\` | ${value.toLocaleString('en')} | ${text} |`);
}

/** How often somebody may try: so many at once, then one more each so often. */
export function throttleRows(): readonly string[] {
  const values = new Map<string, unknown>(Object.entries(rules));
  return [...readFileSync(THROTTLE, 'utf8').matchAll(RULE)].map(([, text = '', name = '']) => {
    const { burst, everyMs } = Rule.parse(values.get(name));
    return `| \`${name}\` | ${burst} | ${everyMs / 1000} s | ${text.replaceAll('|', '\\|')} |`;
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const head = ['| limit | value | what it is |', '|---|---|---|'];
  process.stdout.write(
    [
      '# Which limits are there?',
      '',
      'What is beyond one is refused with an answer that says so: [errors](errors.md).',
      '',
      'Those that an operator sets are [variables](operations.md#which-variables-are-there).',
      '',
      '## What may one account have?',
      '',
      'Its plan says how many scans an hour: [quotas](quotas.md).',
      '',
      ...head,
      ...accountRows(),
      '',
      '## How long are passwords, and how long does a sign-in last?',
      '',
      ...head,
      ...signInRows(),
      '',
      '## How often may somebody try?',
      '',
      'So many at once, then one more each so often; beyond that it is a 429 with `Retry-After`. What counts when is in [the API](api.md#how-many-attempts-are-there).',
      '',
      '| rule | at once | then one each | of what |',
      '|---|---|---|---|',
      ...throttleRows(),
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
