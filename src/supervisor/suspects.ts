// Contents that were being scanned when a server process crashed or a thread didn't come back; after the second time they
// are refused. Kept under DATA_DIR, so that a restart forgets nothing.
import { closeSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { openInFlight, readInFlight } from '../engine/threads/ring.js';
import { codeOf, messageOfError } from '../error-text.js';
import type { Log } from '../log.js';
import { makeFolder } from '../paths.js';

/** Crashes with a content in flight after which it is refused: once may have been its neighbour's doing. */
const REFUSED_AT = 2;
/** After a week without another one a crash is forgotten: newer signatures may have mended it. */
const KEPT_MS = 7 * 24 * 60 * 60 * 1000;
/** Suspects in memory and in the file, some 100 bytes each; the one whose crash is longest ago makes room. */
const SUSPECTS_MAX = 10_000;

const shape = z.record(z.string(), z.object({ crashes: z.number(), lastMs: z.number() }));
type Kept = z.infer<typeof shape>[string];

export interface SuspectsOptions {
  readonly dataDirectory: string;
  readonly log: Pick<Log, 'warn' | 'error'>;
  readonly now: () => number;
}

/** Which contents were being scanned when a process crashed, as far as the supervisor has to do with it. */
export type Suspects = ReturnType<typeof createSuspects>;

export function createSuspects({ dataDirectory, log, now }: SuspectsOptions) {
  const path = join(dataDirectory, 'crash-suspects.json');
  /** The one with the newest crash is last. */
  const kept = new Map<string, Kept>(Object.entries(read()).sort(([, one], [, other]) => one.lastMs - other.lastMs));

  function read(): z.infer<typeof shape> {
    try {
      return shape.parse(JSON.parse(readFileSync(path, 'utf8')));
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return {};
      log.warn({ reason: String(error) }, 'the crash suspects could not be read: starting without');
      return {};
    }
  }

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
    try {
      makeFolder(dataDirectory);
      writeFileSync(`${path}.new`, JSON.stringify(Object.fromEntries(kept)), { mode: 0o600 });
      renameSync(`${path}.new`, path);
    } catch (error) {
      log.error({ reason: String(error) }, 'the crash suspects could not be written: a restart forgets them');
    }
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
