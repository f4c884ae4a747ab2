// Bars of what was counted one after the other, the parts of each on top of each other: as a picture, and as a table for who can't see it.
import { useState } from 'react';
import { number } from './format.ts';
import './bars.css';

export interface Bar {
  /** Shown where one points at it. */
  readonly name: string;
  /** Below it. */
  readonly short: string;
  /** One for each part. */
  readonly counts: readonly number[];
}

export interface BarPart {
  readonly label: string;
  readonly colour: string;
}

export interface BarsProps {
  readonly bars: readonly Bar[];
  readonly parts: readonly BarPart[];
  /** Of the picture without the names, in rem. */
  readonly height: number;
  readonly hasScale?: boolean;
  /** Of the table: what it is of, and what its rows are. */
  readonly caption: string;
  readonly head: string;
}

/** Names that there is room for, in a wide panel and in a narrow one. */
const NAMES = 10;
const NAMES_NARROW = 4;
/** Of the place of a bar. */
const GAP = 0.25;

export function Bars({ bars, parts, height, hasScale = false, caption, head }: BarsProps) {
  const most = Math.max(1, ...bars.map(({ counts }) => sumOf(counts)));
  const scale = hasScale ? scaleOf(most) : [];
  const top = scale.at(-1) ?? most;
  const steps = [NAMES, NAMES_NARROW].map((names) => Math.ceil(bars.length / names));
  const [step = 1, stepNarrow = 1] = steps;
  return (
    <>
      <div className="bars" data-scale={hasScale} aria-hidden="true">
        <Picture bars={bars} parts={parts} height={height} scale={scale} top={top} />
        <div className="bars-names">
          {bars.map(({ name, short }, at) => (
            <span
              key={name}
              data-wide={at % step === 0}
              data-narrow={at % stepNarrow === 0}
              style={{ left: `${percent(at + 0.5, bars.length)}%` }}
            >
              {short}
            </span>
          ))}
        </div>
      </div>
      <BarTable bars={bars} parts={parts} caption={caption} head={head} />
    </>
  );
}

interface PictureProps extends Pick<BarsProps, 'bars' | 'parts' | 'height'> {
  readonly scale: readonly number[];
  readonly top: number;
}

function Picture({ bars, parts, height, scale, top }: PictureProps) {
  const [pointed, setPointed] = useState<number | null>(null);
  const bar = pointed === null ? undefined : bars[pointed];
  return (
    <div className="bars-plot" style={{ height: `${height}rem` }} onPointerLeave={() => setPointed(null)}>
      {scale.map((count) => (
        <div key={count} className="bars-line" style={{ bottom: `${percent(count, top)}%` }}>
          <span>{number(count)}</span>
        </div>
      ))}
      <svg viewBox={`0 0 ${bars.length} ${top}`} preserveAspectRatio="none" aria-hidden="true">
        {bars.map(({ name, counts }, at) => (
          <g key={name} onPointerEnter={() => setPointed(at)}>
            <rect className="bars-place" x={at} y={0} width={1} height={top} />
            {parts.map(({ label, colour }, part) => {
              const place = { x: at + GAP / 2, y: top - sumOf(counts.slice(0, part + 1)), width: 1 - GAP };
              return counts[part] !== 0 && <rect key={label} fill={colour} {...place} height={counts[part]} />;
            })}
          </g>
        ))}
      </svg>
      {pointed !== null && bar !== undefined && (
        <div className="bars-tip" style={placeOf(pointed, bars.length)}>
          <strong>{bar.name}</strong>
          {parts.map(({ label }, part) => {
            const count = bar.counts[part] ?? 0;
            return count > 0 && <span key={label}>{`${label}: ${number(count)}`}</span>;
          })}
        </div>
      )}
    </div>
  );
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

function percent(part: number, whole: number): number {
  return (100 * part) / whole;
}

/** Beside the bar, where there is more room. */
function placeOf(at: number, length: number) {
  return at < length / 2 ? { left: `${percent(at + 1, length)}%` } : { right: `${percent(length - at, length)}%` };
}

/** A handful of whole numbers, from 0 to the first that no bar is higher than. */
function scaleOf(most: number): number[] {
  const least = Math.max(1, most / 4);
  const unit = 10 ** Math.floor(Math.log10(least));
  const step = [unit, 2 * unit, 5 * unit].find((one) => one >= least) ?? 10 * unit;
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, at) => at * step);
}

function BarTable({ bars, parts, caption, head }: Pick<BarsProps, 'bars' | 'parts' | 'caption' | 'head'>) {
  return (
    <div className="unseen">
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {[head, ...parts.map(({ label }) => label)].map((text) => (
              <th key={text} scope="col">
                {text}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {bars.map(({ name, counts }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {parts.map(({ label }, part) => (
                <td key={label}>{number(counts[part] ?? 0)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
