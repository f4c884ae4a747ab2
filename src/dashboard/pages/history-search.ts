// What the history page shows, as the address bar has it: read with care, since anybody may have typed it.

export const verdicts = ['all', 'infected', 'clean', 'incomplete', 'refused', 'left', 'unavailable'] as const;
export type VerdictFilter = (typeof verdicts)[number];
export const protocols = ['all', 'http', 'clamd', 'icap'] as const;
export type ProtocolFilter = (typeof protocols)[number];
export const sortable = ['filename', 'status', 'creationDate', 'scanDurationMillis'] as const;
export type SortColumn = (typeof sortable)[number];

export interface HistorySearch {
  readonly page: number;
  readonly sort: { readonly column: SortColumn; readonly direction: 'asc' | 'desc' };
  readonly verdict: VerdictFilter;
  readonly protocol: ProtocolFilter;
  readonly q: string;
  /** `YYYY-MM-DD`, or empty. */
  readonly from: string;
  readonly to: string;
  /** The scan whose details are shown. */
  readonly open: string | null;
}

/** What replaces parts of the search; a typed letter doesn't make an entry of the browser's own history. */
export type ChangeSearch = (change: Partial<HistorySearch>, options?: { readonly replace?: boolean }) => void;

export const PAGE_SIZE = 50;
const PREFIX_CHARACTERS = 255;
const DAY = /^(?!0000)\d{4}-\d\d-\d\d$/;

const filterOf: Readonly<Record<VerdictFilter, Readonly<Record<string, string>>>> = {
  all: {},
  infected: { verdict: 'infected' },
  clean: { verdict: 'clean' },
  incomplete: { status: '422' },
  refused: { status: '400' },
  left: { status: '499' },
  unavailable: { status: '503' },
};

export function readSearch(query: URLSearchParams): HistorySearch {
  const [column, direction] = (query.get('sort') ?? '').split(',');
  const page = Number(query.get('page') ?? 1);
  return {
    page: Number.isInteger(page) && page >= 1 && page < 1e6 ? page : 1,
    sort: {
      column: sortable.find((one) => one === column) ?? 'creationDate',
      direction: direction === 'asc' ? 'asc' : 'desc',
    },
    verdict: verdicts.find((one) => one === query.get('verdict')) ?? 'all',
    protocol: protocols.find((one) => one === query.get('protocol')) ?? 'all',
    q: (query.get('q') ?? '').slice(0, PREFIX_CHARACTERS),
    from: dayOf(query.get('from')),
    to: dayOf(query.get('to')),
    open: query.get('open'),
  };
}

function dayOf(text: string | null): string {
  return text !== null && DAY.test(text) && !Number.isNaN(Date.parse(text)) ? text : '';
}

/** What is as it is by itself is left out. */
export function writeSearch({ page, sort, verdict, protocol, q, from, to, open }: HistorySearch): URLSearchParams {
  const query = new URLSearchParams();
  if (page > 1) query.set('page', String(page));
  if (sort.column !== 'creationDate' || sort.direction !== 'desc')
    query.set('sort', `${sort.column},${sort.direction}`);
  if (verdict !== 'all') query.set('verdict', verdict);
  if (protocol !== 'all') query.set('protocol', protocol);
  for (const [name, value] of Object.entries({ q, from, to })) if (value !== '') query.set(name, value);
  if (open !== null) query.set('open', open);
  return query;
}

/** The filters as the service knows them. */
export function filtersOf({ verdict, protocol, q, from, to }: HistorySearch): URLSearchParams {
  const query = new URLSearchParams(filterOf[verdict]);
  if (protocol !== 'all') query.set('protocol', protocol);
  // Control characters match no name, and are refused.
  const prefix = q.replace(/\p{Cc}/gu, '');
  for (const [name, value] of Object.entries({ q: prefix, startDate: from, endDate: to })) {
    if (value !== '') query.set(name, value);
  }
  return query;
}

export function pageQueryOf(search: HistorySearch): string {
  const query = filtersOf(search);
  query.set('page', String(search.page - 1));
  query.set('size', String(PAGE_SIZE));
  query.set('sort', `${search.sort.column},${search.sort.direction}`);
  return query.toString();
}

export function hasFilters({ verdict, protocol, q, from, to }: HistorySearch): boolean {
  return verdict !== 'all' || protocol !== 'all' || [q, from, to].some((text) => text !== '');
}

export function isImpossible({ from, to }: HistorySearch): boolean {
  return from !== '' && to !== '' && from > to;
}
