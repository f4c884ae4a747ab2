// One upload: the body of an exchange through the parser into lent memory; whole, or refused as soon as that is certain.
import { Failure } from '../errors.js';
import type { Exchange } from '../http/exchange.js';
import { CONTENT_LIMIT_BYTES, MULTIPART_ENVELOPE_BYTES, REFUSED_NAME_MS } from '../limits.js';
import { type Content, createBody } from './body.js';
import { createClock } from './deadline.js';
import { createForm, type FormContent } from './form.js';
import { boundaryOf } from './form-headers.js';
import type { Lease, UploadMemory } from './memory.js';
import { createMultipartParser, MalformedMultipart } from './multipart.js';

export type Upload =
  | { readonly kind: 'file'; readonly filename: string; readonly content: Content; readonly lease: Lease }
  | { readonly kind: 'url'; readonly url: string };

export interface UploadOptions {
  /** Whose memory it is. */
  readonly account: string;
  readonly memory: UploadMemory;
  /** For the client: what it has to wait for memory doesn't count. */
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
  const limitBytes = isTooLarge ? 0 : Math.min(declaredBytes, CONTENT_LIMIT_BYTES);
  return await receiveForm(exchange, { boundary, isTooLarge, limitBytes }, options);
}

interface Expected {
  readonly boundary: string;
  readonly isTooLarge: boolean;
  /** What the content may have at most. */
  readonly limitBytes: number;
}

function receiveForm(
  exchange: Exchange,
  { boundary, isTooLarge, limitBytes }: Expected,
  { account, memory, timeoutMs, cleared, onFilename }: UploadOptions,
): Promise<Upload> {
  return new Promise((resolve, reject) => {
    let settled = false;
    let hasEnded = false;
    // What declares too much is refused in any case, also while nothing of the body comes: its name is waited for a moment.
    const clock = isTooLarge
      ? createClock(REFUSED_NAME_MS, () => fail(new Failure('fileTooLarge')))
      : createClock(timeoutMs, () => fail(new Failure('uploadTooSlow', `${timeoutMs} ms`)));
    const lease = memory.open(account, limitBytes, {
      room: () => attempt(takeUp),
      refused: (reason) => fail(reason),
    });
    const body = createBody(lease);
    const form = createForm({ body, isTooLarge, onFilename });
    const parser = createMultipartParser(boundary, form);

    function settle(): boolean {
      if (settled) return false;
      settled = true;
      clock.stop();
      exchange.onGone(null);
      return true;
    }
    function fail(reason: unknown): void {
      if (!settle()) return;
      lease.release(lease.buffer());
      reject(asFailure(reason));
    }
    // After the first error the bytes that still arrive are nobody's.
    function attempt(act: () => void): void {
      if (settled) return;
      try {
        act();
      } catch (error) {
        fail(error);
      }
    }
    function takeUp(): void {
      body.takeUp();
      clock.start();
      if (hasEnded) finish(form.finish());
      else exchange.resumeBody();
    }
    function finish(sent: FormContent): void {
      if (sent.kind === 'file') {
        const upload: Upload = { ...sent, content: body.finish(), lease };
        if (settle()) resolve(upload);
      } else if (settle()) {
        lease.release(lease.buffer());
        resolve(sent);
      }
    }

    clock.start();
    exchange.onGone(fail);
    cleared.catch(fail);
    if (settled) return;
    exchange.receive({
      chunk: (bytes) =>
        attempt(() => {
          parser.write(bytes);
          if (!body.isWaiting()) return;
          clock.stop();
          exchange.pauseBody();
        }),
      end: () =>
        attempt(() => {
          parser.end();
          const sent = form.finish();
          hasEnded = true;
          if (!body.isWaiting()) finish(sent);
        }),
    });
  });
}

function asFailure(error: unknown): unknown {
  return error instanceof MalformedMultipart ? new Failure('malformedMultipart', error.message) : error;
}
