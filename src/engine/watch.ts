// Notices that databases have changed: by looking at names, sizes and times, since notifications don't cross every mount.

import { messageOfError } from '../error-text.js';
import { fingerprint } from './databases.js';

export interface WatchOptions {
  readonly directories: () => readonly string[];
  /** Between two looks; 0: it never looks. */
  readonly pollMs: number;
  /** Files that differ must stay the same for so long before they are read: they may still be copied. */
  readonly settleMs: number;
  /** The fingerprint with which the last load began, good or bad. */
  readonly loaded: () => string;
  readonly onChange: () => Promise<unknown>;
}

export interface Watch {
  stop(): void;
}

export function watchDatabases({ directories, pollMs, settleMs, loaded, onChange }: WatchOptions): Watch {
  let timer: NodeJS.Timeout | null = null;
  let stopped = pollMs === 0;
  /** The fingerprint at the last look, if it differed from what is loaded. */
  let differing: string | null = null;

  async function look(): Promise<void> {
    const seen = await fingerprintOrReason(directories());
    if (stopped) return;
    if (seen === loaded()) {
      differing = null;
    } else if (seen === differing) {
      differing = null;
      await onChange();
    } else {
      differing = seen;
    }
    next();
  }

  function next(): void {
    if (stopped) return;
    timer = setTimeout(() => void look(), differing === null ? pollMs : settleMs);
    // The watch must not keep the process alive.
    timer.unref();
  }

  next();
  return {
    stop() {
      stopped = true;
      if (timer !== null) clearTimeout(timer);
    },
  };
}

/** That a folder can't be read is a state as well: it is reported once, and the watch notices when it ends. */
export async function fingerprintOrReason(directories: readonly string[]): Promise<string> {
  try {
    return await fingerprint(directories);
  } catch (error) {
    return `unreadable: ${messageOfError(error)}`;
  }
}
