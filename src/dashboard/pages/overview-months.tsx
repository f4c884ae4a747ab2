// Infected and clean scans of the last twelve months, as bars and as a table for who can't see them.
import { BarChart } from '@mantine/charts';
import '@mantine/charts/styles.css';
import { useQuery } from '@tanstack/react-query';
import { monthlyQuery } from '../api/queries.ts';
import type { Months as MonthsData } from '../api/shapes.ts';
import { Blank } from '../parts/blank.tsx';
import { month, monthName, number } from '../parts/format.ts';
import { ProblemBox } from '../parts/problem.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { texts } from '../texts.ts';
import { Legend } from './overview-legend.tsx';

const t = texts.overview;

export function Months() {
  const monthly = useQuery(monthlyQuery);
  if (monthly.isPending) return <LinesSkeleton lines={7} height={28} />;
  if (monthly.isError) return <ProblemBox error={monthly.error} onRetry={() => void monthly.refetch()} />;
  const sum = (name: 'infected' | 'clean') => monthly.data.reduce((all, one) => all + one[name], 0);
  const [infected, clean] = [sum('infected'), sum('clean')];
  if (infected + clean === 0) return <Blank title={t.latestNone} hint={t.noMonths} />;
  // Below the bars without the year, which has no room there; with it where one points at them.
  const names = new Map(monthly.data.map((one) => [month(one.month), monthName(one.month)]));
  return (
    <>
      <div aria-hidden="true">
        <BarChart
          h={250}
          data={monthly.data.map((one) => ({ ...one, month: month(one.month) }))}
          dataKey="month"
          type="stacked"
          withLegend={false}
          barChartProps={{ accessibilityLayer: false }}
          xAxisProps={{ interval: 'equidistantPreserveStart', tickFormatter: (label) => names.get(label) ?? label }}
          yAxisProps={{ allowDecimals: false }}
          barProps={{ isAnimationActive: false }}
          valueFormatter={number}
          series={[
            { name: 'clean', label: t.clean, color: 'var(--verdict-clean)' },
            { name: 'infected', label: t.infected, color: 'var(--verdict-infected)' },
          ]}
        />
      </div>
      <Legend infected={infected} clean={clean} isRow />
      <MonthsTable months={monthly.data} />
    </>
  );
}

function MonthsTable({ months }: { readonly months: MonthsData }) {
  return (
    <table className="unseen">
      <caption>{t.months}</caption>
      <thead>
        <tr>
          <th scope="col">{t.month}</th>
          <th scope="col">{t.infected}</th>
          <th scope="col">{t.clean}</th>
        </tr>
      </thead>
      <tbody>
        {months.map((one) => (
          <tr key={one.month}>
            <th scope="row">{month(one.month)}</th>
            <td>{number(one.infected)}</td>
            <td>{number(one.clean)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
