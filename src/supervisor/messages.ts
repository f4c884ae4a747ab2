// What the supervisor and its server processes say to each other over the IPC channel. After an upgrade the two may be of
// different versions: what is added here must be optional.
import { z } from 'zod';

/** What a server says once it serves. */
export const READY_MESSAGE = 'ready';

export const orderShape = z.discriminatedUnion('kind', [
  /** The first one. A server that takes over prepares everything and accepts nothing before it gets the order. */
  z.object({
    kind: z.literal('start'),
    takesOver: z.boolean(),
    /** Whether LISTENER_DESCRIPTOR is a listening socket. */
    inheritsListener: z.boolean(),
    /** Of the embedded database; null: there is none. */
    socketDirectory: z.string().nullable(),
    /** Where the digests of what is being scanned belong; null: nowhere. */
    inFlightPath: z.string().nullable(),
    /** Digests of contents that have crashed the engine too often. */
    refused: z.array(z.string()),
    /** Whether the embedded database is still starting: `store` says when it can be used. Default: no. */
    awaitsStore: z.boolean().optional(),
    /** Whether a stand-in engine may take over: the process that is replaced has nothing better. Default: no. */
    mayStandIn: z.boolean().optional(),
  }),
  z.object({ kind: z.literal('store') }),
  z.object({ kind: z.literal('serve') }),
  /** Hand over, answer what is open and end. `hasSuccessor`: another one takes the connections meanwhile; default: yes. */
  z.object({ kind: z.literal('retire'), hasSuccessor: z.boolean().optional() }),
  /** The process that was replaced is gone. */
  z.object({ kind: z.literal('alone') }),
  z.object({ kind: z.literal('refuse'), refused: z.array(z.string()) }),
]);
export type Order = z.infer<typeof orderShape>;
export type StartOrder = Extract<Order, { kind: 'start' }>;

export const reportShape = z.discriminatedUnion('kind', [
  /** It could serve now. */
  z.object({ kind: z.literal('prepared') }),
  /** Its first load of signatures has ended, well or not, or what serves has changed; `complete`: the engine that is wanted serves. */
  z.object({ kind: z.literal('loaded'), complete: z.boolean() }),
  /**
   * It accepts nothing any more, and its counts are where the next one finds them. `endsWithinMs`: by then all that it has
   * begun is over by its own deadlines, and it has ended.
   */
  z.object({ kind: z.literal('retired'), endsWithinMs: z.number().nonnegative().optional() }),
  /** All is stored: it may be killed. */
  z.object({ kind: z.literal('stopped') }),
  /** It wants to be replaced, while it goes on; `sha256`: the content that a thread did not come back from. */
  z.object({ kind: z.literal('replace'), reason: z.string(), sha256: z.string().nullable() }),
  /** It wants to end before another one starts: there is no room for two. */
  z.object({ kind: z.literal('restart'), reason: z.string() }),
]);
export type Report = z.infer<typeof reportShape>;

/** Behind stdin, stdout, stderr and the IPC channel. */
export const LISTENER_DESCRIPTOR = 4;
