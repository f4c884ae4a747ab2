// Notices that databases have changed: by looking at names, sizes and times, since notifications don't cross every mount.
import { fingerprint } from './databases.js';

export interface WatchOptions {
  readonly directories: () => readonly string[];
  /** Between two looks; 0: none are made. */
  readonly pollMs: number;
  /** Files that differ must stay the same for so long before they are read: somebody may still be copying. */
  readonly settleMs: number;
  /** What the last load, good or bad, was begun with. */
  readonly loaded: () => string;
  readonly onChange: () => Promise<unknown>;
}

export interface Watch {
  stop(): void;
}

export function watchDatabases({ directories, pollMs, settleMs, loaded, onChange }: WatchOptions): Watch {
  let timer: NodeJS.Timeout | null = null;
  let stopped = pollMs === 0;
  /** What was seen at the last look, if it differed from what is loaded. */
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
    // What watches doesn't keep a process alive.
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

/** A folder that can't be read is a state of it, too: it is told once, and noticed when it ends. */
export async function fingerprintOrReason(directories: readonly string[]): Promise<string> {
  try {
    return await fingerprint(directories);
  } catch (error) {
    return `unreadable: ${error instanceof Error ? error.message : String(error)}`;
  }
}
