// An API key as the stores know it: its SHA-256, never its value.
import { hash } from 'node:crypto';

/** The form in which a key is stored and looked up: SHA-256, 64 hex characters. It has 128 random bits: no salt is needed. */
export function hashOfKey(value: string): string {
  return hash('sha256', value);
}

/** The same as the bytes of a column. */
export function hashBytes(keyHash: string): Buffer {
  return Buffer.from(keyHash, 'hex');
}
