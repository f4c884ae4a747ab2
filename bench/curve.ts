// Curves of figures: latency by load (bench:overload), and what grows with the work (bench:growth).
import type { Figures } from './figures.js';
import { escaped, legendOf, picture } from './picture.js';

const HEIGHT = 376;
const PANEL = { width: 340, height: 210, top: 56 } as const;
const LEFT = [64, 484] as const;
/** Milliseconds: a line for each power of ten. */
const LOWEST = 0.1;
const HIGHEST = 10_000;
const LOAD_MOST = 3;

const lines = [
  { column: 'p50 ms', name: 'Sluice, p50', style: 'sluice' },
  { column: 'p99 ms', name: 'Sluice, p99', style: 'sluice dashed' },
  { column: 'its p50 ms', name: 'clamd, p50', style: 'clamd' },
  { column: 'its p99 ms', name: 'clamd, p99', style: 'clamd dashed' },
] as const;

function across(load: number): number {
  return (load / LOAD_MOST) * PANEL.width;
}

function down(milliseconds: number): number {
  const share = Math.log10(Math.max(milliseconds, LOWEST) / LOWEST) / Math.log10(HIGHEST / LOWEST);
  return PANEL.top + PANEL.height * (1 - Math.min(share, 1));
}

/** `left`: where its points begin. */
function panelOf(content: string, { columns, rows }: Figures, left: number): string {
  const cell = (row: readonly string[], column: string): number => Number(row[columns.indexOf(column)]);
  const own = rows.filter((row) => row[0] === content);
  const bottom = PANEL.top + PANEL.height;
  const parts = [`<text x="${left}" y="${PANEL.top - 14}">${escaped(content)}, ms</text>`];
  for (let at = LOWEST; at <= HIGHEST; at *= 10) {
    const y = down(at).toFixed(1);
    const label = at < 1 ? at.toFixed(1) : at.toFixed(0);
    parts.push(`<path class="grid" d="M${left} ${y}h${PANEL.width}"/>`);
    parts.push(`<text class="small end" x="${left - 8}" y="${(down(at) + 4).toFixed(1)}">${label}</text>`);
  }
  for (const load of [0.5, 1, 1.5, 2, 3]) {
    parts.push(`<text class="small middle" x="${(left + across(load)).toFixed(1)}" y="${bottom + 18}">${load}</text>`);
  }
  const axis = 'times the capacity';
  parts.push(`<text class="small middle" x="${left + PANEL.width / 2}" y="${bottom + 36}">${axis}</text>`);
  parts.push(`<path class="full" d="M${(left + across(1)).toFixed(1)} ${PANEL.top}v${PANEL.height}"/>`);
  for (const { column, style } of lines) {
    // Where nothing was answered there is no point.
    const answered = own.filter((row) => Number.isFinite(cell(row, column)));
    const points = answered.map((row) => {
      const x = left + across(cell(row, axis));
      return `${x.toFixed(1)},${down(cell(row, column)).toFixed(1)}`;
    });
    parts.push(`<polyline class="line ${style}" points="${points.join(' ')}"/>`);
  }
  return parts.join('\n');
}

export function curveOf(figures: Figures): string {
  const contents = [...new Set(figures.rows.map(([content = '']) => content))];
  const panels = contents.flatMap((content, at) =>
    LEFT[at] === undefined ? [] : [panelOf(content, figures, LEFT[at])],
  );
  const heading = 'Milliseconds of an answer that is taken, by how many times the capacity is asked for';
  const title = 'Milliseconds of an answer by what is asked for, of Sluice and of clamd';
  const frame = { left: LEFT[0], height: HEIGHT };
  return picture({ ...figures, ...frame, title, heading }, [...panels, ...legendOf(lines, frame)]);
}

const GROWTH = { height: 276, top: 56, panel: 96, gap: 36, down: 130 } as const;
/** Times the first one; a line for each half. */
const TIMES_MOST = 2;
const growing = [
  { column: 'scans/s', name: 'scans a second', style: 'sluice' },
  { column: 'MB', name: 'memory', style: 'clamd dashed' },
] as const;

/** One panel for each thing that grows: what became of the first measurement. */
export function growthOf(figures: Figures): string {
  const { columns, rows } = figures;
  const cell = (row: readonly string[], column: string): number => Number(row[columns.indexOf(column)]);
  const { top, panel, gap, down: height } = GROWTH;
  const y = (times: number): number => top + height * (1 - Math.min(times, TIMES_MOST) / TIMES_MOST);
  const names = [...new Set(rows.map(([name = '']) => name))];
  const panels = names.flatMap((name, at) => {
    const left = LEFT[0] + at * (panel + gap);
    const own = rows.filter((row) => row[0] === name);
    const x = (index: number): number => left + (index / Math.max(1, own.length - 1)) * panel;
    const parts = [`<text x="${left}" y="${top - 14}">${escaped(name)}</text>`];
    for (const times of [0, 0.5, 1, 1.5, TIMES_MOST]) {
      parts.push(`<path class="grid" d="M${left} ${y(times).toFixed(1)}h${panel}"/>`);
      if (at === 0)
        parts.push(`<text class="small end" x="${left - 8}" y="${(y(times) + 4).toFixed(1)}">${times}</text>`);
    }
    own.forEach((row, index) => {
      const label = shortOf(cell(row, 'so many'));
      parts.push(`<text class="small middle" x="${x(index).toFixed(1)}" y="${top + height + 18}">${label}</text>`);
    });
    for (const { column, style } of growing) {
      const first = cell(own[0] ?? [], column);
      const points = own.map((row, index) => `${x(index).toFixed(1)},${y(cell(row, column) / first).toFixed(1)}`);
      parts.push(`<polyline class="line ${style}" points="${points.join(' ')}"/>`);
    }
    return parts;
  });
  const heading = 'Scans a second and memory, as times of the first measurement, by how many there are';
  const title = 'Scans a second and memory by scans, mixed requests, accounts, rows, signatures and connections';
  const frame = { left: LEFT[0], height: GROWTH.height };
  return picture({ ...figures, ...frame, title, heading }, [...panels, ...legendOf(growing, frame)]);
}

function shortOf(count: number): string {
  if (count >= 1e6) return `${count / 1e6}M`;
  return count >= 1e3 ? `${count / 1e3}k` : String(count);
}
