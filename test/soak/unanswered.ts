// Requests that had no answer: by protocol, error and connection. A kept connection may end while its next request is on the way, if the service thinks it idle.
import type { Socket } from 'node:net';

export type Protocol = 'HTTP' | 'clamd' | 'ICAP';

/** `idleMs`: since the last answer over that connection; null: it was a new one. */
export interface Failing {
  readonly protocol: Protocol;
  readonly error: string;
  readonly idleMs: number | null;
}

/** Requests with the same protocol, error and kind of connection. `minutes`: those of the run, from 1, with the count of each. */
export interface UnansweredGroup {
  readonly protocol: Protocol;
  readonly error: string;
  readonly connection: 'new' | 'kept';
  readonly count: number;
  readonly minutes: Readonly<Record<number, number>>;
  /** Of kept connections, the least and the most; null: they were new ones. */
  readonly idleMs: readonly [number, number] | null;
  /** From the request to its failure, the least and the most. */
  readonly tookMs: readonly [number, number];
}

interface Unanswered extends Failing {
  readonly minute: number;
  readonly tookMs: number;
}

export class UnansweredList {
  readonly #all: Unanswered[] = [];
  readonly #begunMs = performance.now();

  add(failing: Failing, tookMs: number): void {
    const minute = 1 + Math.floor((performance.now() - this.#begunMs) / 60_000);
    this.#all.push({ ...failing, minute, tookMs });
  }

  groups(): UnansweredGroup[] {
    const byKind = new Map<string, Unanswered[]>();
    for (const one of this.#all) {
      const kind = JSON.stringify([one.protocol, one.error, one.idleMs === null]);
      byKind.set(kind, [...(byKind.get(kind) ?? []), one]);
    }
    return [...byKind.values()].map(groupOf).toSorted((one, other) => other.count - one.count);
  }
}

function groupOf(all: readonly Unanswered[]): UnansweredGroup {
  const [first] = all;
  if (first === undefined) throw new Error('A group has members');
  const minutes: Record<number, number> = {};
  for (const { minute } of all) minutes[minute] = (minutes[minute] ?? 0) + 1;
  const idle = all.flatMap(({ idleMs }) => (idleMs === null ? [] : [idleMs]));
  return {
    protocol: first.protocol,
    error: first.error,
    connection: first.idleMs === null ? 'new' : 'kept',
    count: all.length,
    minutes,
    idleMs: idle.length === 0 ? null : rangeOf(idle),
    tookMs: rangeOf(all.map(({ tookMs }) => tookMs)),
  };
}

function rangeOf(values: readonly number[]): [number, number] {
  return [Math.round(Math.min(...values)), Math.round(Math.max(...values))];
}

/** One line for people. */
export function sayGroup({ protocol, error, connection, count, minutes, idleMs, tookMs }: UnansweredGroup): string {
  const kept = idleMs === null ? '' : ` that was idle for ${idleMs.join(' to ')} ms`;
  const when = Object.entries(minutes).map(([minute, each]) => `${minute} (${each})`);
  return `no answer: ${count} of ${protocol} over a ${connection} connection${kept}: ${error}, after ${tookMs.join(' to ')} ms; in the minutes ${when.join(', ')}`;
}

/** What a client's error says, with its code where it has one. */
export function errorTextOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return 'code' in error ? `${error.message} (${String(error.code)})` : error.message;
}

/** Since when each connection of HTTP has been without a request. */
const freeSinceMs = new WeakMap<Socket, number>();

export function isFree(socket: Socket): void {
  freeSinceMs.set(socket, performance.now());
}

/** Null: it had no request before. */
export function idleMsOf(socket: Socket | null): number | null {
  const sinceMs = socket === null ? undefined : freeSinceMs.get(socket);
  return sinceMs === undefined ? null : performance.now() - sinceMs;
}
