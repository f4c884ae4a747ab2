// How many rows were found, and the way through their pages.
import { Button } from '@mantine/core';
import type { ScanPage } from '../api/shapes.ts';
import { number } from '../parts/format.ts';
import { NextIcon, PreviousIcon } from '../parts/icons.ts';
import { texts } from '../texts.ts';
import type { ChangeSearch } from './history-search.ts';

const t = texts.history;
/** The service stops counting there when names are searched. */
const SEARCH_ROWS = 10_000;

interface PagesProps {
  readonly page: ScanPage;
  readonly isSearch: boolean;
  readonly change: ChangeSearch;
}

export function totalText({ totalElements }: ScanPage, isSearch: boolean): string {
  const total = number(totalElements);
  return isSearch && totalElements >= SEARCH_ROWS ? t.totalCapped(total) : t.total(totalElements, total);
}

export function HistoryPages({ page: found, isSearch, change }: PagesProps) {
  const { page, totalPages } = found;
  return (
    <nav className="row row-apart history-pages" aria-label={t.pages}>
      <span className="dimmed small">{totalText(found, isSearch)}</span>
      <span className="row">
        <Button
          variant="default"
          size="compact-sm"
          disabled={page === 0}
          aria-label={texts.common.previousPage}
          onClick={() => change({ page })}
          leftSection={<PreviousIcon size={14} />}
        >
          {t.previous}
        </Button>
        <span className="small">{t.page(number(page + 1), number(totalPages))}</span>
        <Button
          variant="default"
          size="compact-sm"
          disabled={page + 1 >= totalPages}
          aria-label={texts.common.nextPage}
          onClick={() => change({ page: page + 2 })}
          rightSection={<NextIcon size={14} />}
        >
          {t.next}
        </Button>
      </span>
    </nav>
  );
}
