// What is counted of each scan and each HTTP request, in plain numbers: the registry's own counters would make a text of the labels, and look it up, for each of them.
// The registry asks for each figure when somebody asks for it.
import { Gauge, type Registry } from 'prom-client';
import type { TurnKind } from '../engine/threads/thread-scan.js';
import type { UnavailableReason } from '../errors.js';
import type { EndedScan } from '../scan/scan.js';

/** Seconds inside the engine: from a small file to one that takes its whole deadline. */
const SCAN_SECONDS = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60];

/** Seconds before a thread: nothing at all, up to the deadline. */
const WAIT_SECONDS = [0.001, 0.01, 0.03, 0.1, 0.3, 0.6, 1, 3, 10, 30, 60];

/** Bytes of a content, at most, and what such contents are called. */
const SIZES = [
  [4 * 1024, '4KB'],
  [64 * 1024, '64KB'],
  [1024 * 1024, '1MB'],
  [Number.POSITIVE_INFINITY, 'more'],
] as const;

/** Scans of which the same is said. */
interface Kind {
  readonly protocol: EndedScan['protocol'];
  readonly status: number;
  readonly failure: string | null;
  readonly isInfected: boolean;
  readonly outcome: string;
  readonly engine: string;
  readonly cache: 'hit' | 'miss' | 'none';
  count: number;
}

