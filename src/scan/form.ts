// What a scan form may hold: one file or one url. Decides part by part, so that a wrong form is refused before the rest arrives.
import { Failure } from '../errors.js';
import { MULTIPART_FIELD_BYTES } from '../limits.js';
import type { Body } from './body.js';
import { baseName } from './filename.js';
import { MalformedMultipart, type PartSink } from './multipart.js';
import type { Disposition } from './part-headers.js';

export type FormContent =
  | { readonly kind: 'file' /** As shown: see baseName. */; readonly filename: string }
  | { readonly kind: 'url'; readonly url: string };

export interface Form extends PartSink {
  /** What was sent. Throws Failure `nothingToScan` or `filenameMissing`. */
  finish(): FormContent;
}

/** Writes the part `file` into the body; throws a Failure as soon as the form can't be served any more. */
export function createForm(body: Body): Form {
  let filename: string | null = null;
  let urlBytes: Buffer[] | null = null;
  let fileParts = 0;
  let fieldBytes = 0;
  let current: 'file' | 'url' | 'other' = 'other';

  function part(disposition: Disposition): void {
    const { name } = disposition;
    fieldBytes = 0;
    current = 'other';
    // A part without a filename is a field, whatever its type; `file` without one is an upload that lost its name.
    if (name === 'file' || disposition.filename !== null) {
      fileParts += 1;
      if (fileParts > 1) throw new Failure('severalFiles');
    }
    if (name === 'file') {
      if (urlBytes !== null) throw new Failure('fileAndUrl');
      filename = baseName(disposition.filename ?? '');
      if (filename === null) throw new Failure('filenameMissing');
      current = 'file';
    } else if (name === 'url' && disposition.filename === null) {
      if (filename !== null) throw new Failure('fileAndUrl');
      if (urlBytes !== null) throw new Failure('severalFiles');
      urlBytes = [];
      current = 'url';
    }
  }

  function data(bytes: Uint8Array): void {
    if (current === 'file') {
      body.append(bytes);
      return;
    }
    fieldBytes += bytes.length;
    if (fieldBytes > MULTIPART_FIELD_BYTES) throw new MalformedMultipart(`a field over ${MULTIPART_FIELD_BYTES} bytes`);
    if (current === 'url') urlBytes?.push(Buffer.from(bytes));
  }

  return {
    part,
    data,
    partEnd: () => undefined,
    finish() {
      if (filename !== null) return { kind: 'file', filename };
      if (urlBytes !== null) return { kind: 'url', url: Buffer.concat(urlBytes).toString('utf8') };
      throw new Failure('nothingToScan');
    },
  };
}
