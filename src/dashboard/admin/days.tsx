// Outcomes by day as stacked bars, and the same as a table for who can't see them.
import { number } from '../parts/format.ts';
import type { Day } from './api.ts';
import { texts } from './texts.ts';

const t = texts.activity;
const outcomes = ['clean', 'infected', 'noVerdict', 'refused', 'failed'] as const;
const WIDTH = 100;
const HEIGHT = 40;
const GAP = 0.25;

function totalOf(day: Day): number {
  return outcomes.reduce((sum, outcome) => sum + day[outcome], 0);
}

export function Days({ days }: { readonly days: readonly Day[] }) {
  const most = Math.max(1, ...days.map(totalOf));
  const step = WIDTH / days.length;
  return (
    <div>
      <svg className="days" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {days.map((day, index) => {
          let top = HEIGHT;
          return outcomes.map((outcome) => {
            const height = (HEIGHT * day[outcome]) / most;
            top -= height;
            const place = { x: index * step + step * GAP * 0.5, y: top, width: step * (1 - GAP), height };
            return <rect key={`${day.day} ${outcome}`} className={`days-${outcome}`} {...place} />;
          });
        })}
      </svg>
      <div className="row row-apart small dimmed">
        <span>{days[0]?.day}</span>
        <span>{days.at(-1)?.day}</span>
      </div>
      <ul className="legend legend-row days-legend">
        {outcomes.map((outcome) => (
          <li key={outcome}>
            <span className={`days-dot days-${outcome}`} />
            {t.outcomes[outcome]}
            <span className="legend-count">{number(days.reduce((sum, day) => sum + day[outcome], 0))}</span>
          </li>
        ))}
      </ul>
      <div className="unseen">
        <DayTable days={days} />
      </div>
    </div>
  );
}

function DayTable({ days }: { readonly days: readonly Day[] }) {
  return (
    <table>
      <caption>{t.table}</caption>
      <thead>
        <tr>
          <th scope="col">{t.day}</th>
          {outcomes.map((outcome) => (
            <th key={outcome} scope="col">
              {t.outcomes[outcome]}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {days.map((day) => (
          <tr key={day.day}>
            <th scope="row">{day.day}</th>
            {outcomes.map((outcome) => (
              <td key={outcome}>{number(day[outcome])}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
