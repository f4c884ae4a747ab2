// What scans have come to: the colours with their numbers, bars by day, and the same as a table for who can't see them.
import { texts } from '../texts.ts';
import { dayName, number } from './format.ts';
import './outcomes.css';

const t = texts.overview;
export const outcomes = ['clean', 'infected', 'noVerdict', 'refused', 'left', 'failed'] as const;
export type Outcome = (typeof outcomes)[number];

/** The style sheet has one for each scheme. */
export function colourOf(outcome: Outcome): string {
  return `var(--outcome-${outcome})`;
}

export interface OutcomeBar extends Partial<Record<Outcome, number>> {
  readonly name: string;
}

export function sumsOf(bars: readonly OutcomeBar[], shown: readonly Outcome[]) {
  return shown.map((outcome) => [outcome, bars.reduce((sum, bar) => sum + (bar[outcome] ?? 0), 0)] as const);
}

interface LegendProps {
  readonly counts: readonly (readonly [Outcome, number])[];
  readonly isRow?: boolean;
}

export function Legend({ counts, isRow = false }: LegendProps) {
  return (
    <ul className={isRow ? 'legend legend-row' : 'legend'}>
      {counts.map(([outcome, count]) => (
        <li key={outcome}>
          <span className="legend-dot" style={{ background: colourOf(outcome) }} />
          {t.outcomes[outcome]}
          <span className="legend-count">{number(count)}</span>
        </li>
      ))}
    </ul>
  );
}

interface TableProps {
  readonly caption: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly [name: string, ...numbers: number[]])[];
}

/** What bars show, for who can't see them. */
export function BarTable({ caption, head, rows }: TableProps) {
  return (
    <div className="unseen">
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {head.map((text) => (
              <th key={text} scope="col">
                {text}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, ...numbers]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {numbers.map((count, column) => (
                <td key={head[column + 1]}>{number(count)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface OutcomeTableProps {
  readonly bars: readonly OutcomeBar[];
  readonly shown: readonly Outcome[];
  readonly head: string;
  readonly caption: string;
}

export function OutcomeTable({ bars, shown, head, caption }: OutcomeTableProps) {
  return (
    <BarTable
      caption={caption}
      head={[head, ...shown.map((outcome) => t.outcomes[outcome])]}
      rows={bars.map((bar) => [bar.name, ...shown.map((outcome) => bar[outcome] ?? 0)])}
    />
  );
}

const WIDTH = 100;
const HEIGHT = 40;
const GAP = 0.25;

interface DaysProps {
  readonly days: readonly ({ readonly day: string } & Partial<Record<Outcome, number>>)[];
  readonly shown?: readonly Outcome[];
  readonly caption: string;
}

/** Bars without the library of the charts, which is more code than the page around them. */
export function OutcomeDays({ days, shown = outcomes, caption }: DaysProps) {
  const bars = days.map(({ day, ...counts }) => ({ ...counts, name: dayName(day) }));
  const totals = bars.map((bar) => shown.reduce((sum, outcome) => sum + (bar[outcome] ?? 0), 0));
  if (totals.every((total) => total === 0)) return <p className="page-lead">{t.latestNone}</p>;
  const most = Math.max(1, ...totals);
  const step = WIDTH / bars.length;
  return (
    <div>
      <svg className="outcome-bars" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {bars.map((bar, index) => {
          let top = HEIGHT;
          return (
            <g key={bar.name}>
              <title>{t.dayCount(bar.name, number(totals[index] ?? 0))}</title>
              <rect className="outcome-day" x={index * step} y={0} width={step} height={HEIGHT} />
              {shown.map((outcome) => {
                const height = (HEIGHT * (bar[outcome] ?? 0)) / most;
                top -= height;
                const place = { x: index * step + step * GAP * 0.5, y: top, width: step * (1 - GAP), height };
                return <rect key={outcome} fill={colourOf(outcome)} {...place} />;
              })}
            </g>
          );
        })}
      </svg>
      <div className="row row-apart small dimmed">
        <span>{bars[0]?.name}</span>
        <span>{bars.at(-1)?.name}</span>
      </div>
      <Legend counts={sumsOf(bars, shown)} isRow />
      <OutcomeTable bars={bars} shown={shown} head={t.day} caption={caption} />
    </div>
  );
}
