// Parts that are started one after the other, and stop in the reverse order: each says how where it starts.

export interface Stopping {
  /** Stops what has started, the last one first. Once. */
  stop(): Promise<void>;
}

/** Names a part that has started. */
export type Add = <Part extends Stopping>(part: Part) => Part;

/** `start` names each part that it has started by `add`. When it fails, these are stopped before its error goes on. */
export async function starting<Whole extends object>(start: (add: Add) => Promise<Whole>): Promise<Whole & Stopping> {
  const started: Stopping[] = [];
  const stop = async (): Promise<void> => {
    for (let last = started.pop(); last !== undefined; last = started.pop()) await last.stop();
  };
  try {
    const whole = await start((part) => {
      started.push(part);
      return part;
    });
    return Object.assign(whole, { stop });
  } catch (error) {
    await stop();
    throw error;
  }
}
