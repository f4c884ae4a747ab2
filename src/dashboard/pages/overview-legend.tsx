// What the colours of the charts mean, with the numbers that they show.
import { number } from '../parts/format.ts';
import { texts } from '../texts.ts';

interface LegendProps {
  readonly infected: number;
  readonly clean: number;
  readonly isRow?: boolean;
}

export function Legend({ infected, clean, isRow = false }: LegendProps) {
  return (
    <ul className={isRow ? 'legend legend-row' : 'legend'}>
      <li>
        <span className="legend-dot legend-infected" />
        {texts.overview.infected}
        <span className="legend-count">{number(infected)}</span>
      </li>
      <li>
        <span className="legend-dot legend-clean" />
        {texts.overview.clean}
        <span className="legend-count">{number(clean)}</span>
      </li>
    </ul>
  );
}
