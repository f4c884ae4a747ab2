// What takes seconds about gates, as the thread asks for it that serves.
import { knownGates, type PreparedGates } from './prepare.js';
import { onThread, type ThreadOrder } from './thread.js';

export type ApartOrder = Omit<Extract<ThreadOrder, { wants: 'gates' }>, 'wants'>;

/** As `prepareGates`. There is no progress where they were made before. */
export async function prepareGatesApart(
  order: ApartOrder,
  onProgress?: (fraction: number) => void,
): Promise<PreparedGates> {
  const known = await knownGates(order.directories, order.directory);
  return known ?? (await onThread<PreparedGates>({ ...order, wants: 'gates' }, onProgress));
}

/** As `windowsForGates`. */
export function windowsForGatesApart(
  order: Omit<ApartOrder, 'threads'>,
  onProgress: (fraction: number) => void,
): Promise<Float64Array> {
  return onThread<Float64Array>({ ...order, wants: 'windows' }, onProgress);
}
