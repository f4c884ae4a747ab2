// One upload: the body of an exchange through the parser into a lent buffer; whole, or refused as soon as that is certain.
import { Failure } from '../errors.js';
import type { Exchange } from '../http/exchange.js';
import { CONTENT_LIMIT_BYTES, MULTIPART_ENVELOPE_BYTES, REFUSED_NAME_MS } from '../limits.js';
import { type Content, createBody } from './body.js';
import { createForm, type FormContent } from './form.js';
import { boundaryOf } from './form-headers.js';
import type { Lease, UploadMemory } from './memory.js';
import { createMultipartParser, MalformedMultipart } from './multipart.js';

export type Upload =
  | { readonly kind: 'file'; readonly filename: string; readonly content: Content; readonly lease: Lease }
  | { readonly kind: 'url'; readonly url: string };

export interface UploadOptions {
  readonly memory: UploadMemory;
  readonly timeoutMs: number;
  /** Rejects when the request is not admitted: nothing more is received then. */
  readonly cleared: Promise<unknown>;
  /** Called with the file's name as soon as the head of its part is there. */
  readonly onFilename: (filename: string) => void;
}

/**
 * Receives the form of an exchange. Rejects with a Failure that says what is wrong with it, or with the signal's reason when
 * the client goes away; the memory is given back then. Of a file, the caller releases the lease.
 */
export async function receiveUpload(exchange: Exchange, options: UploadOptions): Promise<Upload> {
  const boundary = boundaryOf(exchange.headers);
  const { body } = exchange;
  const declaredBytes = body.kind === 'sized' ? body.bytes : body.kind === 'none' ? 0 : Number.POSITIVE_INFINITY;
  const isTooLarge = body.kind === 'sized' && declaredBytes > CONTENT_LIMIT_BYTES + MULTIPART_ENVELOPE_BYTES;
  const asked = options.memory.lend(isTooLarge ? 0 : Math.min(declaredBytes, CONTENT_LIMIT_BYTES), exchange.signal);
  const lease = asked instanceof Promise ? await asked : asked;
  try {
    // Who had to wait may have been refused meanwhile, and the exchange answered.
    if (asked instanceof Promise) await options.cleared;
    const { form, content } = await receiveForm(exchange, { boundary, isTooLarge }, lease, options);
    if (form.kind === 'file') return { ...form, content: content(), lease };
    lease.release(lease.buffer);
    return form;
  } catch (error) {
    lease.release(lease.buffer);
    throw error;
  }
}

interface ReceivedForm {
  readonly form: FormContent;
  /** Throws Failure `fileEmpty`. */
  content(): Content;
}

function receiveForm(
  exchange: Exchange,
  { boundary, isTooLarge }: { readonly boundary: string; readonly isTooLarge: boolean },
  lease: Lease,
  { timeoutMs, cleared, onFilename }: UploadOptions,
): Promise<ReceivedForm> {
  const body = createBody(lease.buffer);
  const form = createForm({ body, isTooLarge, onFilename });
  const parser = createMultipartParser(boundary, form);
  return new Promise((resolve, reject) => {
    let settled = false;
    const settle = (act: () => void): void => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      exchange.onGone(null);
      act();
    };
    // After the first error the bytes that still arrive are nobody's.
    const attempt = (act: () => void): void => {
      if (settled) return;
      try {
        act();
      } catch (error) {
        settle(() => reject(asFailure(error)));
      }
    };
    // What declares too much is refused in any case, also while nothing of the body comes: its name is waited for a moment.
    const limitMs = isTooLarge ? REFUSED_NAME_MS : timeoutMs;
    const late = isTooLarge ? new Failure('fileTooLarge') : new Failure('uploadTooSlow', `${timeoutMs} ms`);
    const timer = setTimeout(() => settle(() => reject(late)), limitMs);
    exchange.onGone((reason) => settle(() => reject(reason)));
    cleared.catch((reason: unknown) => settle(() => reject(reason)));
    if (settled) return;
    exchange.receive({
      chunk: (bytes) => attempt(() => parser.write(bytes)),
      end: () =>
        attempt(() => {
          parser.end();
          const sent = form.finish();
          settle(() => resolve({ form: sent, content: () => body.finish() }));
        }),
    });
  });
}

function asFailure(error: unknown): unknown {
  return error instanceof MalformedMultipart ? new Failure('malformedMultipart', error.message) : error;
}
