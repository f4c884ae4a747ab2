// The supervisor as its server process sees it: what it orders, and what is reported to it. Without a supervisor there are no orders.
import { type Order, orderShape, READY_MESSAGE, type Report, type StartOrder } from './messages.js';

export interface SupervisorChannel {
  readonly start: StartOrder;
  /** Resolves when the embedded database can be used; at once where nobody has to wait for it. */
  readonly store: Promise<void>;
  readonly serve: Promise<void>;
  readonly retire: Promise<{ readonly hasSuccessor: boolean }>;
  readonly alone: Promise<void>;
  onRefused(listen: (digests: readonly string[]) => void): void;
  report(report: Report): void;
  /** Resolves when it is on its way, whatever happens to this process. */
  reportStopped(): Promise<void>;
  ready(): void;
}

const UNSUPERVISED: StartOrder = {
  kind: 'start',
  takesOver: false,
  inheritsListener: false,
  socketDirectory: null,
  inFlightPath: null,
  refused: [],
};

/** Resolves when the supervisor has said how to start; with null when a stop is asked for before that. */
export async function openSupervisorChannel(stop: Promise<string>): Promise<SupervisorChannel | null> {
  const isSupervised = process.send !== undefined;
  const waiting = new Map<Order['kind'], (order: Order) => void>();
  const once = (kind: Order['kind']): Promise<void> => new Promise((resolve) => waiting.set(kind, () => resolve()));
  const started = new Promise<StartOrder>((resolve) => {
    waiting.set('start', (order) => {
      if (order.kind === 'start') resolve(order);
    });
  });
  /** Digests that came before anybody listened: this process was still starting. */
  const early = new Set<string>();
  let listener: (digests: readonly string[]) => void = (digests) => {
    for (const digest of digests) early.add(digest);
  };
  waiting.set('refuse', (order) => {
    if (order.kind === 'refuse') listener(order.refused);
  });
  const retire = new Promise<{ hasSuccessor: boolean }>((resolve) => {
    waiting.set('retire', (order) => {
      if (order.kind === 'retire') resolve({ hasSuccessor: order.hasSuccessor ?? true });
    });
  });
  const [store, serve, alone] = [once('store'), once('serve'), once('alone')];
  process.on('message', (message) => {
    const order = orderShape.safeParse(message);
    if (order.success) waiting.get(order.data.kind)?.(order.data);
  });
  const start = isSupervised ? await Promise.race([started, stop.then(() => null)]) : UNSUPERVISED;
  if (start === null) return null;

  const send = (message: Report | typeof READY_MESSAGE): Promise<void> =>
    new Promise((resolve) => {
      // It may be gone: then its end has been heard of as well.
      if (process.connected && process.send) process.send(message, undefined, undefined, () => resolve());
      else resolve();
    });
  return {
    start,
    store: start.awaitsStore === true ? store : Promise.resolve(),
    serve,
    retire,
    alone,
    onRefused(listen) {
      listener = listen;
      listen([...early]);
    },
    report: (report) => void send(report),
    reportStopped: () => send({ kind: 'stopped' }),
    ready: () => void send(READY_MESSAGE),
  };
}
