// The alternating rounds of one scenario: every contestant once a round, in an order that rotates from round to round.
import type { Contestant, Measurement } from './contestants/contestant.js';
import { cpuSeconds, untilIdle } from './cpu.js';
import { median } from './median.js';

export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

export interface Result {
  readonly contestant: string;
  readonly connections: number | null;
  readonly note: string | null;
  readonly rounds: number;
  /** Rounds with an error in them; they count nowhere else. */
  readonly invalidRounds: number;
  readonly firstError: string | null;
  readonly scans: number;
  readonly scansPerSecond: Spread | null;
  /** Medians of the ratios round by round, so that a machine that slows down slows both sides. */
  readonly ratioToRaw: number | null;
  readonly ratioToClamd: number | null;
  readonly p50Us: number | null;
  readonly p95Us: number | null;
  readonly p99Us: number | null;
  readonly cpuUsPerScan: number | null;
  readonly clientCpuUsPerScan: number | null;
}

export interface Entrant {
  readonly contestant: Contestant;
  readonly note: string | null;
}

interface Round extends Measurement {
  readonly cpuSeconds: number;
}

export async function runRounds(
  entrants: readonly Entrant[],
  { rounds, seconds }: { rounds: number; seconds: number },
): Promise<readonly Result[]> {
  const runs = entrants.map((entrant) => ({ entrant, done: [] as Round[] }));
  for (let round = 0; round < rounds; round += 1) {
    const turn = round % runs.length;
    for (const { entrant, done } of [...runs.slice(turn), ...runs.slice(0, turn)]) {
      done.push(await runOne(entrant.contestant, seconds));
    }
  }
  const of = (name: string) => runs.find((one) => one.entrant.contestant.name === name)?.done ?? [];
  return runs.map(({ entrant, done }) => summarise(entrant, done, { raw: of('raw'), clamd: of('clamd') }));
}

async function runOne(contestant: Contestant, seconds: number): Promise<Round> {
  const before = cpuSeconds(contestant.pid);
  const measured = await contestant.run(seconds);
  await untilIdle(contestant.pid);
  return { ...measured, cpuSeconds: cpuSeconds(contestant.pid) - before };
}

function summarise(
  { contestant, note }: Entrant,
  done: readonly Round[],
  references: { raw: readonly Round[]; clamd: readonly Round[] },
): Result {
  const valid = done.filter(isValid);
  const rates = valid.map(rate);
  const scans = valid.reduce((sum, one) => sum + one.scans, 0);
  return {
    contestant: contestant.name,
    connections: contestant.connections,
    note,
    rounds: done.length,
    invalidRounds: done.length - valid.length,
    firstError: done.find((one) => !isValid(one))?.firstError ?? null,
    scans,
    scansPerSecond: rates.length === 0 ? null : spread(rates),
    ratioToRaw: pairedRatio(done, references.raw),
    ratioToClamd: pairedRatio(done, references.clamd),
    p50Us: medianOf(valid, (one) => one.p50Us),
    p95Us: medianOf(valid, (one) => one.p95Us),
    p99Us: medianOf(valid, (one) => one.p99Us),
    cpuUsPerScan: medianOf(valid, (one) => (one.cpuSeconds / one.scans) * 1e6),
    clientCpuUsPerScan: medianOf(valid, (one) =>
      one.clientCpuSeconds === undefined ? undefined : (one.clientCpuSeconds / one.scans) * 1e6,
    ),
  };
}

function isValid(round: Round): boolean {
  return round.errors === 0 && round.scans > 0;
}

function rate(round: Round): number {
  return round.scans / round.seconds;
}

function pairedRatio(done: readonly Round[], reference: readonly Round[]): number | null {
  const ratios = done.flatMap((one, index) => {
    const other = reference[index];
    return other !== undefined && isValid(one) && isValid(other) ? rate(one) / rate(other) : [];
  });
  return ratios.length === 0 ? null : median(ratios);
}

function medianOf(rounds: readonly Round[], value: (round: Round) => number | undefined): number | null {
  const values = rounds.flatMap((one) => value(one) ?? []);
  return values.length === 0 ? null : median(values);
}

function spread(values: readonly number[]): Spread {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) };
}
