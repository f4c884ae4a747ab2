// One file's content: read whole into memory of its own that scan threads share, or the reason why not.
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';

export type Content =
  | {
      readonly kind: 'read';
      readonly bytes: Uint8Array<SharedArrayBuffer>;
      readonly sizeBytes: number;
      readonly sha256: string;
    }
  | { readonly kind: 'incomplete'; readonly reason: string };

/** Bytes hashed at one go, so that a large file doesn't hold up the thread that feeds the others. */
const SLICE_BYTES = 4 * 1024 * 1024;

/**
 * Reads at most the size that the file had when it was found: memory was set aside for that. Rejects with the system's error.
 * A link in place of the file, put there since, is only followed where it was named on the command line.
 */
export async function readContent(path: Buffer, sizeBytes: number, followLink: boolean): Promise<Content> {
  // A named pipe, put there since, must not block: nobody may ever write to it.
  const flags = constants.O_RDONLY | constants.O_NONBLOCK | (followLink ? 0 : constants.O_NOFOLLOW);
  const file = await open(path, flags);
  try {
    if (!(await file.stat()).isFile()) return { kind: 'incomplete', reason: 'the file was replaced while it was read' };
    const bytes = new Uint8Array(new SharedArrayBuffer(sizeBytes));
    const hash = createHash('sha256');
    let filled = 0;
    while (filled < sizeBytes) {
      const target = bytes.subarray(filled, Math.min(filled + SLICE_BYTES, sizeBytes));
      const { bytesRead } = await file.read(target, 0, target.length, null);
      if (bytesRead === 0) break;
      hash.update(target.subarray(0, bytesRead));
      filled += bytesRead;
    }
    // Files of /proc say 0 and have content; a log grows.
    if (filled < sizeBytes || (await hasMore(file))) {
      return { kind: 'incomplete', reason: 'the file changed while it was read' };
    }
    return { kind: 'read', bytes, sizeBytes: filled, sha256: hash.digest('hex') };
  } finally {
    await file.close();
  }
}

async function hasMore(file: FileHandle): Promise<boolean> {
  const { bytesRead } = await file.read(new Uint8Array(1), 0, 1, null);
  return bytesRead > 0;
}
