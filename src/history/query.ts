// The parameters of the statistics routes: each validated, unknown ones refused, days as instants in UTC.
import { z } from 'zod';
import { queryBoolean, queryInteger, sentAs } from '../http/openapi.js';
import { DAY_MS, wireDay, wireTime } from '../wire-text.js';
import { outcomes } from './outcomes.js';
import { protocols } from './scan-row.js';

export const sortFields = [
  'creationDate',
  'lastUpdate',
  'filename',
  'scanDurationMillis',
  'infected',
  'virusName',
  'status',
] as const;
export type SortField = (typeof sortFields)[number];

const verdicts = ['clean', 'infected', 'none'] as const;

/** Rows that a search finds by what the roll-ups don't know: nothing counts them beforehand, so somebody must stop counting. */
export const SEARCH_ROWS = 10_000;
const USAGE_DAYS_MAX = 366;
const SIZE_MAX = 200;
/** Far beyond what anybody has rows for, and with a size a number that is exact. */
const PAGE_MAX = 999_999_999;
const TEXT_CHARACTERS = 255;
/** Both ends included. */
const DONUT_DAYS = 30;
/** Postgres has no year 0. */
const FIRST_DAY_MS = Date.parse('0001-01-01');

const sort = sentAs(
  z.string().transform((text, context): { readonly field: SortField; readonly direction: 'asc' | 'desc' } => {
    const [name, sent = 'asc', ...rest] = text.split(',');
    const direction = sent.toLowerCase();
    const field = sortFields.find((one) => one === name);
    if (field === undefined || rest.length > 0 || (direction !== 'asc' && direction !== 'desc')) {
      context.addIssue(`must be one of ${sortFields.join(', ')}, with ,asc or ,desc behind it if you like`);
      return z.NEVER;
    }
    return { field, direction };
  }),
  {
    type: 'string',
    pattern: `^(${sortFields.join('|')})(,([Aa][Ss][Cc]|[Dd][Ee][Ss][Cc]))?$`,
    default: 'creationDate,desc',
  },
).default({ field: 'creationDate', direction: 'desc' });

/** The first instant of the day. */
const day = sentAs(
  z.string().transform((text, context): number => {
    const ms = /^(?!0000)\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
    if (Number.isNaN(ms) || wireDay(ms) !== text) {
      context.addIssue('must be a day like 2026-01-31');
      return z.NEVER;
    }
    return ms;
  }),
  { type: 'string', format: 'date' },
).optional();

function days(about: string) {
  return { startDate: day.describe(`First UTC day. ${about}`), endDate: day.describe('Last UTC day, included.') };
}

interface Days {
  readonly startDate?: number | undefined;
  readonly endDate?: number | undefined;
}

const inOrder = ({ startDate, endDate }: Days): boolean =>
  startDate === undefined || endDate === undefined || startDate <= endDate;
const disorder = { path: ['startDate'], error: 'must not be after endDate' };

const MOMENT = /^(?!0000)\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\dZ?)?$/;

/** A UTC day, or a second of one: its first instant, or, as an end, the one behind its last. */
function moment(isEnd: boolean) {
  return sentAs(
    z.string().transform((text, context): number => {
      const isDay = !text.includes('T');
      const ms = MOMENT.test(text)
        ? Date.parse(isDay ? `${text}T00:00:00Z` : `${text.replace(/Z$/, '')}Z`)
        : Number.NaN;
      if (Number.isNaN(ms) || !text.startsWith(isDay ? wireDay(ms) : wireTime(ms))) {
        context.addIssue('must be a time like 2026-01-31T23:59:59, or a day');
        return z.NEVER;
      }
      return isEnd ? ms + (isDay ? DAY_MS : 1000) : ms;
    }),
    { type: 'string', pattern: '^\\d{4}-\\d\\d-\\d\\d(T\\d\\d:\\d\\d:\\d\\dZ?)?$' },
  ).optional();
}

/** Nothing counts these rows beforehand. */
const SEARCHED = `Finds at most ${SEARCH_ROWS.toLocaleString('en')} rows.`;

