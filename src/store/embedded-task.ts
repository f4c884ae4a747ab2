// What the embedded store's two sides say to each other.
import { z } from 'zod';

export const embeddedTaskShape = z.object({
  /** The database's folder; made when it isn't there. */
  folder: z.string(),
  socketPath: z.string(),
});
export type EmbeddedTask = z.infer<typeof embeddedTaskShape>;

export type EmbeddedReport =
  | { readonly kind: 'ready' }
  | { readonly kind: 'stopped' }
  | { readonly kind: 'failed'; readonly message: string };
