// Learning from clean content which gates hit for nothing: one round, with an engine in this process.
import { type GateStatistics, scanBuffer } from './clamav/addon.js';
import { loadSignatures } from './signatures.js';

export interface TuneOptions {
  readonly directories: readonly string[];
  /** Where the files of gates are kept, and what is learned. */
  readonly gatesDirectory: string;
  /** Content that no signature matches; each is scanned once. */
  readonly contents: () => AsyncIterable<Uint8Array>;
  /** From 0 to 1. */
  readonly onProgress: (fraction: number) => void;
  readonly onLoaded: () => void;
}

/** The contents are chosen by somebody who may be believed. */
const RULE = { leastTimes: 1, most: Number.POSITIVE_INFINITY };

export interface TuneResult extends Pick<GateStatistics, 'scans' | 'secondLooks' | 'inVain'> {
  /** Gates that the next load gives up. */
  readonly learned: number;
}

const SCAN_TIMEOUT_MS = 60_000;

/** Rejects when the signatures can't be loaded, or what was learned can't be kept. */
export async function tuneOnce({ contents, onLoaded, ...options }: TuneOptions): Promise<TuneResult> {
  const signatures = loadSignatures({ ...options, mayStandIn: false, scanTimeoutMs: SCAN_TIMEOUT_MS });
  try {
    const { gates } = await signatures.ready();
    onLoaded();
    for await (const content of contents()) scanBuffer(content);
    const learned = (await gates?.learn(RULE)) ?? 0;
    const { scans, secondLooks, inVain } = gates?.statistics() ?? { scans: 0, secondLooks: 0, inVain: 0 };
    return { scans, secondLooks, inVain, learned };
  } finally {
    await signatures.stop();
  }
}
