// All that is known of one scan.
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Problem } from '../api/problem.ts';
import { scanQuery } from '../api/queries.ts';
import { CopyButton } from '../parts/copy-button.tsx';
import { number, size } from '../parts/format.ts';
import { noticeText } from '../parts/notice.ts';
import { ProblemBox } from '../parts/problem.tsx';
import { protocolText } from '../parts/protocol.ts';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { texts } from '../texts.ts';

const t = texts.history.detail;

export function HistoryDetail({ id }: { readonly id: string }) {
  const scan = useQuery(scanQuery(id));
  if (scan.isPending) return <LinesSkeleton lines={4} />;
  if (scan.isError) {
    if (scan.error instanceof Problem && scan.error.status === 404) return <p>{t.gone}</p>;
    return <ProblemBox error={scan.error} onRetry={() => void scan.refetch()} />;
  }
  const { data } = scan;
  const facts: readonly (readonly [string, ReactNode])[] = [
    [t.error, data.error],
    [t.virus, data.virusName],
    [t.notices, data.notices.length === 0 ? null : data.notices.map(noticeText).join(' ')],
    [
      t.id,
      <span key="id" className="code">
        {data.id}
      </span>,
    ],
    [t.sha256, data.sha256 === null ? null : <Digest key="sha256" sha256={data.sha256} />],
    [t.size, data.sizeInBytes === null ? null : `${size(data.sizeInBytes)} (${number(data.sizeInBytes)} B)`],
    [t.engine, data.engine],
    [t.started, <Time key="started" at={data.creationDate} />],
    [t.decided, <Time key="decided" at={data.lastUpdate} />],
    [t.duration, texts.history.duration(number(data.scanDurationMillis))],
    [t.status, data.status],
    [t.protocol, protocolText(data.protocol)],
    [t.metadata, data.metadata],
    [t.env, data.env],
  ];
  return (
    <dl className="facts">
      {facts
        .filter(([, value]) => value !== null)
        .map(([label, value]) => (
          <Fact key={label} label={label} value={value} />
        ))}
    </dl>
  );
}

function Fact({ label, value }: { readonly label: string; readonly value: ReactNode }) {
  return (
    <>
      <dt>{label}</dt>
      <dd className="name">{value}</dd>
    </>
  );
}

function Digest({ sha256 }: { readonly sha256: string }) {
  return (
    <span className="row">
      <span className="code">{sha256}</span>
      <CopyButton text={sha256} />
    </span>
  );
}