const text = z
  .string()
  .min(1, 'must not be empty')
  .max(TEXT_CHARACTERS, `must have at most ${TEXT_CHARACTERS} characters`)
  .regex(/^\P{Cc}*$/u, 'must not have control characters')
  .optional();

export const Sha256 = z
  .string()
  .regex(/^[0-9a-fA-F]{64}$/, 'must be 64 hex characters')
  .transform((hex) => hex.toLowerCase())
  .describe('SHA-256 of the content.');

const filters = {
  infected: queryBoolean().optional().describe('Scans with that verdict: failed ones have none.'),
  verdict: z
    .enum(verdicts, { error: `must be one of ${verdicts.join(', ')}` })
    .optional()
    .describe('`none`: scans that failed.'),
  status: z
    .string()
    .regex(/^[1-9]\d\d$/, 'must be a status code like 200')
    .transform(Number)
    .optional()
    .describe('The field of that name.'),
  outcome: z
    .enum(outcomes, { error: `must be one of ${outcomes.join(', ')}` })
    .optional()
    .describe(
      'As `/web/scans/stats/daily` counts them: `noVerdict` 422, `refused` other 4xx, `left` 499, `failed` 5xx.',
    ),
  q: text.describe(`A part of the filename, in upper or lower case. ${SEARCHED}`),
  sha256: Sha256.optional().describe(`SHA-256 of the content. ${SEARCHED}`),
  virusName: text.describe(`The field of that name, as it is. ${SEARCHED}`),
  key: z
    .guid('must be the uuid of a key')
    .transform((id) => id.toLowerCase())
    .optional()
    .describe(`The uuid of the key that was used, also of one that has ended. ${SEARCHED}`),
  protocol: z
    .enum(protocols, { error: `must be one of ${protocols.join(', ')}` })
    .optional()
    .describe(`By what it has come. ${SEARCHED}`),
  ...days('Of the creation date.'),
};

export const pageQuery = z
  .strictObject({
    page: queryInteger(0, PAGE_MAX, 0).describe('From 0.'),
    size: queryInteger(1, SIZE_MAX, 20).describe('Rows of a page.'),
    sort: sort.describe(
      'field[,asc|desc], the direction in any case; asc when left out. Ties are in the order of the ids, in the same direction.',
    ),
    ...filters,
  })
  .refine(inOrder, disorder);

export const exportQuery = z.strictObject(filters).refine(inOrder, disorder);

export const donutQuery = z.strictObject(
  days('Default: the 30 days that end with endDate, which is today by default.'),
);

/** The range of a donut: what is left out is today, and the 30 days that end with the last one. Null: it ends before it starts. */
export function donutRange({ startDate, endDate }: Days, nowMs: number): { startMs: number; endMs: number } | null {
  const endMs = endDate ?? Math.floor(nowMs / DAY_MS) * DAY_MS;
  const startMs = startDate ?? Math.max(FIRST_DAY_MS, endMs - (DONUT_DAYS - 1) * DAY_MS);
  return startMs <= endMs ? { startMs, endMs } : null;
}

/** Of the public API: the newest first, from a cursor on. */
export const listQuery = z
  .strictObject({
    sha256: filters.sha256,
    verdict: filters.verdict,
    protocol: filters.protocol,
    from: moment(false).describe('The first UTC time or day, of the creation date.'),
    to: moment(true).describe('The last one, included.'),
    limit: queryInteger(1, SIZE_MAX, 50).describe('Scans of a page.'),
    cursor: z
      .uuid({ version: 'v7', error: 'must be the next of a page before' })
      .transform((id) => id.toLowerCase())
      .optional()
      .describe('The `next` of the page before. Rows that have come since then are not on the pages behind it.'),
  })
  .refine(({ from, to }) => from === undefined || to === undefined || from < to, {
    path: ['from'],
    error: 'must not be after to',
  });

export const waitQuery = z.strictObject({
  wait: queryInteger(0, 60, 0).describe(
    'Seconds to wait for the end of a scan that was accepted with 202. Over it is answered as it is then.',
  ),
});

export const keyUsageQuery = z.strictObject({
  days: queryInteger(1, USAGE_DAYS_MAX, 30).describe('So many, with today as the last one.'),
});