export class ScanMetrics {
  readonly #kinds: Kind[] = [];
  #bytes = 0;
  /** Of each of the sizes. */
  readonly #seconds = SIZES.map(([most, size]) => ({ most, size, buckets: new Buckets(SCAN_SECONDS) }));
  readonly #waits: Readonly<Record<TurnKind, Buckets>> = {
    alone: new Buckets(WAIT_SECONDS),
    shared: new Buckets(WAIT_SECONDS),
    standIn: new Buckets(WAIT_SECONDS),
  };

  /** By the reason. */
  readonly #refusals = new Map<UnavailableReason, number>();

  readonly #turnedAway: { readonly protocol: EndedScan['protocol']; readonly failure: string; count: number }[] = [];

  /** By what libclamav says a content is; it knows some hundred names. */
  readonly #types = new Map<string, { scans: number; seconds: number }>();

  constructor(registry: Registry) {
    const kinds = this.#kinds;
    register(registry, {
      sluice_scans_total: counter(
        'Scans that were admitted, by what came of them and what has looked; cache: hit, miss, or none when nothing has.',
        () => summed(kinds, ({ outcome, engine, cache }) => ({ outcome, engine, cache })),
      ),
      sluice_scan_failures_total: counter(
        'Scans that were admitted and have no verdict, by the code of the failure; of a 503 with its reason.',
        () => summed(kinds, ({ failure }) => (failure === null ? null : { failure })),
      ),
      sluice_scans_by_protocol_total: counter(
        'Scans that were admitted, by the protocol that they came by and what came of them.',
        () => summed(kinds, ({ protocol, outcome }) => ({ protocol, outcome })),
      ),
      sluice_scans_refused_total: counter(
        'Scans that were refused with 503 before their admission, since too many wait, by the reason. They take no unit and have no row.',
        () => Array.from(this.#refusals, ([reason, value]) => ({ labels: { reason }, value })),
      ),
      sluice_admissions_refused_total: counter(
        "Scans by clamd's protocol and ICAP that were not admitted, by protocol and code of the failure; those by HTTP are in sluice_http_requests_total. They take no unit and have no row.",
        () => this.#turnedAway.map(({ count, ...labels }) => ({ labels, value: count })),
      ),
      sluice_scanned_bytes_total: counter('Bytes of contents with a verdict.', () => this.#bytes),
    });
    const what = 'contents that the engine has looked at, by what libclamav says they are';
    register(registry, {
      sluice_scans_by_type_total: counter(`Number of ${what}.`, () =>
        Array.from(this.#types, ([type, { scans }]) => ({ labels: { type }, value: scans })),
      ),
      sluice_scan_seconds_by_type_total: counter(`Seconds inside the engine, of ${what}.`, () =>
        Array.from(this.#types, ([type, { seconds }]) => ({ labels: { type }, value: seconds })),
      ),
      sluice_scan_seconds: histogram(
        'Time inside the engine, of contents that it has looked at, by their size: at most 4KB, 64KB, 1MB, or more.',
        (name) => this.#seconds.flatMap(({ size, buckets }) => buckets.samples(name, { size })),
      ),
    });
    const { alone, shared, standIn } = this.#waits;
    register(registry, {
      sluice_scan_wait_seconds: histogram(
        'Time before a thread, of scans that had one; class: alone (no other account had scans), shared (others had), stand_in (all threads were at long scans, and one beside them took it).',
        (name) => [
          ...alone.samples(name, { class: 'alone' }),
          ...shared.samples(name, { class: 'shared' }),
          ...standIn.samples(name, { class: 'stand_in' }),
        ],
      ),
    });
  }

  readonly ended = (scan: EndedScan): void => {
    const { wholeBytes, lookedBy } = scan;
    const engine = lookedBy?.label ?? 'none';
    const cache = lookedBy === null ? 'none' : scan.looked === 'now' ? 'miss' : 'hit';
    this.#kindOf(scan, engine, cache).count += 1;
    if (wholeBytes !== null) this.#bytes += wholeBytes;
    if (scan.turn !== null) this.#waits[scan.turn].observe((scan.begunMs - scan.askedMs) / 1000);
    if (cache !== 'miss') return;
    const seconds = scan.durationMs / 1000;
    for (const { most, buckets } of this.#seconds) {
      if ((wholeBytes ?? 0) > most) continue;
      buckets.observe(seconds);
      break;
    }
    const type = scan.detectedType ?? 'unknown';
    const known = this.#types.get(type);
    if (known === undefined) this.#types.set(type, { scans: 1, seconds });
    else {
      known.scans += 1;
      known.seconds += seconds;
    }
  };

  /** Before its admission, since too many wait. */
  readonly refused = (reason: UnavailableReason): void => {
    this.#refusals.set(reason, (this.#refusals.get(reason) ?? 0) + 1);
  };

  readonly turnedAway = (protocol: EndedScan['protocol'], failure: string): void => {
    const known = this.#turnedAway.find((each) => each.protocol === protocol && each.failure === failure);
    if (known === undefined) this.#turnedAway.push({ protocol, failure, count: 1 });
    else known.count += 1;
  };

  /** There are a few dozen, of which the first one or two are nearly all. */
  #kindOf(scan: EndedScan, engine: string, cache: Kind['cache']): Kind {
    const { protocol, status, failure } = scan;
    const isInfected = scan.virusName !== null;
    for (const kind of this.#kinds) {
      if (kind.isInfected !== isInfected || kind.protocol !== protocol || kind.status !== status) continue;
      if (kind.failure === failure && kind.engine === engine && kind.cache === cache) return kind;
    }
    const kind = { protocol, status, failure, isInfected, outcome: outcomeOf(scan), engine, cache, count: 0 };
    this.#kinds.push(kind);
    return kind;
  }
}

/** Kinds of the same labels together; null: that kind doesn't count. */
function summed(kinds: readonly Kind[], labelsOf: (kind: Kind) => Record<string, string> | null): Sample[] {
  const samples = new Map<string, { labels: Record<string, string>; value: number }>();
  for (const kind of kinds) {
    const labels = labelsOf(kind);
    if (labels === null) continue;
    const name = JSON.stringify(labels);
    const { value } = samples.get(name) ?? { value: 0 };
    samples.set(name, { labels, value: value + kind.count });
  }
  return [...samples.values()];
}

/** `rejected`: the client's fault; `failed`: ours; `incomplete`: not all of it was looked at; `unavailable`: the URL could not be fetched. */
function outcomeOf({ status, virusName, failure }: EndedScan): string {
  switch (failure) {
    case null:
      return virusName === null ? 'clean' : 'infected';
    case 'downloadFailed':
      return 'unavailable';
    case 'scanIncomplete':
      return 'incomplete';
    case 'clientGone':
      return 'aborted';
    default:
      return status >= 500 ? 'failed' : 'rejected';
  }
}

/** How many values there were up to each bound. */
class Buckets {
  readonly bounds: readonly number[];
  /** One for each bound, and one for what is above all of them. */
  readonly counts: Float64Array;
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const { bounds, counts } = this;
    let index = 0;
    while (index < bounds.length && value > (bounds[index] ?? 0)) index += 1;
    counts[index] = (counts[index] ?? 0) + 1;
    this.sum += value;
  }

  /** As a histogram has them. Of a class of which nothing was seen yet there are none. */
  samples(name: string, labels: Readonly<Record<string, string>>): Sample[] {
    const samples: Sample[] = [];
    let upTo = 0;
    for (const [index, count] of this.counts.entries()) {
      upTo += count;
      const le = this.bounds[index] ?? '+Inf';
      samples.push({ labels: { ...labels, le }, value: upTo, metricName: `${name}_bucket` });
    }
    const sum = { labels, value: this.sum, metricName: `${name}_sum` };
    return upTo === 0 ? [] : [...samples, sum, { labels, value: upTo, metricName: `${name}_count` }];
  }
}

export class RequestMetrics {
  /** By route, then by status; 0: the client left before its answer. */
  readonly #counts = new Map<string, Map<number, number>>();

  constructor(registry: Registry) {
    register(registry, {
      sluice_http_requests_total: counter(
        'HTTP requests that have ended, by route and status. Route none: there is no such route; status gone: the client left before its answer.',
        () =>
          [...this.#counts].flatMap(([route, byStatus]) =>
            Array.from(byStatus, ([status, value]) => ({
              labels: { route, status: status === 0 ? 'gone' : status },
              value,
            })),
          ),
      ),
    });
  }

  /** Status null: the client went away before its answer was out. */
  readonly answered = (route: string, status: number | null): void => {
    let byStatus = this.#counts.get(route);
    if (byStatus === undefined) {
      byStatus = new Map();
      this.#counts.set(route, byStatus);
    }
    byStatus.set(status ?? 0, (byStatus.get(status ?? 0) ?? 0) + 1);
  };
}

export interface Sample {
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
  /** Of a part of a histogram. */
  readonly metricName?: string;
}

interface FigureFacts {
  readonly type: 'gauge' | 'counter' | 'histogram';
  readonly help: string;
  /** One figure, or one for each set of labels; null: it is absent. `name`: its own. */
  readonly read: (name: string) => Values | null | Promise<Values | null>;
}

type Values = number | readonly Sample[];

export const gauge = (help: string, read: FigureFacts['read']): FigureFacts => ({ type: 'gauge', help, read });

/** 1 or 0. */
export const flag = (help: string, read: () => boolean): FigureFacts => gauge(help, () => Number(read()));

export const counter = (help: string, read: FigureFacts['read']): FigureFacts => ({ type: 'counter', help, read });

const histogram = (help: string, read: FigureFacts['read']): FigureFacts => ({ type: 'histogram', help, read });

/** Figures by their names. */
export function register(registry: Registry, figures: Readonly<Record<string, FigureFacts>>): void {
  for (const [name, facts] of Object.entries(figures)) new Figure(registry, name, facts);
}

class Figure extends Gauge<string> {
  readonly #name: string;
  readonly #facts: FigureFacts;

  constructor(registry: Registry, name: string, facts: FigureFacts) {
    super({ name, help: facts.help, registers: [registry] });
    this.#name = name;
    this.#facts = facts;
  }

  /** What the registry asks for, before it asks for what the library keeps itself. */
  async getForPromString() {
    const { type, help, read } = this.#facts;
    const values = (await read(this.#name)) ?? [];
    return {
      name: this.#name,
      help,
      type,
      values: typeof values === 'number' ? [{ labels: {}, value: values }] : values,
    };
  }
}
