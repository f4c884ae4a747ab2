// What is asked of the filled history, as a table: each question is one call of what the routes call.
import { countMonths, countVerdicts } from '../../src/history/outcomes.js';
import { sortFields } from '../../src/history/query.js';
import { findScans, type PageRequest } from '../../src/history/stats.js';
import type { Sql } from '../../src/store/postgres.js';
import { USER } from './fill.js';

export interface Question {
  readonly name: string;
  ask(sql: Sql): Promise<unknown>;
}

const DAY_MS = 86_400_000;
const SIZE = 20;
const first: PageRequest = { page: 0, size: SIZE, sort: { field: 'creationDate', direction: 'desc' } };

export function questions(rows: number, nowMs: number): Question[] {
  const today = Math.floor(nowMs / DAY_MS) * DAY_MS;
  const page = (name: string, differences: Partial<PageRequest>): Question => ({
    name,
    ask: (sql) => findScans(sql, USER, { ...first, ...differences }),
  });
  const sorts = sortFields.flatMap((field) =>
    (['asc', 'desc'] as const).map((direction) => ({ field, direction, name: `${field},${direction}` })),
  );
  const byName: PageRequest['sort'] = { field: 'filename', direction: 'asc' };
  const byDuration: PageRequest['sort'] = { field: 'scanDurationMillis', direction: 'desc' };
  const range = { startDate: today - 29 * DAY_MS, endDate: today };
  return [
    page('first page', {}),
    { name: 'donuts, 30 days', ask: (sql) => countVerdicts(sql, USER, range.startDate, range.endDate) },
    { name: 'donuts, 365 days', ask: (sql) => countVerdicts(sql, USER, today - 365 * DAY_MS, today) },
    { name: 'monthly', ask: (sql) => countMonths(sql, USER, today - 335 * DAY_MS) },
    page('page 500', { page: Math.min(499, rows / SIZE - 1) }),
    page('middle page', { page: Math.floor(rows / SIZE / 2) }),
    ...sorts.map(({ name, ...sort }) => page(`first page by ${name}`, { sort })),
    ...sorts.map(({ name, ...sort }) => page(`page 500 by ${name}`, { sort, page: Math.min(499, rows / SIZE - 1) })),
    ...sorts.map(({ name, ...sort }) => page(`middle page by ${name}`, { sort, page: Math.floor(rows / SIZE / 2) })),
    page('infected=true', { infected: true }),
    page('infected=false', { infected: false }),
    page('infected=false by virusName', { infected: false, sort: { field: 'virusName', direction: 'desc' } }),
    page('verdict=none by status', { verdict: 'none', sort: { field: 'status', direction: 'asc' } }),
    page('one virusName', { virusName: 'Virus.Number.7' }),
    page('one sha256', { sha256: 'ab'.repeat(32) }),
    page('status=422', { status: 422 }),
    page('infected=false&status=400', { infected: false, status: 400 }),
    page('30 days', range),
    page('infected=true, 30 days', { infected: true, ...range }),
    page('infected=true by filename', { infected: true, sort: byName }),
    page('status=422 by duration', { status: 422, sort: byDuration }),
    page('30 days by filename', { ...range, sort: byName }),
    page('q finds few', { q: 'invoice-12345' }),
    page('q finds a quarter', { q: 'report' }),
    page('q finds a quarter, by duration', { q: 'report', sort: byDuration }),
    page('q finds a quarter, infected=true', { q: 'report', infected: true }),
    page('q finds none', { q: 'nothing' }),
  ];
}
