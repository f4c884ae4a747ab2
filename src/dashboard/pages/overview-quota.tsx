// What is used of the hour, and when the next one begins.
import { Progress } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { quotaQuery } from '../api/queries.ts';
import { Awaited } from '../parts/awaited.tsx';
import { number } from '../parts/format.ts';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { texts } from '../texts.ts';

const t = texts.overview;
/** Percent of the hour's scans from which the bar warns. */
const MUCH = 80;
const ALL = 100;

export function QuotaPanel() {
  const quota = useQuery(quotaQuery);
  if (quota.isPending || quota.isError) return <Awaited query={quota} skeleton={<LinesSkeleton lines={3} />} />;
  const { limit, remaining, resetTime } = quota.data;
  const percent = (ALL * (limit - remaining)) / limit;
  const used = t.quotaUsed(number(limit - remaining), number(limit));
  const color = percent >= ALL ? 'red' : percent >= MUCH ? 'yellow' : 'blue';
  return (
    <>
      <p className="quota-used">{used}</p>
      <Progress value={percent} color={color} size="md" aria-label={used} />
      <p className="dimmed small quota-note">
        {t.quotaReset} <Time at={resetTime} as="clock" />. {remaining === 0 && t.quotaUsedUp}
      </p>
    </>
  );
}
