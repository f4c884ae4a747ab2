// The results as text for a terminal and as a JSON document; neither names a folder of the machine.
import { availableParallelism, cpus, release, totalmem, type } from 'node:os';
import type { Figures } from './figures.js';
import type { FileSet } from './files.js';
import type { Result } from './rounds.js';
import { promise } from './scenarios.js';

export interface Block {
  readonly scenario: string;
  readonly threads: number;
  readonly files: Omit<FileSet, 'listPath'>;
  readonly results: readonly Result[];
}

export interface Report {
  readonly date: string;
  readonly machine: {
    readonly cpu: string;
    readonly cores: number;
    readonly memoryBytes: number;
    readonly kernel: string;
    readonly node: string;
    readonly libclamav: string;
  };
  readonly database: { readonly name: string; readonly signatures: number };
  readonly rounds: number;
  readonly secondsPerRound: number;
  readonly blocks: readonly Block[];
}

export function describeMachine(libclamav: string): Report['machine'] {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    kernel: `${type()} ${release()}`,
    node: process.version,
    libclamav,
  };
}

const columns = [
  'contestant',
  'scans/s',
  'min-max',
  '/raw',
  '/clamd',
  'p50 ms',
  'p99 ms',
  'cpu us/scan',
  'client us/scan',
] as const;

export function formatBlock(block: Block): string {
  const { files } = block;
  const what = files.unique
    ? `${files.totalBytes} bytes, unique per scan`
    : `${files.count} files, ${files.totalBytes} bytes together, ${files.leftOut} more left out as not clean`;
  const rows = [[...columns], ...block.results.map(formatRow)];
  const widths = columns.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const lines = rows.map((row) => row.map((cell, column) => pad(cell, widths[column] ?? 0, column)).join('  '));
  return [`${block.scenario} (${what}), ${block.threads} scan thread(s)`, ...lines, ...notes(block)].join('\n');
}

function pad(cell: string, width: number, column: number): string {
  return column === 0 ? cell.padEnd(width) : cell.padStart(width);
}

function formatRow(result: Result): string[] {
  const { scansPerSecond: rate } = result;
  const label = result.connections === null ? result.contestant : `${result.contestant} (${result.connections} conn.)`;
  return [
    label,
    number(rate?.median ?? null),
    rate === null ? '-' : `${number(rate.min)}-${number(rate.max)}`,
    result.ratioToRaw?.toFixed(2) ?? '-',
    result.ratioToClamd?.toFixed(2) ?? '-',
    milliseconds(result.p50Us),
    milliseconds(result.p99Us),
    number(result.cpuUsPerScan),
    number(result.clientCpuUsPerScan),
  ];
}

function number(value: number | null): string {
  if (value === null) return '-';
  return value >= 100 ? value.toFixed(0) : value.toFixed(1);
}

function milliseconds(microseconds: number | null): string {
  return microseconds === null ? '-' : (microseconds / 1_000).toFixed(2);
}

function notes(block: Block): string[] {
  return block.results.flatMap((result) => {
    const invalid =
      result.invalidRounds === 0
        ? []
        : [`! ${result.contestant}: ${result.invalidRounds} of ${result.rounds} rounds invalid: ${result.firstError}`];
    return result.note === null ? invalid : [`  ${result.contestant}: ${result.note}`, ...invalid];
  });
}

const titles: Readonly<Record<string, string>> = { raw: 'plain loop', sluice: 'Sluice' };

/** Rows of the documents' tables: what was scanned, how many times a second by whom, and the service against the others. */
export function figuresOf({ blocks, database }: Report): Pick<Figures, 'columns' | 'rows'> {
  const names = [...new Set(blocks.flatMap(({ results }) => results.map(({ contestant }) => contestant)))];
  const services = names.filter((name) => name.startsWith('sluice'));
  const others = names.filter((name) => name.startsWith('clamd'));
  const pairs = [
    ...services.slice(0, 1).map((service) => [service, 'raw'] as const),
    ...services.flatMap((service) => others.map((other) => [service, other] as const)),
  ];
  const title = (name: string): string => titles[name] ?? name;
  const rows = blocks.map(({ scenario, threads, results }) => {
    const rateOf = (name: string): number | null =>
      results.find(({ contestant }) => contestant === name)?.scansPerSecond?.median ?? null;
    const ratios = pairs.map(([service, other]) => ratio(results, service, other)?.toFixed(2) ?? '-');
    const facts = [scenario, String(database.signatures), String(threads)];
    return [...facts, ...names.map((name) => number(rateOf(name))), ...ratios];
  });
  const ratios = pairs.map(([service, other]) => `${title(service)} / ${title(other)}`);
  return { columns: ['content', 'signatures', 'threads', ...names.map(title), ...ratios], rows };
}

/** Of each round where it is known, otherwise of the medians. */
function ratio(results: readonly Result[], name: string, other: string): number | null {
  const one = results.find(({ contestant }) => contestant === name);
  if (other === 'raw') return one?.ratioToRaw ?? null;
  if (other === 'clamd') return one?.ratioToClamd ?? null;
  const against = results.find(({ contestant }) => contestant === other)?.scansPerSecond;
  if (one?.scansPerSecond == null || against == null) return null;
  return one.scansPerSecond.median / against.median;
}

/** A line for each result that both reports have. */
export function compareReports(before: Report, after: Report): string[] {
  return after.blocks.flatMap(({ scenario, threads, results }) => {
    const old = before.blocks.find((block) => block.scenario === scenario && block.threads === threads)?.results;
    return results.flatMap(({ contestant, scansPerSecond, ratioToClamd }) => {
      const then = old?.find((one) => one.contestant === contestant);
      if (then === undefined) return [];
      const clamd = `of clamd ${then.ratioToClamd?.toFixed(2) ?? '-'} then, ${ratioToClamd?.toFixed(2) ?? '-'} now`;
      const rates = `${number(then.scansPerSecond?.median ?? null)} then, ${number(scansPerSecond?.median ?? null)} now`;
      return [`${scenario}, ${threads} thread(s), ${contestant}: ${rates}; ${clamd}`];
    });
  });
}

/** One line per thread count on whether the promise about overhead is kept. */
export function formatPromise(blocks: readonly Block[]): string[] {
  return blocks
    .filter((block) => block.scenario === promise.scenario)
    .flatMap((block) => {
      const ratio = block.results.find((one) => one.contestant === promise.contestant)?.ratioToRaw ?? null;
      if (ratio === null) return [];
      const verdict = ratio >= promise.ratioToRaw ? 'kept' : 'NOT kept';
      return [
        `${promise.contestant} / raw at ${promise.scenario}, ${block.threads} thread(s): ${ratio.toFixed(2)}, promised ${promise.ratioToRaw}: ${verdict}`,
      ];
    });
}
