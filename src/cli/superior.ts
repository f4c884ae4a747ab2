// The supervisor as its server process sees it: what it orders, and what is reported to it. Without one, nobody orders anything.
import { type Order, orderShape, READY_MESSAGE, type Report, type StartOrder } from '../supervisor-messages.js';

export interface Superior {
  readonly start: StartOrder;
  readonly serve: Promise<void>;
  readonly retire: Promise<void>;
  readonly alone: Promise<void>;
  onRefused(listen: (digests: readonly string[]) => void): void;
  report(report: Report): void;
  /** Resolves when it is on its way, whatever happens to this process. */
  reportStopped(): Promise<void>;
  ready(): void;
}

const ALONE: StartOrder = {
  kind: 'start',
  takesOver: false,
  inheritsListener: false,
  socketDirectory: null,
  inFlightPath: null,
  refused: [],
};

/** Resolves when the supervisor has said how to start; with null when a stop is asked for before that. */
export async function superior(stop: Promise<string>): Promise<Superior | null> {
  const isSupervised = process.send !== undefined;
  const waiting = new Map<Order['kind'], (order: Order) => void>();
  const once = (kind: Order['kind']): Promise<void> => new Promise((resolve) => waiting.set(kind, () => resolve()));
  const started = new Promise<StartOrder>((resolve) => {
    waiting.set('start', (order) => {
      if (order.kind === 'start') resolve(order);
    });
  });
  /** Told before anybody listens: this process was still starting. */
  const early = new Set<string>();
  let listener: (digests: readonly string[]) => void = (digests) => {
    for (const digest of digests) early.add(digest);
  };
  waiting.set('refuse', (order) => {
    if (order.kind === 'refuse') listener(order.refused);
  });
  const [serve, retire, alone] = [once('serve'), once('retire'), once('alone')];
  process.on('message', (message) => {
    const order = orderShape.safeParse(message);
    if (order.success) waiting.get(order.data.kind)?.(order.data);
  });
  const start = isSupervised ? await Promise.race([started, stop.then(() => null)]) : ALONE;
  if (start === null) return null;

  const send = (message: Report | typeof READY_MESSAGE): Promise<void> =>
    new Promise((resolve) => {
      // It may be gone: then its end has been heard of as well.
      if (process.connected && process.send) process.send(message, undefined, undefined, () => resolve());
      else resolve();
    });
  return {
    start,
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
