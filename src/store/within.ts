// A wait that ends: what hangs is as good as down.

/** Rejects after `timeoutMs`. The work itself goes on: nobody can take a query back that hangs in the network. */
export async function within<T>(work: Promise<T>, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    // After a stall of this process timers come before what the network has brought meanwhile: that is looked at first.
    const end = (): void => void setImmediate(() => reject(new Error(`No answer within ${timeoutMs} ms`)));
    timer = setTimeout(end, timeoutMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
