// What is counted of each scan and each HTTP request, in plain numbers: the registry's own counters would make a text of the labels, and look it up, for each of them. It asks when it is asked.
import { Counter, Histogram, type Registry } from 'prom-client';
import type { TurnKind } from '../engine/threads/lane.js';
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
  readonly #seconds = SIZES.map(([most, size]) => ({ most, labels: { size }, buckets: new Buckets(SCAN_SECONDS) }));
  readonly #waits: Readonly<Record<TurnKind, Buckets>> = {
    alone: new Buckets(WAIT_SECONDS),
    shared: new Buckets(WAIT_SECONDS),
    standIn: new Buckets(WAIT_SECONDS),
  };

  /** By the reason. */
  readonly #refusals = new Map<UnavailableReason, number>();

  /** By what libclamav says a content is; it knows some hundred names. */
  readonly #types = new Map<string, { scans: number; seconds: number }>();

  constructor(registry: Registry) {
    this.#addCounters(registry);
    this.#addTypes(registry);
    new Distribution(
      'sluice_scan_seconds',
      'Time inside the engine, of contents that it has looked at, by their size: at most 4KB, 64KB, 1MB, or more.',
      this.#seconds,
      registry,
    );
    const { alone, shared, standIn } = this.#waits;
    new Distribution(
      'sluice_scan_wait_seconds',
      'Time before a thread, of scans that had one; class: alone (no other account had scans), shared (others had), stand_in (all threads were at long scans, and one beside them took it).',
      [
        { labels: { class: 'alone' }, buckets: alone },
        { labels: { class: 'shared' }, buckets: shared },
        { labels: { class: 'stand_in' }, buckets: standIn },
      ],
      registry,
    );
  }

  readonly ended = (scan: EndedScan): void => {
    const { wholeBytes, lookedBy } = scan;
    const engine = lookedBy?.label ?? 'none';
    const cache = lookedBy === null ? 'none' : scan.looked === 'now' ? 'miss' : 'hit';
    this.#kindOf(scan, engine, cache).count += 1;
    if (wholeBytes !== null) this.#bytes += wholeBytes;
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
  refused(reason: UnavailableReason): void {
    this.#refusals.set(reason, (this.#refusals.get(reason) ?? 0) + 1);
  }

  readonly waited = (kind: TurnKind, waitedMs: number): void => {
    this.#waits[kind].observe(waitedMs / 1000);
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

  #addTypes(registry: Registry): void {
    const types = this.#types;
    const add = (name: string, help: string, read: (of: { scans: number; seconds: number }) => number): void => {
      new Counter({
        ...{ name, help, labelNames: ['type'] as const, registers: [registry] },
        collect() {
          this.reset();
          for (const [type, of] of types) this.inc({ type }, read(of));
        },
      });
    };
    const what = 'contents that the engine has looked at, by what libclamav says they are';
    add('sluice_scans_by_type_total', `Number of ${what}.`, ({ scans }) => scans);
    add('sluice_scan_seconds_by_type_total', `Seconds inside the engine, of ${what}.`, ({ seconds }) => seconds);
  }

  #addCounters(registry: Registry): void {
    const kinds = this.#kinds;
    const registers = [registry];
    new Counter({
      name: 'sluice_scans_total',
      help: 'Scans that were admitted, by what came of them and what has looked; cache: hit, miss, or none when nothing has.',
      labelNames: ['outcome', 'engine', 'cache'] as const,
      registers,
      collect() {
        this.reset();
        for (const { outcome, engine, cache, count } of kinds) this.inc({ outcome, engine, cache }, count);
      },
    });
    new Counter({
      name: 'sluice_scan_failures_total',
      help: 'Scans that were admitted and have no verdict, by the code of the failure; of a 503 with its reason.',
      labelNames: ['failure'] as const,
      registers,
      collect() {
        this.reset();
        for (const { failure, count } of kinds) if (failure !== null) this.inc({ failure }, count);
      },
    });
    new Counter({
      name: 'sluice_scans_by_protocol_total',
      help: 'Scans that were admitted, by the protocol that they came by and what came of them.',
      labelNames: ['protocol', 'outcome'] as const,
      registers,
      collect() {
        this.reset();
        for (const { protocol, outcome, count } of kinds) this.inc({ protocol, outcome }, count);
      },
    });
    const refusals = this.#refusals;
    new Counter({
      name: 'sluice_scans_refused_total',
      help: 'Scans that were refused with 503 before their admission, since too many wait, by the reason. They take no unit and have no row.',
      labelNames: ['reason'] as const,
      registers,
      collect() {
        this.reset();
        for (const [reason, count] of refusals) this.inc({ reason }, count);
      },
    });
    const bytes = (): number => this.#bytes;
    new Counter({
      name: 'sluice_scanned_bytes_total',
      help: 'Bytes of contents with a verdict.',
      registers,
      collect() {
        this.reset();
        this.inc(bytes());
      },
    });
  }
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
}

interface Part {
  readonly labels: Readonly<Record<string, string>>;
  readonly buckets: Buckets;
}

/** A histogram of the registry whose values are counted outside of it. */
class Distribution extends Histogram<string> {
  readonly #head: { readonly name: string; readonly help: string; readonly type: 'histogram' };
  readonly #parts: readonly Part[];

  constructor(name: string, help: string, parts: readonly Part[], registry: Registry) {
    super({ name, help, registers: [registry] });
    this.#head = { name, help, type: 'histogram' };
    this.#parts = parts;
  }

  /** What the registry asks for, and the library's own `get`. A class of which nothing was seen yet isn't shown. */
  async getForPromString() {
    const seen = this.#parts.filter(({ buckets }) => buckets.counts.some(Boolean));
    return { ...this.#head, values: seen.flatMap((part) => valuesOf(this.#head.name, part)) };
  }
}

function valuesOf(name: string, { labels, buckets: { bounds, counts, sum } }: Part) {
  const values: { labels: Record<string, string | number>; value: number; metricName: string }[] = [];
  let upTo = 0;
  for (const [index, count] of counts.entries()) {
    upTo += count;
    values.push({ labels: { ...labels, le: bounds[index] ?? '+Inf' }, value: upTo, metricName: `${name}_bucket` });
  }
  values.push({ labels, value: sum, metricName: `${name}_sum` }, { labels, value: upTo, metricName: `${name}_count` });
  return values;
}

export class RequestMetrics {
  /** By route, then by status; 0: the client left before its answer. */
  readonly #counts = new Map<string, Map<number, number>>();

  constructor(registry: Registry) {
    const counts = this.#counts;
    new Counter({
      name: 'sluice_http_requests_total',
      help: 'HTTP requests that have ended, by route and status. Route none: there is no such route; status gone: the client left before its answer.',
      labelNames: ['route', 'status'] as const,
      registers: [registry],
      collect() {
        this.reset();
        for (const [route, byStatus] of counts) {
          for (const [status, count] of byStatus) this.inc({ route, status: status === 0 ? 'gone' : status }, count);
        }
      },
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
