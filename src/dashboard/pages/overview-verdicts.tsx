// How many scans were infected and clean in a range of days, as a ring and in numbers.
import { DonutChart } from '@mantine/charts';
import { Select } from '@mantine/core';
import '@mantine/charts/styles.css';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { daysQuery, donutQuery } from '../api/queries.ts';
import type { Counts, Days } from '../api/shapes.ts';
import { Awaited } from '../parts/awaited.tsx';
import { Blank } from '../parts/blank.tsx';
import { number, utcDay } from '../parts/format.ts';
import { colourOf, Legend } from '../parts/outcomes.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { texts } from '../texts.ts';

const t = texts.overview;
const ranges = ['7', '30', '90', '365'] as const;
type Range = (typeof ranges)[number];
/** Of the answer with each day. */
const DAYS_TOLD = 30;

export function Verdicts() {
  const [range, setRange] = useState<Range>('30');
  return (
    <>
      <div className="row row-apart">
        <h2 className="panel-title">{t.verdicts}</h2>
        <Select
          aria-label={t.range}
          size="xs"
          w={150}
          data={ranges.map((value) => ({ value, label: t.ranges[value] }))}
          value={range}
          onChange={(value) => setRange(ranges.find((one) => one === value) ?? '30')}
        />
      </div>
      <Ring range={range} />
      <p className="dimmed small overview-note">{t.rangeNote}</p>
    </>
  );
}

function Ring({ range }: { readonly range: Range }) {
  const days = Number(range);
  // What the tiles and bars have been told already is not asked for again.
  const lately = useQuery({ ...daysQuery, select: (all) => sumOf(all.slice(-days)) });
  // The service's own: the clock of this machine may be days behind.
  const today = useQuery({ ...daysQuery, select: (all) => all.at(-1)?.day }).data;
  const isLonger = days > DAYS_TOLD && today !== undefined;
  const now = today === undefined ? Date.now() : Date.parse(today);
  const longer = useQuery({
    ...donutQuery(utcDay(days - 1, now), utcDay(0, now)),
    enabled: isLonger,
    placeholderData: (previous) => previous ?? lately.data,
  });
  const counts = isLonger ? longer : lately;
  if (counts.isPending || counts.isError)
    return <Awaited query={counts} skeleton={<LinesSkeleton lines={5} height={36} />} />;
  const { infected, clean } = counts.data;
  const total = infected + clean;
  if (total === 0) return <Blank title={texts.overview.latestNone} hint={t.noVerdicts} />;
  return (
    <div className="donut">
      <div aria-hidden="true">
        <DonutChart
          size={180}
          thickness={26}
          withTooltip={false}
          chartLabel={number(total)}
          paddingAngle={infected > 0 && clean > 0 ? 2 : 0}
          pieChartProps={{ accessibilityLayer: false }}
          pieProps={{ isAnimationActive: false, rootTabIndex: -1 }}
          data={[
            { name: t.outcomes.infected, value: infected, color: colourOf('infected') },
            { name: t.outcomes.clean, value: clean, color: colourOf('clean') },
          ]}
        />
      </div>
      <Legend
        counts={[
          ['infected', infected],
          ['clean', clean],
        ]}
      />
    </div>
  );
}

function sumOf(days: Days): Counts {
  return days.reduce((sum, { infected, clean }) => ({ infected: sum.infected + infected, clean: sum.clean + clean }), {
    infected: 0,
    clean: 0,
  });
}
