// Which contents are being scanned, in memory that the supervisor has as well: a process that crashes can't lose it.
import { readSync } from 'node:fs';
import { processAddon } from '../../process-addon.js';

/** A SHA-256 as hexadecimal digits. */
const DIGEST_BYTES = 64;
const DIGEST = /^[0-9a-f]{64}$/;
/** More than there are threads, with those that are given up. */
const PLACES = 1024;

/** Returns its descriptor, for a process that inherits it; null without the addon: then nothing is noted. */
export function openInFlight(): number | null {
  return processAddon()?.openSharedMemory(PLACES * DIGEST_BYTES) ?? null;
}

/** For a scan thread, which writes at a place of its own. `descriptor` null: nothing is written. */
export function createNote(descriptor: number | null, place: number) {
  const memory = descriptor === null || place >= PLACES ? undefined : processAddon()?.mapSharedMemory(descriptor);
  const bytes = memory && new Uint8Array(memory, place * DIGEST_BYTES, DIGEST_BYTES);
  return {
    /** Writes the digest down, in the place of the one before. */
    enter: (digest: Uint8Array): void => bytes?.set(digest),
    /** Nothing is scanned here now. */
    leave: (): void => void bytes?.fill(0),
  };
}

/** What was being scanned when the process ended, each digest once. */
export function readInFlight(descriptor: number): string[] {
  const bytes = Buffer.alloc(PLACES * DIGEST_BYTES);
  readSync(descriptor, bytes, 0, bytes.length, 0);
  const text = bytes.toString('latin1');
  const digests = new Set<string>();
  for (let start = 0; start < text.length; start += DIGEST_BYTES) {
    const digest = text.slice(start, start + DIGEST_BYTES);
    if (DIGEST.test(digest)) digests.add(digest);
  }
  return [...digests];
}
