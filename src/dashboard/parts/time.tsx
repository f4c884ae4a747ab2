// An instant in the viewer's zone, with UTC on hover.
import { texts } from '../texts.ts';
import { clock, day, instant, instantOf } from './format.ts';

interface TimeProps {
  /** As the service writes it, or epoch seconds. */
  readonly at: string | number;
  readonly as?: 'instant' | 'day' | 'clock';
}

const formats = { instant, day, clock };

export function Time({ at, as = 'instant' }: TimeProps) {
  const date = typeof at === 'number' ? new Date(at * 1000) : instantOf(at);
  const iso = date.toISOString();
  return (
    <time dateTime={iso} title={texts.common.utc(iso.slice(0, 19).replace('T', ' '))}>
      {formats[as](date)}
    </time>
  );
}
