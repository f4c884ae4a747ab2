// The rows of the history; each opens to all that is known of it. On a phone each row is a card.
import { Fragment } from 'react';
import type { Scan } from '../api/shapes.ts';
import { number } from '../parts/format.ts';
import { AscendingIcon, DescendingIcon, NextIcon, OpenIcon } from '../parts/icons.ts';
import { noticeText } from '../parts/notice.ts';
import { protocolText } from '../parts/protocol.ts';
import { Time } from '../parts/time.tsx';
import { Verdict } from '../parts/verdict.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { texts } from '../texts.ts';
import { HistoryDetail } from './history-detail.tsx';
import { type ChangeSearch, type HistorySearch, type SortColumn, sortable } from './history-search.ts';

const t = texts.history;

interface TableProps {
  readonly scans: readonly Scan[];
  readonly search: HistorySearch;
  readonly change: ChangeSearch;
}

export function HistoryTable({ scans, search, change }: TableProps) {
  return (
    <table className="history-table">
      <caption className="unseen">{t.title}</caption>
      <thead>
        <tr>
          {sortable.map((column) => (
            <Head key={column} column={column} search={search} change={change} />
          ))}
        </tr>
      </thead>
      <tbody>
        {scans.map((scan) => (
          <Row key={scan.id} scan={scan} isOpen={search.open === scan.id} change={change} />
        ))}
      </tbody>
    </table>
  );
}

interface HeadProps {
  readonly column: SortColumn;
  readonly search: HistorySearch;
  readonly change: ChangeSearch;
}

function Head({ column, search, change }: HeadProps) {
  const { sort } = search;
  const isSorted = sort.column === column;
  const other = sort.direction === 'asc' ? 'desc' : 'asc';
  const direction = isSorted ? other : column === 'filename' ? 'asc' : 'desc';
  const state = sort.direction === 'asc' ? 'ascending' : 'descending';
  return (
    <th scope="col" aria-sort={isSorted ? state : 'none'}>
      <button type="button" className="history-sort" onClick={() => change({ sort: { column, direction } })}>
        {t.columns[column]}
        {isSorted &&
          (sort.direction === 'asc' ? (
            <AscendingIcon size={14} aria-hidden="true" />
          ) : (
            <DescendingIcon size={14} aria-hidden="true" />
          ))}
      </button>
    </th>
  );
}

interface RowProps {
  readonly scan: Scan;
  readonly isOpen: boolean;
  readonly change: ChangeSearch;
}

function Row({ scan, isOpen, change }: RowProps) {
  const name = scan.filename === '' ? t.noName : visibleName(scan.filename);
  return (
    <Fragment>
      <tr data-open={isOpen}>
        <td>
          <button
            type="button"
            className="history-open"
            aria-expanded={isOpen}
            title={isOpen ? t.shut(name) : t.open(name)}
            onClick={() => change({ open: isOpen ? null : scan.id }, { replace: true })}
          >
            {isOpen ? <OpenIcon size={16} aria-hidden="true" /> : <NextIcon size={16} aria-hidden="true" />}
            <span className={isOpen ? 'name' : 'name history-name'}>{name}</span>
          </button>
        </td>
        <td>
          <span className="history-verdict">
            <Verdict scan={scan} />
            {scan.virusName !== null && (
              <span className="small name history-virus" title={scan.virusName}>
                {scan.virusName}
              </span>
            )}
            {scan.protocol !== 'http' && <span className="dimmed small">{protocolText(scan.protocol)}</span>}
            {scan.notices.length > 0 && (
              <span className="dimmed small" title={scan.notices.map(noticeText).join(' ')}>
                {scan.notices.join(', ')}
              </span>
            )}
          </span>
        </td>
        <td className="history-time">
          <Time at={scan.creationDate} />
        </td>
        <td className="history-time history-number">{t.duration(number(scan.scanDurationMillis))}</td>
      </tr>
      {isOpen && (
        <tr className="history-detail">
          <td colSpan={sortable.length}>
            <HistoryDetail id={scan.id} />
          </td>
        </tr>
      )}
    </Fragment>
  );
}
