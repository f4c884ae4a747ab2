// Which contents are being scanned, in a file that a crash of this process can't lose: the kernel has it, no disk is waited for.
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

/** A SHA-256 as hexadecimal digits. */
const DIGEST_BYTES = 64;
const DIGEST = /^[0-9a-f]{64}$/;
const NOTHING = Buffer.alloc(DIGEST_BYTES);

export interface InFlight {
  /** For the scan threads, each of which writes at a place of its own. */
  readonly descriptor: number;
  close(): void;
}

export function openInFlight(path: string): InFlight {
  const descriptor = openSync(path, 'w', 0o600);
  return { descriptor, close: () => closeSync(descriptor) };
}

/** One place of the file. */
export interface Note {
  /** Writes the digest down, in the place of the one before. */
  enter(digest: Uint8Array): void;
  /** Nothing is scanned here now. */
  leave(): void;
}

/**
 * A write of 64 bytes into the page cache for each scan, and one when a thread has nothing to do: see
 * test/engine/threads/in-flight.test.ts for what they cost. `descriptor` null: nothing is written.
 */
export function createNote(descriptor: number | null, place: number): Note {
  let isEmpty = true;
  /** False when the disk is full: a scan is worth more than the note of it. */
  function write(digest: Uint8Array): boolean {
    if (descriptor === null) return false;
    try {
      return writeSync(descriptor, digest, 0, DIGEST_BYTES, place * DIGEST_BYTES) === DIGEST_BYTES;
    } catch {
      return false;
    }
  }
  return {
    enter(digest) {
      // One that can't be overwritten names a content that is being scanned no more, at worst as a suspect.
      if (write(digest)) isEmpty = false;
    },
    leave() {
      if (!isEmpty) isEmpty = write(NOTHING);
    },
  };
}

/** What was being scanned when the process ended, each digest once. */
export function readInFlight(path: string): string[] {
  const text = readFileSync(path, 'latin1');
  const digests = new Set<string>();
  for (let start = 0; start < text.length; start += DIGEST_BYTES) {
    const digest = text.slice(start, start + DIGEST_BYTES);
    if (DIGEST.test(digest)) digests.add(digest);
  }
  return [...digests];
}
