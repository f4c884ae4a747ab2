// Newer signatures without anybody's word: the supervisor fetches them a while after the start, and every few hours from then on.
import type { Log } from '../log.js';
import { createSignatureUpdate, type UpdateView } from '../operator/signature-update.js';

export interface UpdaterOptions {
  readonly log: Pick<Log, 'info' | 'warn'>;
  /** Null: only when an operator wants it. */
  readonly everyMs: number | null;
  /** From the start to the first one: a service that is restarted again and again must not ask the mirrors each time. */
  readonly firstMs?: number;
  /** A test has another command. */
  readonly command?: readonly [string, ...string[]];
}

/** ClamAV makes new databases a few times a day at most, and asks everybody not to come more often than once an hour. */
export const UPDATE_EVERY_MS = 4 * 60 * 60 * 1000;
const UPDATE_FIRST_MS = 5 * 60 * 1000;

export type Updater = ReturnType<typeof createUpdater>;

export function createUpdater({ log, everyMs, firstMs = UPDATE_FIRST_MS, command }: UpdaterOptions) {
  const listeners: ((view: UpdateView) => void)[] = [];
  const update = createSignatureUpdate({
    // The servers load it when they get this.
    onDone: () => log.info('the signatures were updated'),
    onChange(view) {
      for (const listen of listeners) listen(view);
      if (view.state === 'failed') log.warn({ lines: view.lines.slice(-3) }, 'the update of the signatures failed');
    },
    now: Date.now,
    ...(command === undefined ? {} : { command }),
  });
  let timer: NodeJS.Timeout | null = null;

  function after(ms: number, every: number): void {
    timer = setTimeout(() => {
      update.start();
      after(every, every);
    }, ms);
    timer.unref();
  }

  if (everyMs !== null) after(firstMs, everyMs);
  return {
    /** False: one is running already. */
    start: update.start,
    view: update.view,
    onChange: (listen: (view: UpdateView) => void): void => void listeners.push(listen),
    async stop(): Promise<void> {
      if (timer !== null) clearTimeout(timer);
      await update.stop();
    },
  };
}
