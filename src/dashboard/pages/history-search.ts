// What the history page shows, as the address bar has it: read with care, since anybody may have typed it.
import { outcomes } from '../parts/outcomes.tsx';
import { pageIn } from '../parts/page-number.ts';

export const verdicts = ['all', ...outcomes] as const;
export type VerdictFilter = (typeof verdicts)[number];
export const protocols = ['all', 'http', 'clamd', 'icap'] as const;
export type ProtocolFilter = (typeof protocols)[number];
export const sortable = ['filename', 'status', 'creationDate', 'scanDurationMillis'] as const;
export type SortColumn = (typeof sortable)[number];
/** What is looked for by a text; one at a time is what somebody types. */
export const textFilters = ['q', 'virus', 'sha256'] as const;
export type TextFilter = (typeof textFilters)[number];

export interface HistorySearch {
  readonly page: number;
  readonly sort: { readonly column: SortColumn; readonly direction: 'asc' | 'desc' };
  readonly verdict: VerdictFilter;
  readonly protocol: ProtocolFilter;
  /** A part of the name. */
  readonly q: string;
  readonly virus: string;
  readonly sha256: string;
  /** The uuid of a key. */
  readonly key: string;
  /** `YYYY-MM-DD`, or empty. */
  readonly from: string;
  readonly to: string;
}

/** What replaces parts of the search; a typed letter doesn't make an entry of the browser's own history. */
export type ChangeSearch = (change: Partial<HistorySearch>, options?: { readonly replace?: boolean }) => void;

export const PAGE_SIZE = 50;
export const noFilters = {
  verdict: 'all',
  protocol: 'all',
  q: '',
  virus: '',
  sha256: '',
  key: '',
  from: '',
  to: '',
} as const;
const TEXT_CHARACTERS = 255;
const DAY = /^(?!0000)\d{4}-\d\d-\d\d$/;
export const SHA256 = /^[0-9a-f]{64}$/i;
export const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

export function readSearch(query: URLSearchParams): HistorySearch {
  const [column, direction] = (query.get('sort') ?? '').split(',');
  const text = (name: string): string => (query.get(name) ?? '').slice(0, TEXT_CHARACTERS);
  return {
    page: pageIn(query),
    sort: {
      column: sortable.find((one) => one === column) ?? 'creationDate',
      direction: direction === 'asc' ? 'asc' : 'desc',
    },
    verdict: verdicts.find((one) => one === query.get('verdict')) ?? 'all',
    protocol: protocols.find((one) => one === query.get('protocol')) ?? 'all',
    q: text('q'),
    virus: text('virus'),
    sha256: matching(SHA256, text('sha256')),
    key: matching(UUID, text('key')),
    from: dayOf(query.get('from')),
    to: dayOf(query.get('to')),
  };
}

function matching(pattern: RegExp, text: string): string {
  return pattern.test(text) ? text : '';
}

/** Without days that no month has, which browsers take for the next month's. */
function dayOf(text: string | null): string {
  if (text === null || !DAY.test(text)) return '';
  const time = Date.parse(text);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text) ? text : '';
}

/** What is as it is by itself is left out. */
export function writeSearch({ page, sort, verdict, protocol, ...texts }: HistorySearch): URLSearchParams {
  const query = new URLSearchParams();
  if (page > 1) query.set('page', String(page));
  if (sort.column !== 'creationDate' || sort.direction !== 'desc')
    query.set('sort', `${sort.column},${sort.direction}`);
  if (verdict !== 'all') query.set('verdict', verdict);
  if (protocol !== 'all') query.set('protocol', protocol);
  for (const [name, value] of Object.entries(texts)) if (value !== '') query.set(name, value);
  return query;
}

/** The page of a scan, with the list that leads back: also in a tab of its own, and after a sign-in. */
export function scanAddress(id: string, search: HistorySearch): string {
  const query = writeSearch(search);
  return `/scans/${id}${query.size === 0 ? '' : `?${query}`}`;
}

/** The filters as the service knows them. */
export function filtersOf({ verdict, protocol, q, virus, sha256, key, from, to }: HistorySearch): URLSearchParams {
  const query = new URLSearchParams(verdict === 'all' ? {} : { outcome: verdict });
  if (protocol !== 'all') query.set('protocol', protocol);
  const parts = { q: typed(q), virusName: typed(virus), sha256, key, startDate: from, endDate: to };
  for (const [name, value] of Object.entries(parts)) if (value !== '') query.set(name, value);
  return query;
}

/** Control characters match nothing, and are refused. */
function typed(text: string): string {
  return text.replace(/\p{Cc}/gu, '');
}

export function pageQueryOf(search: HistorySearch): string {
  const query = filtersOf(search);
  query.set('page', String(search.page - 1));
  query.set('size', String(PAGE_SIZE));
  query.set('sort', `${search.sort.column},${search.sort.direction}`);
  return query.toString();
}

export function hasFilters(search: HistorySearch): boolean {
  return filtersOf(search).size > 0;
}

/** By what the service doesn't count beforehand. */
export function isCapped({ protocol, q, virus, sha256, key }: HistorySearch): boolean {
  return protocol !== 'all' || [q, virus, sha256, key].some((text) => text !== '');
}

export function isImpossible({ from, to }: HistorySearch): boolean {
  return from !== '' && to !== '' && from > to;
}
