// How many scans were infected and clean in a range of days, as a ring and in numbers.
import { Select } from '@mantine/core';
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
      <Donut infected={infected} clean={clean} />
      <Legend
        counts={[
          ['infected', infected],
          ['clean', clean],
        ]}
      />
    </div>
  );
}

/** Of the ring, in percent: between its parts, and the smallest part with that. */
const GAP = 0.6;
const LEAST = 1.2;

function Donut({ infected, clean }: Counts) {
  const total = infected + clean;
  const isWhole = infected === 0 || clean === 0;
  const share = (count: number): number => (count === 0 ? 0 : Math.max(LEAST, (100 * count) / total));
  // What is over a half is what the other one leaves.
  const first = isWhole || infected <= clean ? share(infected) : 100 - share(clean);
  const arc = (outcome: 'infected' | 'clean', from: number, length: number) => (
    <circle
      {...{ cx: 90, cy: 90, r: 77, pathLength: 100, stroke: colourOf(outcome) }}
      strokeDasharray={`${Math.max(0, isWhole ? length : length - GAP)} 100`}
      strokeDashoffset={-from}
    />
  );
  return (
    <svg width="180" height="180" aria-hidden="true">
      {arc('infected', 0, first)}
      {arc('clean', first, 100 - first)}
      <text x="90" y="90">
        {number(total)}
      </text>
    </svg>
  );
}

function sumOf(days: Days): Counts {
  return days.reduce((sum, { infected, clean }) => ({ infected: sum.infected + infected, clean: sum.clean + clean }), {
    infected: 0,
    clean: 0,
  });
}
