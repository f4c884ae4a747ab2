// The secrets of webhooks, and signatures by them, as Standard Webhooks says (https://www.standardwebhooks.com).
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';

const PREFIX = 'whsec_';
/** The specification wants 24 to 64 bytes. */
const SECRET_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export function newSecret(): Buffer {
  return randomBytes(SECRET_BYTES);
}

/** As receivers' libraries take it. */
export function shownSecret(secret: Buffer): string {
  return PREFIX + secret.toString('base64');
}

/** For the database: of that webhook alone. */
export function sealSecret(key: Buffer, webhookId: string, secret: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(webhookId));
  const sealed = Buffer.concat([cipher.update(secret), cipher.final()]);
  return Buffer.concat([nonce, sealed, cipher.getAuthTag()]);
}

/** Null: it is of another key. */
export function openSecret(key: Buffer, webhookId: string, sealed: Buffer): Buffer | null {
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(webhookId)).setAuthTag(sealed.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
  } catch {
    // ENCRYPTION_KEY has changed.
    return null;
  }
}

export interface Message {
  /** The same at each attempt. */
  readonly id: string;
  readonly body: string;
}

/** The headers of one attempt. Several secrets: a receiver may know any of them. */
export function signedHeaders(
  { id, body }: Message,
  secrets: readonly Buffer[],
  nowMs: number,
): Readonly<Record<string, string>> {
  const timestamp = Math.floor(nowMs / 1000);
  const signatures = secrets.map((secret) => {
    const signature = createHmac('sha256', secret).update(`${id}.${timestamp}.${body}`).digest('base64');
    return `v1,${signature}`;
  });
  return { 'webhook-id': id, 'webhook-timestamp': String(timestamp), 'webhook-signature': signatures.join(' ') };
}
