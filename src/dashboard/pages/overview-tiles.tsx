// The numbers of the last 30 days at a glance.
import { useQuery } from '@tanstack/react-query';
import { daysQuery } from '../api/queries.ts';
import type { Days } from '../api/shapes.ts';
import { number } from '../parts/format.ts';
import { IncompleteIcon, InfectedIcon, RefusedIcon, ScanIcon } from '../parts/icons.ts';
import { outcomes as everyOutcome, type Outcome } from '../parts/outcomes.tsx';
import { texts } from '../texts.ts';

const t = texts.overview;
const ICON = 18;

const tiles = [
  { label: t.tiles.scans, Icon: ScanIcon, outcomes: everyOutcome },
  { label: t.tiles.infected, Icon: InfectedIcon, outcomes: ['infected'] },
  { label: t.tiles.noVerdict, Icon: IncompleteIcon, outcomes: ['noVerdict', 'left', 'failed'] },
  { label: t.tiles.refused, Icon: RefusedIcon, outcomes: ['refused'] },
] as const;

export function Tiles() {
  const days = useQuery(daysQuery);
  return (
    <div className="tiles">
      {tiles.map(({ label, Icon, outcomes }) => (
        <section key={label} className="panel tile" aria-label={label}>
          <span className="tile-label">
            <Icon size={ICON} />
            {label}
          </span>
          <span className="tile-number">{days.data === undefined ? '–' : number(sumOf(days.data, outcomes))}</span>
          <span className="dimmed small">{t.ranges[30]}</span>
        </section>
      ))}
    </div>
  );
}

function sumOf(days: Days, outcomes: readonly Outcome[]): number {
  return days.reduce((all, day) => outcomes.reduce((sum, outcome) => sum + day[outcome], all), 0);
}
