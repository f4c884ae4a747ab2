// Idempotency-Keys: with the same one a request that is sent again is the same request, and has the same answer.

const KEY_BYTES = 16;

/** Nobody guesses it. Over plain http there is no randomUUID. */
export function newOnceKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
