// What every contestant is to the rounds: something that scans a set of files for some seconds and says how many it did.
import { z } from 'zod';
import type { FileSet } from '../files.js';
import type { LineProcess } from '../line-process.js';

/** What a round's answer line carries; latencies only where there is a client. */
const measurement = z.object({
  scans: z.number(),
  seconds: z.number(),
  errors: z.number(),
  firstError: z.string(),
  p50Us: z.number().optional(),
  p95Us: z.number().optional(),
  p99Us: z.number().optional(),
  /** Of an open loop: the time in which those began that are counted. */
  countedSeconds: z.number().optional(),
  /** Answers of 503, where they are no errors. */
  refused: z.number().optional(),
  /** Of both, those that came before the end: what a rate is made of. */
  takenInTime: z.number().optional(),
  refusedInTime: z.number().optional(),
  refusedP50Us: z.number().optional(),
  refusedP99Us: z.number().optional(),
  /** From the first byte of its request, and not from when it was due. */
  refusedSinceSentP99Us: z.number().optional(),
  /** Of an open loop: scans that were due when every connection was busy, so that their time is the client's as well. */
  foundNone: z.number().optional(),
  clientCpuSeconds: z.number().optional(),
});

export type Measurement = z.infer<typeof measurement>;

export interface Contestant {
  readonly name: string;
  /** The process whose CPU time counts, with all below it. */
  readonly pid: number;
  /** Connections of the client; null where there is none. */
  readonly connections: number | null;
  /** Takes the files into memory; what it says is shown beside the results. */
  use(files: FileSet): Promise<string | null>;
  run(seconds: number): Promise<Measurement>;
  stop(): Promise<void>;
}

/** Of an open loop: a scan that is due hardly ever waits for one. */
const PACED_CONNECTIONS = 64;
/** A scan that is due finds one, also when each waits for as long as the service lets it. */
const OVERLOAD_CONNECTIONS = 4_000;

export interface PacedContestant extends Contestant {
  /** An open loop: so many scans a second, whatever the answers do; each one's time counts from when it was due. */
  pace(seconds: number, rate: number): Promise<Measurement>;
}

export interface Setting {
  readonly databaseDirectory: string;
  readonly threads: number;
  /** Files of gates with what was learned of noise; default null: nothing was. */
  readonly gatesStore?: string | null;
  /** The limit of open files; default null: as it is. Above the hard one only root may set it. */
  readonly openFiles?: number | null;
  /** A folder of this run, removed at its end. */
  readonly folder: string;
}

export async function askForFiles(process: LineProcess, files: FileSet): Promise<void> {
  const answer = await process.ask(`files ${files.unique ? 'unique' : 'fixed'} ${files.listPath}`);
  if (answer !== `ready ${files.count}`) throw new Error(`the files could not be taken: ${answer}`);
}

export async function askForRun(process: LineProcess, command: string): Promise<Measurement> {
  const answer = await process.ask(command);
  if (!answer.startsWith('done ')) throw new Error(`a round was answered with: ${answer}`);
  return measurement.parse(JSON.parse(answer.slice('done '.length)));
}

/** The same with many more clients than the service can answer in time; a 503 is no error. */
export function askForOverload(
  process: LineProcess,
  seconds: number,
  rate: number,
  connections = OVERLOAD_CONNECTIONS,
): Promise<Measurement> {
  return askForRun(process, `overload ${seconds} ${connections} ${rate}`);
}

export function askForPace(process: LineProcess, seconds: number, rate: number): Promise<Measurement> {
  return askForRun(process, `pace ${seconds} ${PACED_CONNECTIONS} ${rate}`);
}
