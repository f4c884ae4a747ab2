// Reads a multipart body as the scan route does, chunk by chunk as told, into something that tests can compare.
import { createHash } from 'node:crypto';
import { Failure } from '../../../src/errors.js';
import { CONTENT_LIMIT_BYTES } from '../../../src/limits.js';
import { createBody } from '../../../src/scan/body.js';
import { readBoundary } from '../../../src/scan/http/boundary.js';
import { createForm } from '../../../src/scan/http/form.js';
import { MalformedMultipart } from '../../../src/scan/http/malformed-multipart.js';
import { createMultipartParser } from '../../../src/scan/http/multipart.js';
import { leaseOf } from '../../fixtures/lease.js';

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
    if (boundary === 'notMultipart') return { kind: 'refused', code: 'unsupportedMediaType' };
    const body = createBody(leaseOf(block));
    const form = createForm({ append: body.append, isTooLarge: false });
    const parser = createMultipartParser(boundary.boundary, form);
    for (const chunk of chunks) {
      const lent = Uint8Array.from(chunk);
      parser.write(lent);
      lent.fill(0xaa);
    }
    parser.end();
    const sent = form.finish();
    if (sent.kind === 'url') return sent;
    const { sizeBytes, sha256 } = body.finish();
    const written = createHash('sha256').update(block.subarray(0, sizeBytes)).digest('hex');
    if (written !== sha256) throw new Error('the digest is not that of the bytes written');
    return { ...sent, filename: form.filename(), sizeBytes, sha256 };
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
