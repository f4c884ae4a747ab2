// Many steps of one kind, a few at a time, so that the store that takes them can serve other requests meanwhile.

/** Steps of one batch: a few milliseconds of Redis. */
const BATCH_STEPS = 200;

/** Rejects with the first step that fails; the batches after it are not begun. `together` lets the steps of one travel as one. */
export async function inBatches<T>(
  all: readonly T[],
  step: (one: T) => Promise<unknown>,
  together: (begin: () => void) => void = (begin) => begin(),
): Promise<void> {
  for (let start = 0; start < all.length; start += BATCH_STEPS) {
    let steps: Promise<unknown>[] = [];
    together(() => {
      steps = all.slice(start, start + BATCH_STEPS).map(step);
    });
    await Promise.all(steps);
  }
}
