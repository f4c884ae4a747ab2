// What came of the scans of the last 30 days or twelve months, as bars and as a table for who can't see them.
import { BarChart } from '@mantine/charts';
import '@mantine/charts/styles.css';
import { SegmentedControl } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { daysQuery, monthlyQuery } from '../api/queries.ts';
import { Awaited } from '../parts/awaited.tsx';
import { Blank } from '../parts/blank.tsx';
import { dayName, month, number, shortDay } from '../parts/format.ts';
import { colourOf, Legend, type Outcome, type OutcomeBar, OutcomeTable, outcomes, sumsOf } from '../parts/outcomes.tsx';
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

interface Bar extends OutcomeBar {
  /** Below the bar; the name is shown where one points at it. */
  readonly short: string;
}

function Days() {
  const days = useQuery(daysQuery);
  if (days.isPending || days.isError)
    return <Awaited query={days} skeleton={<LinesSkeleton lines={7} height={28} />} />;
  const bars = days.data.map(({ day, ...counts }) => ({ ...counts, short: shortDay(day), name: dayName(day) }));
  return <Bars bars={bars} shown={outcomes} head={t.day} caption={t.spans.days} none={t.noDays} />;
}

function Months() {
  const monthly = useQuery(monthlyQuery);
  if (monthly.isPending || monthly.isError)
    return <Awaited query={monthly} skeleton={<LinesSkeleton lines={7} height={28} />} />;
  const bars = monthly.data.map((one) => ({ ...one, short: month(one.month), name: month(one.month) }));
  return <Bars bars={bars} shown={['clean', 'infected']} head={t.month} caption={t.spans.months} none={t.noMonths} />;
}

interface BarsProps {
  readonly bars: readonly Bar[];
  readonly shown: readonly Outcome[];
  readonly head: string;
  readonly caption: string;
  readonly none: string;
}

function Bars({ bars, shown, head, caption, none }: BarsProps) {
  const sums = sumsOf(bars, shown);
  if (sums.every(([, sum]) => sum === 0)) return <Blank title={t.latestNone} hint={none} />;
  const shorts = new Map(bars.map(({ name, short }) => [name, short]));
  return (
    <>
      <div aria-hidden="true">
        <BarChart
          h={250}
          data={bars.map((bar) => ({ ...bar }))}
          dataKey="name"
          type="stacked"
          withLegend={false}
          maxBarWidth={28}
          barChartProps={{ accessibilityLayer: false, margin: { top: 8 } }}
          xAxisProps={{ interval: 'equidistantPreserveStart', tickFormatter: (name) => shorts.get(name) ?? name }}
          yAxisProps={{ allowDecimals: false, width: 44 }}
          barProps={{ isAnimationActive: false }}
          valueFormatter={number}
          series={shown.map((name) => ({ name, label: t.outcomes[name], color: colourOf(name) }))}
        />
      </div>
      <Legend
        counts={sums.filter(([outcome, sum]) => sum > 0 || outcome === 'clean' || outcome === 'infected')}
        isRow
      />
      <OutcomeTable bars={bars} shown={shown} head={head} caption={caption} />
    </>
  );
}
