// What came of the scans of the last 30 days or twelve months, as bars and as a table for who can't see them.
import { SegmentedControl } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { daysQuery, monthlyQuery } from '../api/queries.ts';
import { Awaited } from '../parts/awaited.tsx';
import { Blank } from '../parts/blank.tsx';
import { month } from '../parts/format.ts';
import { barsOf, Legend, type Outcome, type OutcomeBar, OutcomeBars, outcomes, sumsOf } from '../parts/outcomes.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { texts } from '../texts.ts';

const t = texts.overview;
const spans = ['days', 'months'] as const;
type Span = (typeof spans)[number];

export function Use() {
  const [span, setSpan] = useState<Span>('days');
  return (
    <>
      <div className="row row-apart">
        <h2 className="panel-title">{t.use}</h2>
        <SegmentedControl
          aria-label={t.use}
          value={span}
          onChange={(value) => setSpan(spans.find((one) => one === value) ?? 'days')}
          data={spans.map((value) => ({ value, label: t.spans[value] }))}
        />
      </div>
      {span === 'days' ? <Days /> : <Months />}
    </>
  );
}

function Days() {
  const days = useQuery(daysQuery);
  if (days.isPending || days.isError)
    return <Awaited query={days} skeleton={<LinesSkeleton lines={7} height={28} />} />;
  return <Bars bars={barsOf(days.data)} shown={outcomes} head={t.day} caption={t.spans.days} none={t.noDays} />;
}

function Months() {
  const monthly = useQuery(monthlyQuery);
  if (monthly.isPending || monthly.isError)
    return <Awaited query={monthly} skeleton={<LinesSkeleton lines={7} height={28} />} />;
  const bars = monthly.data.map((one) => ({ ...one, short: month(one.month), name: month(one.month) }));
  return <Bars bars={bars} shown={['clean', 'infected']} head={t.month} caption={t.spans.months} none={t.noMonths} />;
}

interface BarsProps {
  readonly bars: readonly OutcomeBar[];
  readonly shown: readonly Outcome[];
  readonly head: string;
  readonly caption: string;
  readonly none: string;
}

function Bars({ bars, shown, head, caption, none }: BarsProps) {
  const sums = sumsOf(bars, shown);
  if (sums.every(([, sum]) => sum === 0)) return <Blank title={t.latestNone} hint={none} />;
  return (
    <>
      <OutcomeBars bars={bars} shown={shown} height={13} hasScale caption={caption} head={head} />
      <Legend
        counts={sums.filter(([outcome, sum]) => sum > 0 || outcome === 'clean' || outcome === 'infected')}
        isRow
      />
    </>
  );
}
