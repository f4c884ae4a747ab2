// Bars of figures: a group for each scenario or measure, a bar for each contestant, and its value beside it.
import type { Figures } from './figures.js';
import { escaped, legendOf, picture, WIDTH } from './picture.js';
import type { Block } from './report.js';

const LEFT = 150;
const TOP = 56;
const ACROSS = WIDTH - LEFT - 90;
const BAR = 16;
const GAP = 34;
const FOOT = 92;
const TICKS = 4;

interface Group {
  readonly name: string;
  /** Null: nothing was measured. */
  readonly bars: readonly { readonly name: string; readonly value: number | null }[];
}

interface Chart extends Pick<Figures, 'machine' | 'date'> {
  readonly heading: string;
  /** Of the axis. */
  readonly unit: string;
  /** A line to compare with; default: none. */
  readonly reference?: number;
  readonly groups: readonly Group[];
}

const kinds = [
  { name: 'Sluice', style: 'sluice' },
  { name: 'clamd', style: 'clamd' },
  { name: 'others', style: 'other' },
] as const;

function styleOf(name: string): string {
  return kinds.find(({ style }) => name.startsWith(style))?.style ?? 'other';
}

/** The next of 1, 2 and 5 by a power of ten. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5].find((one) => one * power >= value) ?? 10) * power;
}

function textOf(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(2);
}

export function barsOf({ heading, unit, reference, groups, machine, date }: Chart): string {
  const values = groups.flatMap(({ bars }) => bars.flatMap(({ value }) => value ?? []));
  const most = roundUp(Math.max(reference ?? 0, ...values, Number.MIN_VALUE));
  const across = (value: number): number => (value / most) * ACROSS;
  const drawn: string[] = [];
  let y = TOP;
  for (const { name, bars } of groups) {
    drawn.push(`<text x="${LEFT}" y="${y - 4}">${escaped(name)}</text>`);
    for (const bar of bars) {
      const width = across(bar.value ?? 0).toFixed(1);
      const text = bar.value === null ? '-' : textOf(bar.value);
      drawn.push(
        `<text class="small end" x="${LEFT - 8}" y="${y + 12}">${escaped(bar.name)}</text>`,
        `<rect class="bar ${styleOf(bar.name)}" x="${LEFT}" y="${y + 2}" width="${width}" height="${BAR - 4}"/>`,
        `<text class="small" x="${(LEFT + Number(width) + 6).toFixed(1)}" y="${y + 12}">${text}</text>`,
      );
      y += BAR;
    }
    y += GAP;
  }
  const bottom = y - GAP + 6;
  const ticks = Array.from({ length: TICKS + 1 }, (_, at) => (most * at) / TICKS);
  const axis = ticks.flatMap((value) => {
    const x = (LEFT + across(value)).toFixed(1);
    const label = `<text class="small middle" x="${x}" y="${bottom + 16}">${Number(value.toPrecision(3))}</text>`;
    return [`<path class="grid" d="M${x} ${TOP}V${bottom}"/>`, label];
  });
  if (reference !== undefined) {
    axis.push(`<path class="full" d="M${(LEFT + across(reference)).toFixed(1)} ${TOP}V${bottom}"/>`);
  }
  const height = bottom + FOOT;
  axis.push(`<text class="small middle" x="${LEFT + ACROSS / 2}" y="${bottom + 32}">${escaped(unit)}</text>`);
  const frame = { left: LEFT, height, machine, date, title: heading, heading };
  return picture(frame, [...axis, ...drawn, ...legendOf(kinds, frame)]);
}

/** Every contestant against clamd as Debian configures it, scenario by scenario. */
export function ratiosOf(blocks: readonly Block[], { machine, date }: Pick<Figures, 'machine' | 'date'>): string {
  const groups = blocks.map(({ scenario, results }) => ({
    name: scenario,
    bars: results.map(({ contestant, ratioToClamd }) => ({ name: contestant, value: ratioToClamd })),
  }));
  const threads = [...new Set(blocks.map((block) => block.threads))].join(', ');
  const heading = `Scans a second, as times of clamd's with nothing remembered; ${threads} scan thread(s), clamd: 12`;
  return barsOf({ heading, unit: 'times as many as clamd', reference: 1, groups, machine, date });
}

/** Of a table whose first column has names: a group for each of some other columns, all of one unit. */
export function columnsOf(
  { columns, rows, machine, date }: Figures,
  { heading, unit, of }: { readonly heading: string; readonly unit: string; readonly of: readonly string[] },
): string {
  const groups = of.map((column) => ({
    name: column,
    bars: rows.map((row) => {
      const value = Number.parseFloat(row[columns.indexOf(column)] ?? '');
      return { name: row[0] ?? '', value: Number.isFinite(value) ? value : null };
    }),
  }));
  return barsOf({ heading, unit, groups, machine, date });
}
