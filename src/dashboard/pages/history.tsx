// The history: every scan of the account, sorted, filtered and cut into pages by the service; the address bar holds what is shown.
import { Button } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { Redirect } from 'wouter';
import { scansQuery } from '../api/queries.ts';
import { Awaited } from '../parts/awaited.tsx';
import { Blank } from '../parts/blank.tsx';
import { DownloadButton } from '../parts/download-button.tsx';
import { useSearchParams } from '../parts/search-params.ts';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { PageTitle } from '../parts/title.tsx';
import { texts } from '../texts.ts';
import { HistoryFilters } from './history-filters.tsx';
import { HistoryPages, totalText } from './history-pages.tsx';
import {
  type ChangeSearch,
  filtersOf,
  type HistorySearch,
  hasFilters,
  isCapped,
  isImpossible,
  noFilters,
  PAGE_SIZE,
  pageQueryOf,
  readSearch,
  writeSearch,
} from './history-search.ts';
import { HistoryTable } from './history-table.tsx';
import './history.css';

const t = texts.history;

export function History() {
  const [query, setQuery] = useSearchParams();
  const search = readSearch(query);
  const change: ChangeSearch = (part, { replace = false } = {}) => {
    setQuery(writeSearch({ ...search, page: 1, ...part }), { replace });
  };
  const found = useFoundOnPaging(search.page);
  return (
    <>
      <PageTitle title={t.title}>
        <DownloadButton
          path={`/web/scans/stats/export?${filtersOf(search)}`}
          name="sluice-scans.csv"
          label={texts.common.export}
          disabled={isImpossible(search)}
        />
      </PageTitle>
      <div className="stack">
        <section className="panel" aria-label={t.filters}>
          <HistoryFilters search={search} change={change} />
        </section>
        <section className="panel history-found" aria-label={t.found} tabIndex={-1} ref={found}>
          <Announced search={search} />
          <Found search={search} change={change} />
        </section>
      </div>
    </>
  );
}

/** Another page begins at its top, where the focus is as well: its button may have no page left to go to. */
function useFoundOnPaging(page: number) {
  const found = useRef<HTMLElement>(null);
  const shown = useRef(page);
  useEffect(() => {
    if (shown.current === page) return;
    shown.current = page;
    found.current?.focus({ preventScroll: true });
    found.current?.scrollIntoView();
  }, [page]);
  return found;
}

function useFound(search: HistorySearch) {
  return useQuery({
    ...scansQuery(pageQueryOf(search)),
    enabled: !isImpossible(search),
    placeholderData: keepPreviousData,
  });
}

/** How much was found, for who listens to the page. */
function Announced({ search }: { readonly search: HistorySearch }) {
  const { data, isPlaceholderData } = useFound(search);
  const isKnown = data !== undefined && !isPlaceholderData && !isImpossible(search);
  return (
    <p role="status" className="unseen">
      {isKnown &&
        (data.totalElements > 0 ? totalText(data, isCapped(search)) : hasFilters(search) ? t.noneFound : t.none)}
    </p>
  );
}

interface FoundProps {
  readonly search: HistorySearch;
  readonly change: ChangeSearch;
}

function Found({ search, change }: FoundProps) {
  const scans = useFound(search);
  if (isImpossible(search)) return <Blank title={t.noneFound} hint={t.badDays} />;
  if (scans.isPending || scans.isError)
    return <Awaited query={scans} skeleton={<LinesSkeleton lines={PAGE_SIZE / 2} height={30} />} />;
  const { totalElements, totalPages, page } = scans.data;
  if (totalElements === 0) return <Nothing search={search} change={change} />;
  if (page >= totalPages) return <Redirect to={`/history?${writeSearch({ ...search, page: totalPages })}`} replace />;
  return (
    <div aria-busy={scans.isPlaceholderData} className={scans.isPlaceholderData ? 'history-old' : undefined}>
      <HistoryTable scans={scans.data.content} search={search} change={change} />
      <HistoryPages page={scans.data} isSearch={isCapped(search)} change={change} />
      <p className="dimmed small history-note">{t.exportNote}</p>
    </div>
  );
}

function Nothing({ search, change }: FoundProps) {
  if (!hasFilters(search)) return <Blank title={t.none} hint={t.noneHint} />;
  return (
    <Blank title={t.noneFound} hint={t.noneFoundHint}>
      <Button variant="default" onClick={() => change(noFilters)}>
        {t.reset}
      </Button>
    </Blank>
  );
}
