// What a server process has counted between two moments, and how it is asked for that.
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { z } from 'zod';

const counts = z.object({
  /** By module, function and line. */
  entered: z.record(z.string(), z.number()),
  closures: z.number(),
  allocatedBytes: z.number(),
  /** Moved to the old space by collections of the young one: what outlives two of them stays until the whole heap is collected. */
  promotedBytes: z.number(),
});

export type Counts = z.infer<typeof counts>;

/** Counts what the process does while the work is done. */
export async function countsOf(pid: number, folder: string, work: () => Promise<void>): Promise<Counts> {
  const socket = connect(join(folder, `count-${pid}`));
  const lines = createInterface({ input: socket })[Symbol.asyncIterator]();
  await once(socket, 'connect');
  try {
    socket.write('begin');
    await lines.next();
    await work();
    socket.write('end');
    const { value } = await lines.next();
    return counts.parse(JSON.parse(String(value)));
  } finally {
    socket.destroy();
  }
}
