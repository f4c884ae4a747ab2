// Whether Postgres answers: one question a second at most, whose answer serves all callers.
import { performance } from 'node:perf_hooks';

const AGE_MS = 1_000;

/** Returns what shares one answer of `ask` for a second after it was asked, and for as long as it isn't there. */
export function createPing(ask: () => Promise<void>, now: () => number = () => performance.now()): () => Promise<void> {
  let latest: { readonly askedAt: number; readonly answer: Promise<void> } | null = null;
  let isWaiting = false;
  return () => {
    if (latest !== null && (isWaiting || now() - latest.askedAt < AGE_MS)) return latest.answer;
    isWaiting = true;
    const answer = ask().finally(() => {
      isWaiting = false;
    });
    latest = { askedAt: now(), answer };
    return answer;
  };
}
