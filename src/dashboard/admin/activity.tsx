// What scans of all nodes have come to: by day, those without a verdict by reason with examples, refusals, and the slowest ones.
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Awaited } from '../parts/awaited.tsx';
import { number, size } from '../parts/format.ts';
import { OutcomeDays } from '../parts/outcomes.tsx';
import { PageSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { PageTitle } from '../parts/title.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { type Activity, activityQuery, type NotedScan } from './api.ts';
import { texts } from './texts.ts';

const t = texts.activity;

export function ActivityPage() {
  const activity = useQuery(activityQuery);
  return (
    <>
      <PageTitle title={texts.pages.activity} />
      <Awaited query={activity} skeleton={<PageSkeleton />} />
      {activity.data !== undefined && (
        <div className="stack">
          <section className="panel" aria-label={t.days}>
            <h2 className="panel-title">{t.days}</h2>
            <OutcomeDays days={activity.data.days} caption={t.days} />
          </section>
          <Errors {...activity.data} />
          <Slowest {...activity.data} />
          <Refusals {...activity.data} />
        </div>
      )}
    </>
  );
}

interface Listing {
  readonly title: string;
  /** What the rows are of. */
  readonly of: ReactNode;
  /** Null: there are rows. */
  readonly none: string | null;
  /** Cells of the head. */
  readonly head: ReactNode;
  readonly children: ReactNode;
}

function Listed({ title, of, none, head, children }: Listing) {
  return (
    <section className="panel" aria-label={title}>
      <h2 className="panel-title">{title}</h2>
      <p className="small dimmed admin-since">{of}</p>
      {none === null ? (
        <table className="table">
          <caption className="unseen">{title}</caption>
          <thead>
            <tr>{head}</tr>
          </thead>
          <tbody>{children}</tbody>
        </table>
      ) : (
        <p className="dimmed">{none}</p>
      )}
    </section>
  );
}

function Since({ at }: { readonly at: string }) {
  return (
    <>
      {t.since} <Time at={at} />
    </>
  );
}

function Right({ children }: { readonly children: string }) {
  return (
    <th scope="col" className="table-number">
      {children}
    </th>
  );
}

function Errors({ errors, errorsSince }: Activity) {
  const head = (
    <>
      <th scope="col">{t.columns.reason}</th>
      <th scope="col">{t.columns.examples}</th>
      <Right>{t.columns.status}</Right>
      <Right>{t.columns.count}</Right>
    </>
  );
  return (
    <Listed title={t.errors} of={<Since at={errorsSince} />} none={errors.length === 0 ? t.noErrors : null} head={head}>
      {errors.map(({ status, reason, count, examples }) => (
        <tr key={`${status} ${reason}`}>
          <td className="name">{visibleName(reason)}</td>
          <td data-label={t.columns.examples}>
            <ul className="admin-examples">
              {examples.map((scan) => (
                <li key={scan.id}>
                  <Account {...scan} /> · <Time at={scan.at} />
                  <span className="code admin-second">{scan.id}</span>
                </li>
              ))}
            </ul>
          </td>
          <td className="table-number" data-label={t.columns.status}>
            {status}
          </td>
          <td className="table-number" data-label={t.columns.count}>
            {number(count)}
          </td>
        </tr>
      ))}
    </Listed>
  );
}

function Slowest({ slowest, since }: Activity) {
  const head = (
    <>
      <th scope="col">{t.columns.account}</th>
      <th scope="col">{t.columns.id}</th>
      <th scope="col">{t.columns.at}</th>
      <Right>{t.columns.size}</Right>
      <Right>{t.columns.time}</Right>
    </>
  );
  return (
    <Listed title={t.slowest} of={<Since at={since} />} none={slowest.length === 0 ? t.noScans : null} head={head}>
      {slowest.map((scan) => (
        <tr key={scan.id}>
          <td className="name">
            <Account {...scan} />
          </td>
          <td className="code" data-label={t.columns.id}>
            {scan.id}
          </td>
          <td data-label={t.columns.at}>
            <Time at={scan.at} />
          </td>
          <td className="table-number" data-label={t.columns.size}>
            {scan.sizeInBytes === null ? '' : size(scan.sizeInBytes)}
          </td>
          <td className="table-number" data-label={t.columns.time}>
            {t.ms(number(scan.durationMillis))}
          </td>
        </tr>
      ))}
    </Listed>
  );
}

function Refusals({ refusals }: Activity) {
  const head = (
    <>
      <th scope="col">{t.columns.account}</th>
      <Right>{t.columns.count}</Right>
    </>
  );
  return (
    <Listed title={t.refusals} of={t.refusalsOf} none={refusals.length === 0 ? t.noRefusals : null} head={head}>
      {refusals.map(({ userId, email, refused }) => (
        <tr key={userId}>
          <td className="name">{visibleName(email)}</td>
          <td className="table-number" data-label={t.columns.count}>
            {number(refused)}
          </td>
        </tr>
      ))}
    </Listed>
  );
}

function Account({ email }: NotedScan) {
  return email === null ? <span className="dimmed">{t.deleted}</span> : visibleName(email);
}
