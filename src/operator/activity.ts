// What scans have come to lately: by day and outcome from the database, for all nodes; errors by kind and the slowest scans from this process.
import { z } from 'zod';
import { OutcomeDays } from '../history/days.js';
import type { EndedScan } from '../scan/scan.js';
import { WireTime, wireTime } from '../wire-time.js';

const Scan = z.object({
  id: z.uuid().nullable().describe('null: it was not recorded'),
  userId: z.string().nullable(),
  at: WireTime,
  durationMillis: z.int(),
  sizeInBytes: z.int().nullable(),
  status: z.int(),
  error: z.string().nullable(),
});
type Scan = z.infer<typeof Scan>;

export const ActivityView = z
  .object({
    days: OutcomeDays.describe('All nodes, days of UTC'),
    since: WireTime.describe('The next two are of the process that answers, since its start'),
    errors: z.array(z.object({ kind: z.string(), count: z.int(), lastAt: WireTime, examples: z.array(Scan) })),
    slowest: z.array(Scan),
  })
  .meta({ id: 'Activity' });
export type ActivityView = z.infer<typeof ActivityView>;

const EXAMPLES = 3;
const SLOWEST = 20;
/** Kinds are rows of the error table; more than that is not kept. */
const KINDS_MAX = 200;

interface Kind {
  count: number;
  lastMs: number;
  examples: Scan[];
}

/** What one process remembers of its scans. Bounded: a scan that is quick and has a verdict costs one comparison. */
export class Activity {
  readonly #now: () => number;
  readonly #since: number;
  readonly #kinds = new Map<string, Kind>();
  #slowest: Scan[] = [];
  /** A scan that took no longer, in whole milliseconds, is not among the slowest. */
  #slowMs = -1;

  constructor(now: () => number) {
    this.#now = now;
    this.#since = now();
  }

  ended(scan: EndedScan): void {
    if (scan.failure !== null) this.#fail(scan.failure, scan);
    if (Math.round(scan.durationMs) <= this.#slowMs) return;
    this.#slowest = [...this.#slowest, this.#seen(scan)]
      .sort((one, other) => other.durationMillis - one.durationMillis)
      .slice(0, SLOWEST);
    if (this.#slowest.length === SLOWEST) this.#slowMs = this.#slowest.at(-1)?.durationMillis ?? -1;
  }

  #fail(failure: string, scan: EndedScan): void {
    const kind = this.#kinds.get(failure) ?? { count: 0, lastMs: 0, examples: [] };
    if (kind.count === 0 && this.#kinds.size >= KINDS_MAX) return;
    kind.count += 1;
    kind.lastMs = this.#now();
    kind.examples = [this.#seen(scan), ...kind.examples].slice(0, EXAMPLES);
    this.#kinds.set(failure, kind);
  }

  #seen({ scanId, account, durationMs, wholeBytes, status, error }: EndedScan): Scan {
    return {
      id: scanId,
      userId: account,
      at: wireTime(new Date(this.#now())),
      durationMillis: Math.round(durationMs),
      sizeInBytes: wholeBytes,
      status,
      error,
    };
  }

  view(days: ActivityView['days']): ActivityView {
    const kinds = [...this.#kinds].sort(([, one], [, other]) => other.count - one.count);
    return {
      days,
      since: wireTime(new Date(this.#since)),
      errors: kinds.map(([kind, { count, lastMs, examples }]) => ({
        ...{ kind, count, lastAt: wireTime(new Date(lastMs)), examples },
      })),
      slowest: this.#slowest,
    };
  }
}
