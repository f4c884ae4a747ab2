// What a scan form may hold: one file or one url. Decides part by part, so that a wrong form is refused before the rest arrives.
import { isUtf8 } from 'node:buffer';
import { Failure } from '../../errors.js';
import { MULTIPART_FIELD_BYTES } from '../../limits.js';
import { baseName } from '../filename.js';
import { MalformedMultipart } from './malformed-multipart.js';
import type { PartSink } from './multipart.js';
import type { Disposition } from './part-headers.js';

export type FormContent = { readonly kind: 'file' } | { readonly kind: 'url'; readonly url: string };

export interface Form extends PartSink {
  /** The file's name, as shown, as soon as the head of its part is there, also of a form that is refused then; empty before. */
  filename(): string;
  /** What was sent. Throws Failure `nothingToScan` or `urlRejected`. */
  finish(): FormContent;
}

export interface FormOptions {
  /** Takes the bytes of the part `file`. Throws Failure `fileTooLarge`. */
  readonly append: (bytes: Uint8Array) => void;
  /** The request has declared more than any form with a file within the limit has: it is read up to the file's name. */
  readonly isTooLarge: boolean;
}

/** Hands on the bytes of the part `file`; throws a Failure as soon as the form can't be served any more. */
export function createForm({ append, isTooLarge }: FormOptions): Form {
  let filename: string | null = null;
  let urlBytes: Buffer[] | null = null;
  let fileParts = 0;
  let fieldBytes = 0;
  let current: 'file' | 'url' | 'other' = 'other';
  /** The name of a part that is a file input which was left empty, unless bytes follow. */
  let leftEmpty: string | null = null;

  function part({ name, filename: sent }: Disposition): void {
    fieldBytes = 0;
    current = 'other';
    leftEmpty = sent === '' ? name : null;
    // A part without a filename is a field, whatever its type; `file` without one is an upload that lost its name.
    if (leftEmpty === null && (name === 'file' || sent !== null)) file(name, sent ?? '');
    else if (name === 'url' && sent === null) url();
  }

  function file(name: string, sent: string): void {
    fileParts += 1;
    if (fileParts > 1) throw new Failure('severalFiles');
    if (name !== 'file') return;
    filename = baseName(sent);
    if (urlBytes !== null) throw new Failure('fileAndUrl');
    if (filename === null) throw new Failure('filenameMissing');
    current = 'file';
  }

  function url(): void {
    if (filename !== null) throw new Failure('fileAndUrl');
    if (urlBytes !== null) throw new Failure('severalFiles');
    urlBytes = [];
    current = 'url';
  }

  function data(bytes: Uint8Array): void {
    if (leftEmpty !== null) {
      file(leftEmpty, '');
      leftEmpty = null;
    }
    if (current === 'file') {
      if (isTooLarge) throw new Failure('fileTooLarge');
      append(bytes);
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
    filename: () => filename ?? '',
    finish() {
      if (filename !== null) return { kind: 'file' };
      if (urlBytes === null) throw new Failure('nothingToScan');
      const text = Buffer.concat(urlBytes);
      // It is in another character set, or in none: with U+FFFD in the place of its bytes it would be another URL.
      if (!isUtf8(text)) throw new Failure('urlRejected', 'malformed URL');
      return { kind: 'url', url: text.toString('utf8') };
    },
  };
}
