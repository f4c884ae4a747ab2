// An encrypted content on disk: written while it arrives, read back in pieces, and refused when a byte of it was changed, moved, added or cut off.
import { createCipheriv, createDecipheriv, createHash, type Hash, hkdfSync, randomBytes } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { within } from '../../waiting/within.js';

/**
 * AES-256-GCM by frames, as STREAM does it (Hoang, Reyhanitabar, Rogaway and Vizar 2015): the nonce of a frame is its number and whether it is the
 * last one. Each file has a key of its own, made of a salt and its name: no nonce is used twice with a key, and no file can stand for another.
 */
const FRAME_BYTES = 64 * 1024;
const TAG_BYTES = 16;
const SALT_BYTES = 16;
const NONCE_BYTES = 12;
const FIRST_BYTES = 4 * 1024;
/** Bytes that wait for the disk; the sender is held above. */
const WAITING_BYTES = 512 * 1024;

export interface SealedOwner {
  /** Less waits for the disk than before: the sender may go on. */
  onWritten(): void;
  /** It can't be written, or the disk doesn't answer (NoAnswer). Nothing more is taken. */
  onUnwritable(error: unknown): void;
}

interface SealedPlace {
  readonly path: string;
  /** Of the file, without its folder. */
  readonly name: string;
  readonly key: Buffer;
  /** For each step of the disk. */
  readonly answerMs: number;
}

function fileKey(key: Buffer, salt: Buffer, name: string): Buffer {
  return Buffer.from(hkdfSync('sha256', key, salt, `file ${name}`, 32));
}

function nonceOf(frame: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(NONCE_BYTES);
  nonce.writeUInt32BE(frame, NONCE_BYTES - 5);
  nonce[NONCE_BYTES - 1] = isLast ? 1 : 0;
  return nonce;
}

export class SealedFile {
  sizeBytes = 0;
  readonly #owner: SealedOwner;
  readonly #key: Buffer;
  readonly #hash: Hash;
  /** Of the frame that isn't full. */
  #frame: Buffer;
  #frameBytes = 0;
  #frames = 0;
  readonly #answerMs: number;
  readonly #opened: Promise<FileHandle>;
  /** One write after the other. */
  #writing: Promise<void>;
  #waitingBytes = 0;
  #hasFailed = false;

  constructor({ path, name, key, answerMs }: SealedPlace, owner: SealedOwner) {
    const salt = randomBytes(SALT_BYTES);
    this.#owner = owner;
    this.#key = fileKey(key, salt, name);
    this.#hash = createHash('sha256');
    this.#frame = Buffer.allocUnsafe(FIRST_BYTES);
    this.#answerMs = answerMs;
    this.#opened = open(path, 'wx', 0o600);
    this.#writing = Promise.resolve();
    this.#write(salt);
  }

  /** More waits for the disk than should: the owner hears when the sender may go on. */
  get isFull(): boolean {
    return this.#waitingBytes > WAITING_BYTES;
  }

