// The overview: what was found lately, what is used of the hour, and with what is being looked. An account that has done nothing yet sees what to do first.
import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { daysQuery, LATEST, latestQuery, quotaQuery, versionQuery } from '../api/queries.ts';
import { Awaited } from '../parts/awaited.tsx';
import { Blank } from '../parts/blank.tsx';
import { ScanIcon } from '../parts/icons.ts';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { PageTitle } from '../parts/title.tsx';
import { Finding, Verdict } from '../parts/verdict.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { texts } from '../texts.ts';
import { Use } from './overview-days.tsx';
import { EnginePanel } from './overview-engine.tsx';
import { FirstSteps } from './overview-first-steps.tsx';
import { Hours } from './overview-hours.tsx';
import { QuotaPanel } from './overview-quota.tsx';
import { Tiles } from './overview-tiles.tsx';
import { Verdicts } from './overview-verdicts.tsx';
import './overview.css';

const t = texts.overview;

export function Overview() {
  const days = useQuery(daysQuery);
  const latest = useQuery(latestQuery);
  // What both pages show is held here: where one gives way to the other, it isn't asked for again.
  useQuery(quotaQuery);
  useQuery(versionQuery);
  const isNew = latest.data?.totalElements === 0 && days.data !== undefined;
  return (
    <>
      <PageTitle title={t.title}>
        <Button component={Link} href="/scan" leftSection={<ScanIcon />}>
          {t.scanNow}
        </Button>
      </PageTitle>
      {isNew ? <New /> : <Used />}
    </>
  );
}

function New() {
  return (
    <div className="overview">
      <section className="panel overview-wide overview-steps">
        <h2 className="panel-title">{t.firstSteps}</h2>
        <FirstSteps />
      </section>
      <div className="stack">
        <Quota />
        <Engine />
      </div>
    </div>
  );
}

function Used() {
  return (
    <>
      <Tiles />
      <div className="overview">
        <section className="panel overview-wide">
          <Use />
        </section>
        <section className="panel">
          <Verdicts />
        </section>
        <section className="panel overview-whole">
          <div className="row row-apart">
            <h2 className="panel-title">{t.latest}</h2>
            <Button component={Link} href="/history" variant="subtle" size="compact-sm">
              {t.latestAll}
            </Button>
          </div>
          <Latest />
        </section>
        <Quota>
          <Hours />
        </Quota>
        <Engine />
      </div>
    </>
  );
}

function Quota({ children }: { readonly children?: ReactNode }) {
  return (
    <section className="panel overview-wide">
      <h2 className="panel-title">{t.quota}</h2>
      <QuotaPanel />
      {children}
    </section>
  );
}

function Engine() {
  return (
    <section className="panel">
      <h2 className="panel-title">{t.engine}</h2>
      <EnginePanel />
    </section>
  );
}

function Latest() {
  const latest = useQuery(latestQuery);
  if (latest.isPending || latest.isError) return <Awaited query={latest} skeleton={<LinesSkeleton lines={LATEST} />} />;
  if (latest.data.content.length === 0) return <Blank title={t.latestNone} hint={t.latestNoneHint} />;
  return (
    <ul className="latest">
      {latest.data.content.map((scan) => (
        <li key={scan.id}>
          <Verdict scan={scan} />
          <Link href={`/scans/${scan.id}`} className="name cut latest-name">
            {scan.filename === '' ? texts.history.noName : visibleName(scan.filename)}
          </Link>
          <span className="latest-finding">
            <Finding scan={scan} />
          </span>
          <span className="dimmed small">
            <Time at={scan.creationDate} />
          </span>
        </li>
      ))}
    </ul>
  );
}
