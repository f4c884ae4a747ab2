// Loads the signatures again where what was learned of gates is worth a load: a service that begins with nothing learned gets fast by itself.
import { TRAFFIC_NOISE } from './loading.js';
import type { SignatureEvent, SignatureState } from './signature-state.js';

export interface RelearningTimes {
  /** Between two looks at what was learned. */
  readonly lookMs?: number;
  /** Between such a load and the next one, at first; it doubles with each. */
  readonly pauseMs?: number;
  /** Before so many scans nothing is known. */
  readonly scansMin?: number;
}

interface Options extends RelearningTimes {
  readonly onEvent: (event: SignatureEvent) => void;
}

const LOOK_MS = 10_000;
const PAUSE_FIRST_MS = 60_000;
/** Loads of this kind: some ten on the first day, then one a day, whoever sends what. */
const PAUSE_MAX_MS = 24 * 60 * 60 * 1000;
const SCANS_MIN = 500;
/** A load takes as long as some thousand second looks. */
const SHARE_MIN = 0.01;

export function startRelearning(
  state: () => SignatureState,
  reload: () => Promise<void>,
  { onEvent, lookMs = LOOK_MS, pauseMs = PAUSE_FIRST_MS, scansMin = SCANS_MIN }: Options,
): { stop(): void } {
  let pause = pauseMs;
  let nextAtMs = 0;

  function look(): void {
    const now = state();
    if (now.kind !== 'ready' || now.reload.kind !== 'none' || performance.now() < nextAtMs) return;
    const { gates } = now.engine;
    if (gates === null || (gates.statistics()?.scans ?? 0) < scansMin) return;
    const share = gates.wasted(TRAFFIC_NOISE);
    if (share < SHARE_MIN) return;
    nextAtMs = performance.now() + pause;
    pause = Math.min(2 * pause, PAUSE_MAX_MS);
    onEvent({ kind: 'noise', share });
    void reload();
  }

  const timer = setInterval(look, lookMs);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}
