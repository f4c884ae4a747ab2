// What the supervisor keeps beside the servers: the embedded database, started before them, again when it dies, ended after them; and newer signatures, fetched a while
// after the start, and every few hours from then on.
import { messageOfError } from '../error-text.js';
import type { Log } from '../log.js';
import { createSignatureUpdate, type UpdateView } from '../operator/signature-update.js';
import { type EmbeddedOptions, openEmbedded } from '../store/embedded/embedded.js';
import type { DatabaseServer } from '../store/embedded/server.js';
import { pause } from '../waiting/within.js';

export type KeptStore = Awaited<ReturnType<typeof keepStore>>;

/** Between its death and its next start, doubling from the first to the last. */
const FIRST_DELAY_MS = 100;
const LAST_DELAY_MS = 30_000;
/** One that has run for so long is not one that can't be started. */
const HEALTHY_MS = 60_000;

/** Starts it. Resolves when the folder is this process's; rejects with a StoreError when another one has it. */
export async function keepStore(options: EmbeddedOptions, log: Log) {
  const folder = await openEmbedded({ ...options, log });
  const stopping = new AbortController();
  let server: DatabaseServer | null = null;
  const started = folder.start().then((first) => {
    server = first;
  });

  async function keep(): Promise<void> {
    await started;
    let delayMs = FIRST_DELAY_MS;
    while (server !== null) {
      const startedMs = performance.now();
      const end = await server.ended;
      server = null;
      if (stopping.signal.aborted) return;
      if (performance.now() - startedMs > HEALTHY_MS) delayMs = FIRST_DELAY_MS;
      log.error({ end, delayMs }, 'the embedded database ended, restarting');
      while (server === null && !stopping.signal.aborted) {
        await pause(delayMs, stopping.signal);
        delayMs = Math.min(LAST_DELAY_MS, delayMs * 2);
        if (!stopping.signal.aborted) server = await again(delayMs);
      }
      if (stopping.signal.aborted) await server?.stop();
    }
  }

  async function again(delayMs: number) {
    try {
      const started = await folder.start();
      log.info('the embedded database is back');
      return started;
    } catch (error) {
      log.error({ reason: messageOfError(error), delayMs }, 'the embedded database did not start, trying again');
      return null;
    }
  }

  // `started` rejects when the first start fails.
  const kept = keep().catch(() => undefined);
  return {
    /** Where the servers find it, also after it was started anew. */
    socketDirectory: folder.socketDirectory,
    /** Resolves when it can be used for the first time; rejects with a StoreError when it can't be started. */
    started,
    async stop(): Promise<void> {
      stopping.abort();
      await Promise.allSettled([started]);
      await server?.stop();
      await kept;
      await folder.release();
    },
  };
}

export interface UpdaterOptions {
  readonly log: Pick<Log, 'info' | 'warn'>;
  /** Null: only when an operator wants it. */
  readonly everyMs: number | null;
  /** From the start to the first one: a service that is restarted again and again must not ask the mirrors each time. */
  readonly firstMs?: number;
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
    start: update.start,
    view: update.view,
    onChange: (listen: (view: UpdateView) => void): void => void listeners.push(listen),
    async stop(): Promise<void> {
      if (timer !== null) clearTimeout(timer);
      await update.stop();
    },
  };
}
