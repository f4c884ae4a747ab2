// What a soak has seen, as lines while it runs and as a table of its quarters.
import type { Figures } from '../../bench/figures.js';
import type { Held, Holdings } from './observer.js';
import type { UnansweredGroup } from './unanswered.js';

/** A part of the run: a minute, or a quarter of a shorter one. */
export interface Minute {
  /** Minutes from the beginning. */
  readonly end: number;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** At its end. */
  readonly held: Holdings;
  readonly temporaryFiles: number;
}

export interface SoakReport {
  readonly sent: number;
  readonly answered: number;
  readonly rows: number;
  /** What had no answer. `rows` beyond `answered` are scans of these: their clients repeat what was done. */
  readonly unanswered: readonly UnansweredGroup[];
  readonly faults: Readonly<Record<string, number>>;
  readonly minutes: readonly Minute[];
  readonly problems: readonly string[];
}

const MIB = 1024 * 1024;
const QUARTERS = ['first quarter', 'second', 'third', 'last'];
const PROCESSES = ['server', 'supervisor', 'database'] as const;

export function sayMinute({ end, outcomes, p50Ms, p99Ms, held, temporaryFiles }: Minute): string {
  const counts = Object.entries(outcomes).map(([outcome, count]) => `${outcome} ${count}`);
  const processes = Object.entries(held).map(
    ([name, { privateBytes, descriptors, threads }]) =>
      `${name} ${Math.round(privateBytes / MIB)} MiB, ${descriptors} descriptors, ${threads} threads`,
  );
  const times = `p50 ${p50Ms} ms, p99 ${p99Ms} ms`;
  return `${end.toFixed(1)} min: ${counts.join(', ')}; ${times}; ${processes.join('; ')}; ${temporaryFiles} temporary files`;
}

/** With the threads: those that stand in on a busy machine have some MiB each. */
export function meanOf(held: readonly Held[]): { readonly mib: number; readonly said: string } {
  const [mib, threads] = [mean(held.map((each) => each.privateBytes / MIB)), mean(held.map((each) => each.threads))];
  return { mib, said: `${mib.toFixed(0)} MiB with ${threads.toFixed(1)} threads` };
}

/** A column for each quarter of the run, and one for the whole of it. */
export function figuresOf({ minutes, rows, faults, problems }: SoakReport): Pick<Figures, 'columns' | 'rows'> {
  const length = Math.floor(minutes.length / QUARTERS.length);
  const parts = [...QUARTERS.map((_, at) => minutes.slice(at * length, (at + 1) * length)), minutes];
  const row = (name: string, say: (part: readonly Minute[]) => string): string[] => [name, ...parts.map(say)];
  const whole = (name: string, count: number): string[] => [name, ...QUARTERS.map(() => ''), String(count)];
  return {
    columns: ['', ...QUARTERS, 'all'],
    rows: [
      row('verdicts', (part) => countOf(part, /^(?:clean|infected)$/)),
      row('documented refusals', (part) => countOf(part, /^status 4/)),
      row('503', (part) => countOf(part, /^status 503$/)),
      row('no answer', (part) => countOf(part, /^no answer$/)),
      row('p50 of a minute, ms', (part) => mean(part.map(({ p50Ms }) => p50Ms)).toFixed(1)),
      row('p99 of a minute, ms', (part) => mean(part.map(({ p99Ms }) => p99Ms)).toFixed(1)),
      ...PROCESSES.map((name) =>
        row(`${name}: private memory, MiB`, (part) => meanOf(part.map(({ held }) => held[name])).mib.toFixed(0)),
      ),
      row('server: threads', (part) => mean(part.map(({ held }) => held.server.threads)).toFixed(1)),
      ...PROCESSES.map((name) =>
        row(`${name}: open descriptors at the end`, (part) => String(part.at(-1)?.held[name].descriptors)),
      ),
      row('temporary files at the end', (part) => String(part.at(-1)?.temporaryFiles)),
      whole('rows of the history', rows),
      ...Object.entries(faults).map(([name, count]) => whole(`fault: ${name}`, count)),
      whole('lost, doubled, wrong or left behind', problems.length),
    ],
  };
}

function countOf(part: readonly Minute[], outcome: RegExp): string {
  const counts = part.flatMap(({ outcomes }) => Object.entries(outcomes).filter(([name]) => outcome.test(name)));
  return String(counts.reduce((sum, [, count]) => sum + count, 0));
}

function mean(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0) / Math.max(1, values.length);
}
