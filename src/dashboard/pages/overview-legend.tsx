// What the colours of the charts mean, with the numbers that they show.
import { number } from '../parts/format.ts';
import { texts } from '../texts.ts';

export const outcomes = ['clean', 'infected', 'noVerdict', 'refused', 'failed'] as const;
export type Outcome = (typeof outcomes)[number];

interface LegendProps {
  readonly counts: readonly (readonly [Outcome, number])[];
  readonly isRow?: boolean;
}

export function Legend({ counts, isRow = false }: LegendProps) {
  return (
    <ul className={isRow ? 'legend legend-row' : 'legend'}>
      {counts.map(([outcome, count]) => (
        <li key={outcome}>
          <span className={`legend-dot legend-${outcome}`} />
          {texts.overview.outcomes[outcome]}
          <span className="legend-count">{number(count)}</span>
        </li>
      ))}
    </ul>
  );
}
