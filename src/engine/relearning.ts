// Loads the signatures again where what was learned of gates is worth a load: a service that begins with nothing learned gets fast by itself.

import type { SignatureEvent, SignatureState } from './engine.js';
import { TRAFFIC_NOISE } from './loading.js';

export interface RelearningTimes {
  /** Between two looks at what was learned. */
  readonly lookMs?: number;
  /** Between such a load and the next one, at least. */
  readonly apartMs?: number;
  /** Such loads in 24 hours. */
  readonly loadsADay?: number;
  /** Before so many scans nothing is known. */
  readonly scansMin?: number;
}

interface Options extends RelearningTimes {
  readonly onEvent: (event: SignatureEvent) => void;
}

const LOOK_MS = 10_000;
const APART_MS = 60_000;
/** Newer databases bring new gates, and a gate that takes the place of another one may hit as often: some four loads each time. */
const LOADS_A_DAY = 12;
const DAY_MS = 24 * 60 * 60 * 1000;
const SCANS_MIN = 500;
/** A load takes as long as some thousand second looks. */
const SHARE_MIN = 0.01;

export function startRelearning(
  state: () => SignatureState,
  reload: () => Promise<void>,
  { onEvent, lookMs = LOOK_MS, apartMs = APART_MS, loadsADay = LOADS_A_DAY, scansMin = SCANS_MIN }: Options,
): { stop(): void } {
  /** When the loads of the last day began, in `performance.now()`; the latest last. */
  let begun: number[] = [];

  function mayLoad(): boolean {
    const nowMs = performance.now();
    begun = begun.filter((atMs) => nowMs - atMs < DAY_MS);
    return begun.length < loadsADay && nowMs - (begun.at(-1) ?? Number.NEGATIVE_INFINITY) >= apartMs;
  }

  function look(): void {
    const now = state();
    if (now.kind !== 'ready' || now.reload.kind !== 'none' || !mayLoad()) return;
    const { gates } = now.engine;
    if (gates === null || (gates.statistics()?.scans ?? 0) < scansMin) return;
    const share = gates.wasted(TRAFFIC_NOISE);
    if (share < SHARE_MIN) return;
    begun.push(performance.now());
    onEvent({ kind: 'noise', share });
    void reload();
  }

  const timer = setInterval(look, lookMs);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}
