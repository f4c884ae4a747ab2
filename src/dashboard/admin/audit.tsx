// The audit log: the newest lines, older ones on demand, all of it as a file.
import { Button } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Awaited } from '../parts/awaited.tsx';
import { Blank } from '../parts/blank.tsx';
import { Columns } from '../parts/columns.tsx';
import { DownloadButton } from '../parts/download-button.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { PageTitle } from '../parts/title.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { texts as common } from '../texts.ts';
import { type AuditLine, auditQuery } from './api.ts';
import { texts } from './texts.ts';

const t = texts.audit;

export function AuditPage() {
  const log = useInfiniteQuery(auditQuery);
  const lines = log.data?.pages.flatMap((page) => page.lines) ?? [];
  return (
    <>
      <PageTitle title={texts.pages.audit} lead={t.lead}>
        <DownloadButton path="/web/admin/audit/export" name="sluice-audit.csv" label={common.common.export} />
      </PageTitle>
      <section className="panel" aria-label={texts.pages.audit}>
        <Awaited query={log} skeleton={<LinesSkeleton lines={8} height={30} />} />
        {log.isSuccess && lines.length === 0 && <Blank title={t.none} hint={t.noneHint} />}
        {lines.length > 0 && <Lines lines={lines} />}
        {log.hasNextPage && (
          <Button variant="default" loading={log.isFetchingNextPage} onClick={() => void log.fetchNextPage()}>
            {t.more}
          </Button>
        )}
      </section>
    </>
  );
}

function Lines({ lines }: { readonly lines: readonly AuditLine[] }) {
  return (
    <table className="table">
      <caption className="unseen">{texts.pages.audit}</caption>
      <thead>
        <tr>
          <Columns names={t.columns} />
        </tr>
      </thead>
      <tbody>
        {lines.map(({ id, at, actor, address, action, target, detail }) => (
          <tr key={id}>
            <td>
              <Time at={at} />
            </td>
            <td className="name" data-label={t.columns.actor}>
              {visibleName(actor)}
            </td>
            <td data-label={t.columns.address}>{address ?? t.machine}</td>
            <td className="code" data-label={t.columns.action}>
              {action}
            </td>
            <td className="name" data-label={t.columns.target}>
              {target === null ? '' : visibleName(target)}
            </td>
            <td className="name" data-label={t.columns.detail}>
              {visibleName(detailOf(detail))}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** `FREE → PRO` of a change, names and values of anything else. */
function detailOf(detail: AuditLine['detail']): string {
  const show = (value: unknown): string => (value === null ? '–' : String(value));
  if ('from' in detail && 'to' in detail) return `${show(detail['from'])} → ${show(detail['to'])}`;
  return Object.entries(detail)
    .map(([name, value]) => `${name} ${show(value)}`)
    .join(', ');
}
