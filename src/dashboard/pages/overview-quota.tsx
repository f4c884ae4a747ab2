// What is left of the hour, and when the next one begins.
import { Progress } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { quotaQuery } from '../api/queries.ts';
import { number } from '../parts/format.ts';
import { ProblemBox } from '../parts/problem.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { texts } from '../texts.ts';

const t = texts.overview;
/** Percent of the hour's scans below which the bar warns. */
const LOW = 15;

export function QuotaPanel() {
  const quota = useQuery(quotaQuery);
  if (quota.isPending) return <LinesSkeleton lines={3} />;
  if (quota.isError) return <ProblemBox error={quota.error} onRetry={() => void quota.refetch()} />;
  const { limit, remaining, resetTime } = quota.data;
  const percent = (100 * remaining) / limit;
  const left = t.quotaLeft(number(remaining), number(limit));
  return (
    <>
      <p className="quota-left">{left}</p>
      <Progress value={percent} color={percent < LOW ? 'red' : 'blue'} size="lg" aria-label={left} />
      <p className="dimmed small">
        {t.quotaReset} <Time at={resetTime} as="clock" />. {remaining === 0 && t.quotaUsedUp}
      </p>
    </>
  );
}
