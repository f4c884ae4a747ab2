// Many steps of one kind, a few at a time: what they go to has others to serve meanwhile.

/** Steps of one batch: a few milliseconds of Redis. */
const BATCH_STEPS = 200;

/** Rejects with the first step that fails; the batches after it are not begun. */
export async function inBatches<T>(all: readonly T[], step: (one: T) => Promise<unknown>): Promise<void> {
  for (let start = 0; start < all.length; start += BATCH_STEPS) {
    await Promise.all(all.slice(start, start + BATCH_STEPS).map(step));
  }
}
