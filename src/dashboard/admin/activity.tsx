// What scans have come to: by day, errors by kind with an example, and the slowest ones.
import { useQuery } from '@tanstack/react-query';
import { number, size } from '../parts/format.ts';
import { OutcomeDays } from '../parts/outcomes.tsx';
import { ProblemBox } from '../parts/problem.tsx';
import { PageSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { PageTitle } from '../parts/title.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { type Activity, activityQuery } from './api.ts';
import { texts } from './texts.ts';

const t = texts.activity;

export function ActivityPage() {
  const activity = useQuery(activityQuery);
  return (
    <>
      <PageTitle title={texts.pages.activity} />
      {activity.isPending && <PageSkeleton />}
      {activity.isError && <ProblemBox error={activity.error} onRetry={() => void activity.refetch()} />}
      {activity.data !== undefined && (
        <div className="stack">
          <section className="panel" aria-label={t.days}>
            <h2 className="panel-title">{t.days}</h2>
            <OutcomeDays days={activity.data.days} caption={t.days} />
          </section>
          <Errors {...activity.data} />
          <Slowest {...activity.data} />
        </div>
      )}
    </>
  );
}

function Since({ since }: Pick<Activity, 'since'>) {
  return (
    <p className="small dimmed admin-since">
      {t.since} <Time at={since} />
    </p>
  );
}

function Errors({ errors, since }: Activity) {
  return (
    <section className="panel" aria-label={t.errors}>
      <h2 className="panel-title">{t.errors}</h2>
      <Since since={since} />
      {errors.length === 0 ? (
        <p className="dimmed">{t.noErrors}</p>
      ) : (
        <table className="table">
          <caption className="unseen">{t.errors}</caption>
          <thead>
            <tr>
              <th scope="col">{t.columns.kind}</th>
              <th scope="col">{t.columns.example}</th>
              <th scope="col">{t.columns.last}</th>
              <th scope="col" className="table-number">
                {t.columns.count}
              </th>
            </tr>
          </thead>
          <tbody>
            {errors.map(({ kind, count, lastAt, examples }) => (
              <tr key={kind}>
                <td className="code">{kind}</td>
                <td className="name" data-label={t.columns.example}>
                  {visibleName(examples[0]?.error ?? '')}
                </td>
                <td data-label={t.columns.last}>
                  <Time at={lastAt} />
                </td>
                <td className="table-number" data-label={t.columns.count}>
                  {number(count)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function Slowest({ slowest, since }: Activity) {
  return (
    <section className="panel" aria-label={t.slowest}>
      <h2 className="panel-title">{t.slowest}</h2>
      <Since since={since} />
      {slowest.length === 0 ? (
        <p className="dimmed">{t.noScans}</p>
      ) : (
        <table className="table">
          <caption className="unseen">{t.slowest}</caption>
          <thead>
            <tr>
              <th scope="col">{t.columns.id}</th>
              <th scope="col">{t.columns.at}</th>
              <th scope="col" className="table-number">
                {t.columns.size}
              </th>
              <th scope="col" className="table-number">
                {t.columns.time}
              </th>
            </tr>
          </thead>
          <tbody>
            {slowest.map((scan) => (
              <tr key={`${scan.id} ${scan.at}`}>
                <td className="code">{scan.id}</td>
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
          </tbody>
        </table>
      )}
    </section>
  );
}
