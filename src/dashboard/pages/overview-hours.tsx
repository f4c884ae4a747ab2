// Units of each of the last 24 hours, and scans that were refused since there were none left.
import { BarChart } from '@mantine/charts';
import '@mantine/charts/styles.css';
import { useQuery } from '@tanstack/react-query';
import { hoursQuery } from '../api/queries.ts';
import { Awaited } from '../parts/awaited.tsx';
import { clocksOf, instantOf, number } from '../parts/format.ts';
import { BarTable, colourOf } from '../parts/outcomes.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { texts } from '../texts.ts';

const t = texts.overview;
/** Pixels: a label that reaches over the first bar stays within the panel. */
const HALF_LABEL = 14;

export function Hours() {
  const hours = useQuery(hoursQuery);
  if (hours.isPending || hours.isError)
    return <Awaited query={hours} skeleton={<LinesSkeleton lines={3} height={28} />} />;
  const names = clocksOf(hours.data.map(({ hour }) => instantOf(hour)));
  const bars = hours.data.map(({ used, refused }, at) => ({ name: names[at] ?? '', used, refused }));
  const refused = bars.reduce((all, bar) => all + bar.refused, 0);
  return (
    <>
      <div aria-hidden="true">
        <BarChart
          h={110}
          data={bars}
          dataKey="name"
          type="stacked"
          withLegend={false}
          gridAxis="none"
          barChartProps={{ accessibilityLayer: false }}
          xAxisProps={{ interval: 'equidistantPreserveStart', padding: { left: HALF_LABEL, right: HALF_LABEL } }}
          withYAxis={false}
          barProps={{ isAnimationActive: false }}
          valueFormatter={number}
          series={[
            { name: 'used', label: t.used, color: 'var(--mantine-primary-color-filled)' },
            { name: 'refused', label: t.refused, color: colourOf('infected') },
          ]}
        />
      </div>
      <p className="dimmed small overview-note">{t.lastDay(number(refused))}</p>
      <BarTable
        caption={t.hours}
        head={[t.hour, t.used, t.refused]}
        rows={bars.map((bar) => [bar.name, bar.used, bar.refused])}
      />
    </>
  );
}
