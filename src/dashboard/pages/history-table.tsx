// The rows of the history; each leads to the page of its scan. On a phone each row is a card.
import { Link } from 'wouter';
import type { Scan } from '../api/shapes.ts';
import { number } from '../parts/format.ts';
import { AscendingIcon, DescendingIcon, LinkIcon } from '../parts/icons.ts';
import { sourceText } from '../parts/protocol.ts';
import { Time } from '../parts/time.tsx';
import { Finding, Verdict } from '../parts/verdict.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { texts } from '../texts.ts';
import { type ChangeSearch, type HistorySearch, type SortColumn, scanAddress, sortable } from './history-search.ts';

const t = texts.history;
const columns = ['filename', 'status', 'source', 'creationDate', 'scanDurationMillis'] as const;

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
          {columns.map((column) => {
            const sorted = sortable.find((one) => one === column);
            if (sorted !== undefined) return <Head key={column} column={sorted} search={search} change={change} />;
            return (
              <th key={column} scope="col">
                {t.columns[column]}
              </th>
            );
          })}
        </tr>
      </thead>
      <tbody>
        {scans.map((scan) => (
          <Row key={scan.id} scan={scan} search={search} />
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
        {isSorted && (sort.direction === 'asc' ? <AscendingIcon size={14} /> : <DescendingIcon size={14} />)}
      </button>
    </th>
  );
}

function Row({ scan, search }: { readonly scan: Scan; readonly search: HistorySearch }) {
  const name = scan.filename === '' ? t.noName : visibleName(scan.filename);
  const source = scan.key === null ? sourceText(scan.protocol) : visibleName(scan.key.name);
  return (
    <tr>
      <td>
        <Link
          href={scanAddress(scan.id, search)}
          className="history-open"
          title={scan.url === null ? name : visibleName(scan.url)}
        >
          {scan.url !== null && <LinkIcon size={14} aria-label={t.fromUrl} />}
          <span className="name cut">{name}</span>
        </Link>
      </td>
      <td>
        <span className="history-verdict">
          <Verdict scan={scan} />
          <Finding scan={scan} />
        </span>
      </td>
      <td>
        <span className="dimmed name cut history-source" title={source}>
          {source}
        </span>
      </td>
      <td className="history-time">
        <Time at={scan.creationDate} />
      </td>
      <td className="history-time history-number">{t.duration(number(scan.scanDurationMillis))}</td>
    </tr>
  );
}
