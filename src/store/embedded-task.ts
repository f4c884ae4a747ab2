// What the embedded store's two sides say to each other.
import { z } from 'zod';

export const embeddedTaskShape = z.discriminatedUnion('kind', [
  /** Makes the database's folder and ends. In a thread of its own: what that takes, 300 MB, goes with the thread. */
  z.object({ kind: z.literal('make'), folder: z.string() }),
  z.object({ kind: z.literal('serve'), folder: z.string(), socketPath: z.string() }),
]);
export type EmbeddedTask = z.infer<typeof embeddedTaskShape>;

export type EmbeddedOrder = 'stop' | 'answer';

export type EmbeddedReport =
  | { readonly kind: 'made' }
  | { readonly kind: 'ready' }
  | { readonly kind: 'alive' }
  | { readonly kind: 'stopped' }
  | { readonly kind: 'failed'; readonly message: string };
