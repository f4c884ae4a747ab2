// Pages of memory back to the kernel.
import { processAddon } from '../../process-addon.js';

/**
 * The whole pages among the bytes are zeros from now on, and take no memory until something is written to them. Without the addon they
 * stay as they are.
 */
export function discardPages(bytes: Uint8Array): void {
  processAddon()?.discardPages(bytes);
}
