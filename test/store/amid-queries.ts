// Inserts amid so many queries that each of ten connections has one less in its pipeline than postgres.js puts there (100).

export const INSERTS = 20;
const QUERIES = 1_000;

/** Resolves with what was acknowledged, each before the next began; `told` is called at once. */
export async function insertAmidQueries(
  insert: (id: number) => PromiseLike<unknown>,
  ask: () => PromiseLike<unknown>,
  told: (id: number) => void = () => undefined,
): Promise<number[]> {
  const ids: number[] = [];
  // At once: what is only awaited is sent after the transaction.
  const asked = () => ask().then(() => undefined);
  await Promise.all(Array.from({ length: 10 }, asked));
  for (let id = 0; id < INSERTS; id += 1) {
    const beside = Promise.allSettled(Array.from({ length: QUERIES }, asked));
    await insert(id);
    ids.push(id);
    told(id);
    await beside;
  }
  return ids;
}
