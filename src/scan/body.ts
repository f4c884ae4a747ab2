// The one bounded buffer that content is written into, hashed on the way, and the only place that compares its size to the limit.
import { createHash, type Hash, hash } from 'node:crypto';
import { Failure } from '../errors.js';
import { CONTENT_LIMIT_BYTES } from '../limits.js';

/** Content that is whole. */
export interface Content {
  readonly buffer: ArrayBuffer;
  readonly sizeBytes: number;
  /** 64 lower-case hexadecimal characters. */
  readonly sha256: string;
}

export interface Body {
  /** Copies the bytes in. Throws Failure `fileTooLarge` at the first byte over the limit. */
  append(bytes: Uint8Array): void;
  /** Throws Failure `fileEmpty` when there were none. */
  finish(): Content;
}

/** Throws Failure `fileTooLarge`: also for a length that was only declared. */
export function assertWithinLimit(sizeBytes: number): void {
  if (sizeBytes > CONTENT_LIMIT_BYTES) throw new Failure('fileTooLarge');
}

/** Content up to this size is hashed when it is whole, in one step: a hash object costs as much as hashing some KB. */
const HASHED_AT_ONCE_BYTES = 64 * 1024;

/** A body over the buffer, which must have room for the content or the content limit, whichever is less. */
export function createBody(buffer: ArrayBuffer): Body {
  const target = new Uint8Array(buffer);
  let running: Hash | null = null;
  let hashedBytes = 0;
  let sizeBytes = 0;

  function hashOnTheWay(): void {
    if (sizeBytes <= HASHED_AT_ONCE_BYTES) return;
    running ??= createHash('sha256');
    running.update(target.subarray(hashedBytes, sizeBytes));
    hashedBytes = sizeBytes;
  }

  return {
    append(bytes) {
      assertWithinLimit(sizeBytes + bytes.length);
      target.set(bytes, sizeBytes);
      sizeBytes += bytes.length;
      hashOnTheWay();
    },
    finish() {
      if (sizeBytes === 0) throw new Failure('fileEmpty');
      const sha256 = running === null ? hash('sha256', target.subarray(0, sizeBytes)) : running.digest('hex');
      return { buffer, sizeBytes, sha256 };
    },
  };
}
