// What scans have come to: the colours with their numbers, and bars by day.
import { texts } from '../texts.ts';
import { Bars, type BarsProps } from './bars.tsx';
import { dayName, number, shortDay } from './format.ts';
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
  readonly short: string;
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

interface OutcomeBarsProps extends Omit<BarsProps, 'bars' | 'parts'> {
  readonly bars: readonly OutcomeBar[];
  readonly shown: readonly Outcome[];
}

export function OutcomeBars({ bars, shown, ...rest }: OutcomeBarsProps) {
  return (
    <Bars
      bars={bars.map(({ name, short, ...counts }) => ({
        ...{ name, short },
        counts: shown.map((outcome) => counts[outcome] ?? 0),
      }))}
      parts={shown.map((outcome) => ({ label: t.outcomes[outcome], colour: colourOf(outcome) }))}
      {...rest}
    />
  );
}

type Day = { readonly day: string } & Partial<Record<Outcome, number>>;

export function barsOf(days: readonly Day[]): OutcomeBar[] {
  return days.map(({ day, ...counts }) => ({ ...counts, name: dayName(day), short: shortDay(day) }));
}

interface DaysProps {
  readonly days: readonly Day[];
  readonly shown?: readonly Outcome[];
  readonly caption: string;
}

export function OutcomeDays({ days, shown = outcomes, caption }: DaysProps) {
  const bars = barsOf(days);
  const sums = sumsOf(bars, shown);
  if (sums.every(([, sum]) => sum === 0)) return <p className="page-lead">{t.latestNone}</p>;
  return (
    <div>
      <OutcomeBars bars={bars} shown={shown} height={8} caption={caption} head={t.day} />
      <Legend counts={sums} isRow />
    </div>
  );
}
