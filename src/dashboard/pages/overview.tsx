// The overview: what was found lately, what is left of the hour, and with what is being looked.
import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense } from 'react';
import { Link } from 'wouter';
import { scansQuery } from '../api/queries.ts';
import { Blank } from '../parts/blank.tsx';
import { ProblemBox } from '../parts/problem.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { PageTitle } from '../parts/title.tsx';
import { Verdict } from '../parts/verdict.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { texts } from '../texts.ts';
import { EnginePanel } from './overview-engine.tsx';
import { QuotaPanel } from './overview-quota.tsx';
import './overview.css';

const t = texts.overview;

const charts = () => import('./overview-charts.ts');
const Verdicts = lazy(async () => ({ default: (await charts()).Verdicts }));
const Months = lazy(async () => ({ default: (await charts()).Months }));

export function Overview() {
  return (
    <>
      <PageTitle title={t.title}>
        <Button component={Link} href="/scan">
          {t.scanNow}
        </Button>
      </PageTitle>
      <div className="overview">
        <section className="panel overview-verdicts">
          <Suspense fallback={<LinesSkeleton lines={7} height={28} />}>
            <Verdicts />
          </Suspense>
        </section>
        <section className="panel overview-months">
          <h2 className="panel-title">{t.months}</h2>
          <Suspense fallback={<LinesSkeleton lines={7} height={28} />}>
            <Months />
          </Suspense>
        </section>
        <section className="panel overview-quota">
          <h2 className="panel-title">{t.quota}</h2>
          <QuotaPanel />
        </section>
        <section className="panel overview-engine">
          <h2 className="panel-title">{t.engine}</h2>
          <EnginePanel />
        </section>
        <section className="panel overview-latest">
          <div className="row row-apart">
            <h2 className="panel-title">{t.latest}</h2>
            <Button component={Link} href="/history" variant="subtle" size="compact-sm">
              {t.latestAll}
            </Button>
          </div>
          <Latest />
        </section>
      </div>
    </>
  );
}

const LATEST = 6;

function Latest() {
  const latest = useQuery(scansQuery(`size=${LATEST}`));
  if (latest.isPending) return <LinesSkeleton lines={LATEST} />;
  if (latest.isError) return <ProblemBox error={latest.error} onRetry={() => void latest.refetch()} />;
  if (latest.data.content.length === 0) return <Blank title={t.latestNone} hint={t.latestNoneHint} />;
  return (
    <ul className="latest">
      {latest.data.content.map((scan) => (
        <li key={scan.id}>
          <Verdict scan={scan} />
          <Link href={`/history?open=${scan.id}`} className="name latest-name">
            {scan.filename === '' ? texts.history.noName : visibleName(scan.filename)}
          </Link>
          <span className="dimmed small">
            <Time at={scan.creationDate} />
          </span>
        </li>
      ))}
    </ul>
  );
}