  /** The bytes are the caller's again when it returns. */
  append(bytes: Uint8Array): void {
    this.sizeBytes += bytes.length;
    this.#hash.update(bytes);
    for (let at = 0; at < bytes.length; ) {
      if (this.#frameBytes === FRAME_BYTES) this.#endFrame(false);
      const piece = bytes.subarray(at, at + FRAME_BYTES - this.#frameBytes);
      this.#makeRoom(this.#frameBytes + piece.length);
      this.#frame.set(piece, this.#frameBytes);
      this.#frameBytes += piece.length;
      at += piece.length;
    }
  }

  /** All of it has come. Resolves with its SHA-256, in hexadecimal digits, when a power cut can't take it any more but for the entry of its folder. */
  async finish(): Promise<string> {
    this.#endFrame(true);
    await this.#writing;
    if (this.#hasFailed) throw new Error('The content could not be written');
    const handle = await this.#opened;
    await within(handle.sync(), this.#answerMs);
    await this.close();
    return this.#hash.digest('hex');
  }

  /** Nothing more is written. Resolves when the disk has done what it was asked for, however long that takes. */
  async close(): Promise<void> {
    this.#hasFailed = true;
    await this.#writing;
    const handle = await this.#opened;
    await handle.close();
  }

  #makeRoom(bytes: number): void {
    if (bytes <= this.#frame.length) return;
    const larger = Buffer.allocUnsafe(Math.min(FRAME_BYTES, Math.max(bytes, 4 * this.#frame.length)));
    this.#frame.copy(larger, 0, 0, this.#frameBytes);
    this.#frame = larger;
  }

  #endFrame(isLast: boolean): void {
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonceOf(this.#frames, isLast));
    const sealed = cipher.update(this.#frame.subarray(0, this.#frameBytes));
    cipher.final();
    this.#write(Buffer.concat([sealed, cipher.getAuthTag()]));
    this.#frames += 1;
    this.#frameBytes = 0;
  }

  #write(bytes: Buffer): void {
    this.#waitingBytes += bytes.length;
    this.#writing = this.#writing.then(() => this.#writeNow(bytes)).catch((error: unknown) => this.#fail(error));
  }

  async #writeNow(bytes: Buffer): Promise<void> {
    if (this.#hasFailed) return;
    const handle = await within(this.#opened, this.#answerMs);
    for (let at = 0; at < bytes.length && !this.#hasFailed; ) {
      const { bytesWritten } = await within(handle.write(bytes, at), this.#answerMs);
      at += bytesWritten;
    }
    const wasFull = this.isFull;
    this.#waitingBytes -= bytes.length;
    if (wasFull && !this.isFull && !this.#hasFailed) this.#owner.onWritten();
  }

  #fail(error: unknown): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    this.#owner.onUnwritable(error);
  }
}

/** The file is not what was written. */
export class BrokenSeal extends Error {}

/** Rejects as the work of the disk does, and when it takes too long. */
type DiskStep = <T>(work: Promise<T>) => Promise<T>;

/**
 * The pieces of a content, in their order. Rejects with BrokenSeal, also after pieces that were whole: what was read is no content before its end; and with what
 * `step` rejects with, through which each step of the disk goes.
 */
export async function* openSealed(path: string, name: string, key: Buffer, step: DiskStep): AsyncGenerator<Buffer> {
  const opening = open(path, 'r');
  try {
    const handle = await step(opening);
    const { size } = await step(handle.stat());
    const salt = await readAll(handle, SALT_BYTES, step);
    const ownKey = fileKey(key, salt, name);
    let leftBytes = size - SALT_BYTES;
    for (let frame = 0; leftBytes > 0; frame += 1) {
      const sealed = await readAll(handle, Math.min(leftBytes, FRAME_BYTES + TAG_BYTES), step);
      leftBytes -= sealed.length;
      yield opened(sealed, ownKey, nonceOf(frame, leftBytes === 0));
    }
  } finally {
    // After a step that hangs, which may be the first one.
    await step(opening.then((handle) => handle.close()));
  }
}

async function readAll(handle: FileHandle, bytes: number, step: DiskStep): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(bytes);
  for (let at = 0; at < bytes; ) {
    const { bytesRead } = await step(handle.read(buffer, at, bytes - at));
    if (bytesRead === 0) throw new BrokenSeal('It is too short');
    at += bytesRead;
  }
  return buffer;
}

function opened(sealed: Buffer, key: Buffer, nonce: Buffer): Buffer {
  const textBytes = sealed.length - TAG_BYTES;
  if (textBytes < 0) throw new BrokenSeal('It is too short');
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAuthTag(sealed.subarray(textBytes));
  const text = decipher.update(sealed.subarray(0, textBytes));
  try {
    decipher.final();
  } catch {
    throw new BrokenSeal('It was changed, or is of another key');
  }
  return text;
}
