// Units of each of the last 24 hours, and scans that were refused since there were none left.
import { useQuery } from '@tanstack/react-query';
import { hoursQuery } from '../api/queries.ts';
import { Awaited } from '../parts/awaited.tsx';
import { Bars } from '../parts/bars.tsx';
import { clocksOf, instantOf, number } from '../parts/format.ts';
import { colourOf } from '../parts/outcomes.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { texts } from '../texts.ts';

const t = texts.overview;
const parts = [
  { label: t.used, colour: 'var(--mantine-primary-color-filled)' },
  { label: t.refused, colour: colourOf('infected') },
];

export function Hours() {
  const hours = useQuery(hoursQuery);
  if (hours.isPending || hours.isError)
    return <Awaited query={hours} skeleton={<LinesSkeleton lines={3} height={28} />} />;
  const names = clocksOf(hours.data.map(({ hour }) => instantOf(hour)));
  const bars = hours.data.map(({ used, refused }, at) => {
    const name = names[at] ?? '';
    return { name, short: name, counts: [used, refused] };
  });
  const refused = hours.data.reduce((all, hour) => all + hour.refused, 0);
  return (
    <>
      <Bars bars={bars} parts={parts} height={5} caption={t.hours} head={t.hour} />
      <p className="dimmed small overview-note">{t.lastDay(number(refused))}</p>
    </>
  );
}
