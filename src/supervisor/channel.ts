// The supervisor as its server process sees it: what it orders, and what is reported to it. Without a supervisor there are no orders.
import { z } from 'zod';
import { UpdateView } from '../operator/health.js';
import { later } from '../waiting/within.js';

export type SupervisorChannel = NonNullable<Awaited<ReturnType<typeof openSupervisorChannel>>>;

const UNSUPERVISED: StartOrder = {
  kind: 'start',
  takesOver: false,
  inheritsListener: false,
  socketDirectory: null,
  inFlight: null,
  refused: [],
};

/**
 * Resolves when the supervisor has said how to start; with null when a stop is asked for before that. Rejects where it says so in words of another version:
 * it starts whatever lies in the place of its own files.
 */
export async function openSupervisorChannel(stop: Promise<string>) {
  const isSupervised = process.send !== undefined;
  const [started, retire] = [later<StartOrder>(), later<{ hasSuccessor: boolean }>()];
  const [store, serve, alone] = [later(), later(), later()];
  const refusals = latest<readonly string[]>();
  const updates = latest<UpdateView>();
  const reloads = latest<null>();

  function hear(order: Order): void {
    if (order.kind === 'start') started.resolve(order);
    else if (order.kind === 'store') store.resolve();
    else if (order.kind === 'serve') serve.resolve();
    else if (order.kind === 'retire') retire.resolve({ hasSuccessor: order.hasSuccessor ?? true });
    else if (order.kind === 'alone') alone.resolve();
    else if (order.kind === 'refuse') refusals.tell(order.refused);
    else if (order.kind === 'update') updates.tell(order.view);
    else reloads.tell(null);
  }

  process.on('message', (message) => {
    const order = orderShape.safeParse(message);
    if (order.success) hear(order.data);
    else if (Object(message).kind === 'start')
      started.reject(
        new Error(`The supervisor, of another version, starts servers in another way: ${z.prettifyError(order.error)}`),
      );
  });
  const start = isSupervised ? await Promise.race([started.promise, stop.then(() => null)]) : UNSUPERVISED;
  if (start === null) return null;

  const send = (message: Report | typeof READY_MESSAGE): Promise<void> =>
    new Promise((resolve) => {
      // It may be gone: then its end has been heard of as well.
      if (process.connected && process.send) process.send(message, undefined, undefined, () => resolve());
      else resolve();
    });
  void send({ kind: 'started' });
  return {
    start,
    /** Resolves when the embedded database can be used; at once where nobody has to wait for it. */
    store: start.awaitsStore === true ? store.promise : Promise.resolve(),
    serve: serve.promise,
    retire: retire.promise,
    alone: alone.promise,
    /** All contents that are refused, each time that they change. */
    onRefused: refusals.listen,
    /** How the update of the signatures is, each time that it changes; never without a supervisor. */
    onUpdate: updates.listen,
    /** Each time that the signatures are to be read again; also when that came before anybody listened. */
    onReload: reloads.listen,
    report: (report: Report): void => void send(report),
    /** Resolves when it is on its way, whatever happens to this process. */
    reportStopped: (): Promise<void> => send({ kind: 'stopped' }),
    ready: (): void => void send(READY_MESSAGE),
  };
}

/** Keeps the last value that came before anybody listened, for the first listener. */
function latest<T>() {
  let listener: ((value: T) => void) | null = null;
  let early: { readonly value: T } | null = null;
  return {
    tell(value: T): void {
      if (listener === null) early = { value };
      else listener(value);
    },
    listen(listen: (value: T) => void): void {
      listener = listen;
      if (early !== null) listen(early.value);
      early = null;
    },
  };
}

/** What a server says once it serves. */
export const READY_MESSAGE = 'ready';

export const orderShape = z.discriminatedUnion('kind', [
  /** The first one. A server that takes over prepares everything and accepts nothing before it gets the order. */
  z.object({
    kind: z.literal('start'),
    takesOver: z.boolean(),
    /** Whether LISTENER_DESCRIPTOR is a listening socket. */
    inheritsListener: z.boolean(),
    /** What the descriptors behind that one listen for, in this order. Default: there are none. */
    places: z.array(z.string()).optional(),
    /** The place of the process among those that share out what comes. Default: it shares with none. */
    sharePlace: z.int().nonnegative().optional(),
    /** Of the embedded database; null: there is none. */
    socketDirectory: z.string().nullable(),
    /** Its descriptor of memory for the digests of what is being scanned; null, and by default: they aren't noted. */
    inFlight: z.int().nullable().default(null),
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
  /** All of them. */
  z.object({ kind: z.literal('refuse'), refused: z.array(z.string()) }),
  z.object({ kind: z.literal('update'), view: UpdateView }),
  /** Read the signatures again. No signal: one ends a process that does not listen to it yet. */
  z.object({ kind: z.literal('reload') }),
]);
export type Order = z.infer<typeof orderShape>;
export type StartOrder = Extract<Order, { kind: 'start' }>;

export const reportShape = z.discriminatedUnion('kind', [
  /** It has understood how it is to start. */
  z.object({ kind: z.literal('started') }),
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
  /** An operator wants this content to be scanned again. */
  z.object({ kind: z.literal('allow'), sha256: z.string() }),
  /** An operator wants newer signatures. */
  z.object({ kind: z.literal('update') }),
]);
export type Report = z.infer<typeof reportShape>;

/** Behind stdin, stdout, stderr and the IPC channel. */
export const LISTENER_DESCRIPTOR = 4;
