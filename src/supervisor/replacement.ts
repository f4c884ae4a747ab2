// The replacement of a server process without a gap: another one gets ready beside it, the old one hands over, and the new one serves.
import type { Log } from '../log.js';
import { createClock } from '../waiting/deadline.js';
import { READY_MESSAGE } from './messages.js';
import type { Processes } from './processes.js';
import { type End, fieldsOf, type ServerProcess } from './server-child.js';

/** A new process that isn't ready within this is given up: the largest databases take a minute. */
const PREPARE_MS = 600_000;

export interface Replacement {
  /** A process is getting ready. */
  readonly isPreparing: boolean;
  /** Resolves when another process serves in the place of the old one, or has failed to. One at a time: another call returns at once. */
  replace(old: ServerProcess, reason: string): Promise<void>;
  /** The old process has ended: the one that is getting ready serves in its place. Null: there is none. */
  promote(end: End): ServerProcess | null;
}

export interface ReplacementOptions {
  readonly processes: Processes;
  /** Whether the old process still is the one to be replaced. */
  readonly isWanted: (old: ServerProcess) => boolean;
  /** The old one has handed over. */
  readonly onReplaced: (fresh: ServerProcess) => void;
  readonly log: Log;
  readonly stop: AbortSignal;
}

export function createReplacement({ processes, isWanted, onReplaced, log, stop }: ReplacementOptions): Replacement {
  let next: ServerProcess | null = null;
  let isReplacing = false;
  let onPromoted: () => void = () => undefined;

  /** False: it won't get ready, or it serves already. */
  async function prepared(fresh: ServerProcess): Promise<boolean> {
    const promoted = new Promise<boolean>((resolve) => {
      onPromoted = () => resolve(false);
    });
    // A process that never gets ready keeps nobody from asking again.
    const clock = createClock(PREPARE_MS, () => fresh.kill('SIGKILL'));
    clock.start();
    const isPrepared = await Promise.race([fresh.heard('prepared'), promoted]);
    clock.stop();
    return isPrepared;
  }

  async function replaceOld(old: ServerProcess, reason: string): Promise<void> {
    // There is room for two, and the one before may still answer a slow upload.
    if (processes.size > 1)
      log.info({ reason }, 'the process that was replaced before is still there: waiting for its end');
    await processes.endOfOthers(old);
    if (!isWanted(old)) return;
    log.info({ reason }, 'replacing the server process');
    const fresh = processes.launch({ takesOver: true, mayStandIn: old.complete === false });
    next = fresh;
    const isPrepared = await prepared(fresh);
    // The old one has died meanwhile, and the new one is in its place already.
    if (next !== fresh) return;
    if (!isPrepared || stop.aborted) {
      next = null;
      if (!stop.aborted) log.error(fieldsOf(await fresh.ended), 'the new process failed, the old one goes on');
      return;
    }
    old.tell({ kind: 'retire' });
    // If it ends instead, by itself or killed for it, that is dealt with where ends are: the new one is promoted.
    if (!(await old.heard('retired')) || next !== fresh) return;
    next = null;
    processes.serve(fresh);
    onReplaced(fresh);
    if (await fresh.heard(READY_MESSAGE)) log.info({ reason }, 'replaced');
  }

  return {
    get isPreparing() {
      return next !== null;
    },
    async replace(old, reason) {
      if (isReplacing) return;
      isReplacing = true;
      try {
        await replaceOld(old, reason);
      } finally {
        isReplacing = false;
      }
    },
    promote(end) {
      const fresh = next;
      if (fresh === null) return null;
      log.error(fieldsOf(end), 'server ended, the one that was to replace it serves');
      next = null;
      processes.serve(fresh);
      onPromoted();
      return fresh;
    },
  };
}
