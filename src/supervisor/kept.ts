// What the supervisor keeps beside the servers: the embedded database, started before them, again when it dies, ended after them; newer signatures, fetched a while
// after the start, and every few hours from then on; and, under DATA_DIR, so that a restart forgets nothing, contents that were being scanned when a server process
// crashed or a thread didn't come back: after the second time they are refused.

import { closeSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { openInFlight, readInFlight } from '../engine/threads/ring.js';
import { codeOf, messageOfError } from '../error-text.js';
import type { Log } from '../log.js';
import { createSignatureUpdate, type UpdateView } from '../operator/health.js';
import { makeFolder } from '../paths.js';
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
    }, ms).unref();
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

/** Crashes with a content in flight after which it is refused: once may have been its neighbour's doing. */
const REFUSED_AT = 2;
/** After a week without another one a crash is forgotten: newer signatures may have mended it. */
const KEPT_MS = 7 * 24 * 60 * 60 * 1000;
/** Suspects in memory and in the file, some 100 bytes each; the one whose crash is longest ago makes room. */
const SUSPECTS_MAX = 10_000;

const shape = z.record(z.string(), z.object({ crashes: z.number(), lastMs: z.number() }));
type KeptSuspects = z.infer<typeof shape>;
type KeptSuspect = KeptSuspects[string];

export interface SuspectsOptions {
  readonly dataDirectory: string;
  readonly log: Pick<Log, 'warn' | 'error'>;
  readonly now: () => number;
}

/** Which contents were being scanned when a process crashed, as far as the supervisor has to do with it. */
export type Suspects = ReturnType<typeof createSuspects>;

export function createSuspects({ dataDirectory, log, now }: SuspectsOptions) {
  const file = createSuspectsFile(dataDirectory, log);
  /** The one with the newest crash is last. */
  const kept = new Map<string, KeptSuspect>(
    Object.entries(file.read()).sort(([, one], [, other]) => one.lastMs - other.lastMs),
  );

  function forgetOld(): void {
    for (const [sha256, { lastMs }] of kept) {
      if (kept.size <= SUSPECTS_MAX && now() - lastMs < KEPT_MS) return;
      kept.delete(sha256);
    }
  }

  /** Returns true when one of them is refused from now on. */
  function suspect(digests: readonly string[], event: string): boolean {
    let more = false;
    for (const sha256 of digests) {
      const crashes = (kept.get(sha256)?.crashes ?? 0) + 1;
      kept.delete(sha256);
      kept.set(sha256, { crashes, lastMs: now() });
      more ||= crashes === REFUSED_AT;
      log.error({ sha256, crashes, refused: crashes >= REFUSED_AT }, event);
    }
    if (digests.length > 0) write();
    return more;
  }

  function write(): void {
    forgetOld();
    file.write(Object.fromEntries(kept));
  }

  return {
    /** A descriptor of memory for the digests of what a process scans; null: they aren't noted. */
    open(): number | null {
      try {
        return openInFlight();
      } catch (error) {
        log.warn(
          { reason: messageOfError(error) },
          'what is being scanned can not be noted: a crash suspects no content',
        );
        return null;
      }
    },
    /** The process is gone; `crashed`: in a way that content can cause. Returns true when there is more to refuse than before. */
    close(inFlight: number, crashed: boolean): boolean {
      const digests = crashed ? readInFlight(inFlight) : [];
      closeSync(inFlight);
      return suspect(digests, 'this content was being scanned when the process crashed');
    },
    /** Its crashes are forgotten. Returns true when there were any. */
    allow(sha256: string): boolean {
      if (!kept.delete(sha256)) return false;
      log.warn({ sha256 }, 'this content is scanned again, as an operator wants it');
      write();
      return true;
    },
    /** A thread did not come back from this content. Returns true when there is more to refuse than before. */
    hung: (sha256: string): boolean => suspect([sha256], 'a scan thread did not come back from this content'),
    refused(): string[] {
      forgetOld();
      return [...kept].filter(([, { crashes }]) => crashes >= REFUSED_AT).map(([sha256]) => sha256);
    },
  };
}

function createSuspectsFile(dataDirectory: string, log: SuspectsOptions['log']) {
  const path = join(dataDirectory, 'crash-suspects.json');
  return {
    read(): KeptSuspects {
      try {
        return shape.parse(JSON.parse(readFileSync(path, 'utf8')));
      } catch (error) {
        if (codeOf(error) === 'ENOENT') return {};
        log.warn({ reason: String(error) }, 'the crash suspects could not be read: starting without');
        return {};
      }
    },
    write(suspects: KeptSuspects): void {
      try {
        makeFolder(dataDirectory);
        writeFileSync(`${path}.new`, JSON.stringify(suspects), { mode: 0o600 });
        renameSync(`${path}.new`, path);
      } catch (error) {
        log.error({ reason: String(error) }, 'the crash suspects could not be written: a restart forgets them');
      }
    },
  };
}
