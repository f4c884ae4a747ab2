// Which contents are being scanned, in a file that a crash of this process can't lose: the kernel has it, no disk is waited for.
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

/** A SHA-256 as hexadecimal digits. */
const DIGEST_BYTES = 64;
const DIGEST = /^[0-9a-f]{64}$/;

export interface InFlight {
  /** Writes the digest down; what it returns takes it out again. */
  enter(sha256: string): () => void;
  close(): void;
}

/** Two writes of 64 bytes into the page cache for each scan: see test/engine/in-flight.test.ts for what they cost. */
export function openInFlight(path: string): InFlight {
  const descriptor = openSync(path, 'w', 0o600);
  const empty = Buffer.alloc(DIGEST_BYTES);
  const free: number[] = [];
  let places = 0;
  /** False when the disk is full: a scan is worth more than the note of it. */
  function write(digest: Buffer, place: number): boolean {
    try {
      return writeSync(descriptor, digest, 0, DIGEST_BYTES, place * DIGEST_BYTES) === DIGEST_BYTES;
    } catch {
      return false;
    }
  }
  return {
    enter(sha256) {
      const place = free.pop() ?? places++;
      write(Buffer.from(sha256, 'latin1'), place);
      return () => {
        // A place that can't be emptied is not used again: it names a content that is being scanned no more, at worst as a suspect.
        if (write(empty, place)) free.push(place);
      };
    },
    close: () => closeSync(descriptor),
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
