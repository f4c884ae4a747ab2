// Learning from clean files what gates must not be made of: one pass, in which libclamav opens them and windows of their bytes are counted.
import { availableParallelism } from 'node:os';
import { ownSignaturesDirectory } from '../paths.js';
import { defaultEngineLimits, prepareEngine, scanBuffer, windowCounts } from './clamav/addon.js';
import { type GateFacts, prepareGatesApart, windowsForGatesApart } from './clamav/gates/prepare.js';
import { commonWindows, keepLearned } from './clamav/gates/prior.js';
import { databaseFiles } from './databases.js';
import { makeScratch } from './scratch.js';

export interface TuneOptions {
  readonly directories: readonly string[];
  /** Where the files of gates are kept, and what is learned. */
  readonly gatesDirectory: string;
  /** Clean; each is opened once. */
  readonly contents: () => AsyncIterable<Uint8Array>;
  /** Before the contents: how far it is with all that gates could be made of, 0 to 1. */
  readonly onListing: (fraction: number) => void;
  /** Behind them, when gates are made anew. */
  readonly onMaking: () => void;
}

export interface TuneResult {
  readonly contents: number;
  /** Windows that were not known before to be in clean content. */
  readonly learned: number;
  /** Of the gates that the next load has. */
  readonly facts: GateFacts;
}

/** Rejects when the signatures can't be read, or what was learned can't be kept. */
export async function tune({ directories, gatesDirectory, ...options }: TuneOptions): Promise<TuneResult> {
  for (const directory of directories) {
    if ((await databaseFiles(directory)).length === 0)
      throw new Error(`There is no signature database in ${directory}`);
  }
  const scratch = makeScratch();
  try {
    // Few signatures: what takes the time is opening the files.
    const engine = await prepareEngine({
      directories: [ownSignaturesDirectory],
      temporaryDirectory: scratch.directory,
      limits: defaultEngineLimits,
      windows: await windowsForGatesApart({ directories, directory: gatesDirectory }, options.onListing),
    });
    engine.serve();
    let count = 0;
    for await (const content of options.contents()) {
      scanBuffer(content);
      count += 1;
    }
    const common = commonWindows(windowCounts() ?? new Float64Array(), count);
    const learned = await keepLearned(gatesDirectory, common);
    options.onMaking();
    const { facts } = await prepareGatesApart({
      directories,
      directory: gatesDirectory,
      threads: availableParallelism(),
    });
    return { contents: count, learned, facts };
  } finally {
    scratch.remove();
  }
}
