// Reads a ClamAV container (.cvd, .cld, .cud): 512 bytes of header, then a tar archive, compressed or not. libclamav checks its signature when it loads it.
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { createGunzip } from 'node:zlib';

export interface Member {
  readonly name: string;
  /** Null: it was not asked for. */
  readonly content: Buffer | null;
}

const HEADER_BYTES = 512;
const BLOCK_BYTES = 512;
/** Official containers have some thirty. */
const MEMBERS_MAX = 10_000;
/** The largest official member has 200 MB; what is asked for is smaller. */
const KEPT_BYTES_MAX = 512 * 1024 * 1024;
const TOTAL_BYTES_MAX = 8 * 1024 * 1024 * 1024;
const GZIP = [0x1f, 0x8b];

/** Fields of a tar header: where they begin and end. */
const NAME = [0, 100] as const;
const SIZE = [124, 136] as const;
const TYPE = 156;

/** Rejects when it is damaged or larger than anything official. */
export async function* membersOf(path: string, isWanted: (name: string) => boolean): AsyncGenerator<Member> {
  const blocks = readBlocks(path);
  let keptBytes = 0;
  for (let count = 0; ; count += 1) {
    const header = await blocks.take(BLOCK_BYTES);
    if (header === null && count === 0) throw damaged(path);
    // An archive ends with blocks of zeros, or with the file.
    if (header === null || header.every((byte) => byte === 0)) return;
    const name = textOf(header, NAME);
    const size = Number.parseInt(textOf(header, SIZE), 8);
    const isFile = header[TYPE] === 0 || header[TYPE] === '0'.charCodeAt(0);
    if (!isFile || name === '' || !Number.isSafeInteger(size) || size < 0 || count === MEMBERS_MAX) throw damaged(path);
    const isKept = isWanted(name);
    if (isKept) keptBytes += size;
    if (keptBytes > KEPT_BYTES_MAX) throw damaged(path);
    const content = isKept ? await blocks.take(size) : null;
    if (isKept && content === null) throw damaged(path);
    if (!(await blocks.skip(isKept ? padding(size) : size + padding(size)))) throw damaged(path);
    yield { name, content };
  }
}

function damaged(path: string): Error {
  return new Error(`${path} is not a ClamAV container that can be read`);
}

function padding(size: number): number {
  return (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES;
}

function textOf(header: Buffer, [start, end]: readonly [number, number]): string {
  const text = header.toString('latin1', start, end);
  const zero = text.indexOf('\0');
  return (zero < 0 ? text : text.slice(0, zero)).trim();
}

interface Blocks {
  /** So many bytes; null when the file ends before. */
  take(bytes: number): Promise<Buffer | null>;
  /** False when the file ends before. */
  skip(bytes: number): Promise<boolean>;
}

function readBlocks(path: string): Blocks {
  const chunks = unpacked(path);
  let total = 0;
  let held: Buffer = Buffer.alloc(0);

  /** The next piece, of at most so many bytes. */
  async function piece(bytes: number): Promise<Buffer | null> {
    if (held.length === 0) {
      const next = await chunks.next();
      if (next.done === true) return null;
      held = next.value;
      total += held.length;
      if (total > TOTAL_BYTES_MAX) throw damaged(path);
    }
    const taken = held.subarray(0, bytes);
    held = held.subarray(taken.length);
    return taken;
  }

  return {
    async take(bytes) {
      const pieces: Buffer[] = [];
      for (let left = bytes; left > 0; ) {
        const next = await piece(left);
        if (next === null) return null;
        pieces.push(next);
        left -= next.length;
      }
      return Buffer.concat(pieces);
    },
    async skip(bytes) {
      for (let left = bytes; left > 0; ) {
        const next = await piece(left);
        if (next === null) return false;
        left -= next.length;
      }
      return true;
    },
  };
}

async function* unpacked(path: string): AsyncGenerator<Buffer> {
  const compressed = await isCompressed(path);
  const file = createReadStream(path, { start: HEADER_BYTES });
  if (!compressed) {
    yield* file;
    return;
  }
  const gunzip = createGunzip();
  file.on('error', (error) => gunzip.destroy(error));
  yield* file.pipe(gunzip);
}

async function isCompressed(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(GZIP.length), 0, GZIP.length, HEADER_BYTES);
    return bytesRead === GZIP.length && GZIP.every((byte, index) => buffer[index] === byte);
  } finally {
    await file.close();
  }
}
