// The stages of a scan, and when it was in which: that is kept only where somebody has asked for traces.
import { performance } from 'node:perf_hooks';

/**
 * `admitting`: the admission is waited for, before it begins or, where its user was expected, with all that came of it. `waitingForMemory`: what has
 * arrived has no room. `queued`: for a thread. `gone`: nothing is left to be done, and nobody to be answered.
 */
export type Stage =
  | 'admitting'
  | 'receiving'
  | 'waitingForMemory'
  | 'queued'
  | 'running'
  | 'recording'
  | 'answered'
  | 'gone';

/** By the clock of `performance`, in milliseconds. */
export class StageTimes {
  readonly beganMs: number;
  /** Null: it isn't admitted yet. */
  admittedMs: number | null;
  /** W3C Trace Context's `traceparent`, as the client has sent it; null: none. */
  parent: string | null;
  /** Each lasts until the next one begins. */
  readonly stages: { readonly stage: Stage; readonly beganMs: number }[];

  constructor() {
    this.beganMs = performance.now();
    this.admittedMs = null;
    this.parent = null;
    this.stages = [];
  }

  entered(stage: Stage): void {
    this.stages.push({ stage, beganMs: performance.now() });
  }

  admitted(): void {
    this.admittedMs = performance.now();
  }
}
