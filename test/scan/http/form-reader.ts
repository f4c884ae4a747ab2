// Reads a multipart body as the scan route does, chunk by chunk as told, into something that tests can compare.
import { createHash } from 'node:crypto';
import { Failure } from '../../../src/errors.js';
import { CONTENT_LIMIT_BYTES } from '../../../src/limits.js';
import { MultipartReader } from '../../../src/scan/http/body-reader.js';
import { MalformedMultipart, readBoundary } from '../../../src/scan/http/multipart-parser.js';
import { contentIn } from '../../fixtures/lender.js';

export type FormReading =
  | { readonly kind: 'file'; readonly filename: string; readonly sizeBytes: number; readonly sha256: string }
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'refused'; readonly code: string };

/** One for all readings, which end one after the other: making ten megabytes thousands of times takes longer than the tests. */
const block = new Uint8Array(new SharedArrayBuffer(CONTENT_LIMIT_BYTES));

/** The bytes are copied before each write and wiped after it: a parser that kept a view would be found out. */
export function readForm(contentType: string, chunks: Iterable<Uint8Array>): FormReading {
  try {
    const boundary = readBoundary(contentType);
    if (boundary === null) return { kind: 'refused', code: 'unsupportedMediaType' };
    const content = contentIn(block);
    const reader = new MultipartReader(boundary, { onFileBytes: (bytes) => content.append(bytes) });
    for (const chunk of chunks) {
      const lent = Buffer.from(chunk);
      reader.write(lent);
      lent.fill(0xaa);
    }
    const url = reader.end();
    if (url !== null) return { kind: 'url', url };
    content.finish();
    const { sizeBytes, sha256 } = content;
    const written = createHash('sha256').update(block.subarray(0, sizeBytes)).digest('hex');
    if (written !== sha256) throw new Error('the digest is not that of the bytes written');
    return { kind: 'file', filename: reader.filename ?? '', sizeBytes, sha256 };
  } catch (error) {
    if (error instanceof MalformedMultipart) return { kind: 'refused', code: 'malformedMultipart' };
    if (error instanceof Failure) return { kind: 'refused', code: error.code };
    throw error;
  }
}

export function byteByByte(body: Uint8Array): Uint8Array[] {
  return Array.from(body, (byte) => Uint8Array.of(byte));
}

/** Cuts the body at the given places (any numbers: they are taken modulo its length). */
export function splitAt(body: Uint8Array, places: readonly number[]): Uint8Array[] {
  const cuts = [...new Set(places.map((place) => place % (body.length + 1)))].sort((a, b) => a - b);
  return [...cuts, body.length].map((end, index) => body.subarray(cuts[index - 1] ?? 0, end));
}
