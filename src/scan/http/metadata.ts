// The client's own text about a scan, which is kept with it and shown again, and means nothing to us.
import { isUtf8 } from 'node:buffer';
import { Failure } from '../../errors.js';
import { METADATA_BYTES } from '../../limits.js';

/** But for tabs and line ends. Postgres has no text with NUL in it; nobody can read the others. */
const CONTROL = /[^\P{Cc}\t\n\r]/u;

/** Throws Failure `badRequest`. */
export function metadataOf(text: string): string {
  if (Buffer.byteLength(text) > METADATA_BYTES) {
    throw new Failure('badRequest', `metadata: must be at most ${METADATA_BYTES} bytes long`);
  }
  if (CONTROL.test(text)) throw new Failure('badRequest', 'metadata: must not have control characters');
  return text;
}

/** The same of bytes as they were sent. */
export function metadataIn(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new Failure('badRequest', 'metadata: must be UTF-8');
  return metadataOf(bytes.toString('utf8'));
}

/** There is one metadata for a scan. */
export function assertOnce(metadata: string | null): void {
  if (metadata !== null) throw new Failure('badRequest', 'metadata: given twice');
}
