// The one bounded memory that content is written into, hashed on the way, and the only place that compares its size to the limit.
// It grows with what arrives; what has arrived while there is no memory for it is kept aside.
import { createHash, type Hash, hash } from 'node:crypto';
import { Failure } from '../errors.js';
import { CONTENT_LIMIT_BYTES } from '../limits.js';
import { type Block, copyInto } from './memory/arena.js';
import type { Lease } from './memory/memory.js';

/** Content that is whole. */
export interface Content {
  /** The first `sizeBytes` are the content. */
  readonly bytes: Block;
  readonly sizeBytes: number;
  /** 64 lower-case hexadecimal characters. */
  readonly sha256: string;
}

export interface Body {
  /** Copies the bytes in, or aside. Throws Failure `fileTooLarge` at the first byte over the limit. */
  append(bytes: Uint8Array): void;
  /** Bytes are kept aside: the lease calls back when there is room, and nothing should be appended before that. */
  isWaiting(): boolean;
  /** Copies in what was kept aside: there is room now. */
  takeUp(): void;
  /** To be called when nothing waits. Throws Failure `fileEmpty` when there were no bytes. */
  finish(): Content;
}

/** Throws Failure `fileTooLarge`: also for a length that was only declared. */
export function assertWithinLimit(sizeBytes: number): void {
  if (sizeBytes > CONTENT_LIMIT_BYTES) throw new Failure('fileTooLarge');
}

/** Content up to this size is hashed when it is whole, in one step: a hash object costs as much as hashing some KB. */
const HASHED_AT_ONCE_BYTES = 64 * 1024;

export function createBody(lease: Pick<Lease, 'block' | 'grow' | 'seal'>): Body {
  let target = lease.block();
  let aside: Uint8Array[] = [];
  let asideBytes = 0;
  let running: Hash | null = null;
  let hashedBytes = 0;
  let sizeBytes = 0;

  function hashOnTheWay(): void {
    if (sizeBytes <= HASHED_AT_ONCE_BYTES) return;
    running ??= createHash('sha256');
    running.update(target.subarray(hashedBytes, sizeBytes));
    hashedBytes = sizeBytes;
  }

  /** Whether there is room for so many bytes in all. */
  function hasRoom(bytes: number): boolean {
    if (bytes <= target.length) return true;
    if (!lease.grow(bytes, sizeBytes)) return false;
    target = lease.block();
    return true;
  }

  function write(bytes: Uint8Array): void {
    copyInto(target, sizeBytes, bytes);
    sizeBytes += bytes.length;
  }

  return {
    append(bytes) {
      const total = sizeBytes + asideBytes + bytes.length;
      assertWithinLimit(total);
      if (hasRoom(total) && aside.length === 0) {
        write(bytes);
        hashOnTheWay();
      } else {
        // A copy: the caller's memory is not ours after this call.
        aside.push(new Uint8Array(bytes));
        asideBytes += bytes.length;
      }
    },
    isWaiting: () => aside.length > 0,
    takeUp() {
      target = lease.block();
      for (const bytes of aside) write(bytes);
      aside = [];
      asideBytes = 0;
      hashOnTheWay();
    },
    finish() {
      if (sizeBytes === 0) throw new Failure('fileEmpty');
      lease.seal();
      const sha256 = running === null ? hash('sha256', target.subarray(0, sizeBytes)) : running.digest('hex');
      return { bytes: target, sizeBytes, sha256 };
    },
  };
}
