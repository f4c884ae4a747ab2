// One upload: the body of an exchange through the parser into lent memory; whole, or refused as soon as that is certain.
import { Failure } from '../../errors.js';
import type { Exchange } from '../../http/exchange.js';
import { CONTENT_LIMIT_BYTES, MULTIPART_ENVELOPE_BYTES, REFUSED_NAME_MS } from '../../limits.js';
import { startCoarseTimer } from '../../waiting/coarse-timer.js';
import { createClock } from '../../waiting/deadline.js';
import type { UploadMemory } from '../memory/memory.js';
import { openReception } from '../reception.js';
import type { Sent, Unsent } from '../submission.js';
import { createForm } from './form.js';
import { boundaryOf } from './form-headers.js';
import { MalformedMultipart } from './malformed-multipart.js';
import { createMultipartParser } from './multipart.js';

/** Whom a form is from. */
export interface Sender {
  /** Whose memory it is. */
  readonly account: string;
  /** Rejects when the request is not admitted: nothing more is received then. Null: it is admitted. */
  readonly cleared: Promise<unknown> | null;
}

export interface UploadOptions {
  readonly memory: UploadMemory;
  /** For the client: the time in which it waits for memory doesn't count. */
  readonly timeoutMs: number;
}

/**
 * Receives the form of an exchange, and calls back once: what is wrong with the form is a Failure in the result, and a client that went
 * away is the reason that the exchange gives for it. The memory is given back then; of a file, the caller gives it back.
 */
export function receiveUpload(
  exchange: Exchange,
  sender: Sender,
  options: UploadOptions,
  onReceived: OnReceived,
): void {
  let boundary: string;
  try {
    boundary = boundaryOf(exchange.headers);
  } catch (error) {
    onReceived({ kind: 'unsent', error, filename: '', isWhole: false });
    return;
  }
  const { body } = exchange;
  const declaredBytes = body.kind === 'sized' ? body.bytes : body.kind === 'none' ? 0 : Number.POSITIVE_INFINITY;
  const isTooLarge = body.kind === 'sized' && declaredBytes > CONTENT_LIMIT_BYTES + MULTIPART_ENVELOPE_BYTES;
  const limitBytes = isTooLarge ? 0 : Math.min(declaredBytes, CONTENT_LIMIT_BYTES);
  receiveForm(exchange, { boundary, isTooLarge, limitBytes, sender, options }, onReceived);
}

type OnReceived = (received: Sent | Unsent) => void;

interface Expected {
  readonly boundary: string;
  readonly isTooLarge: boolean;
  /** What the content may have at most. */
  readonly limitBytes: number;
  readonly sender: Sender;
  readonly options: UploadOptions;
}

function receiveForm(
  exchange: Exchange,
  { boundary, isTooLarge, limitBytes, sender, options }: Expected,
  onReceived: OnReceived,
): void {
  const { account, cleared } = sender;
  const { memory, timeoutMs } = options;
  let isSettled = false;
  // What declares too much is refused in any case, also while nothing of the body comes: its name is waited for a moment.
  const clock = isTooLarge
    ? createClock(REFUSED_NAME_MS, () => reception.fail(new Failure('fileTooLarge')), startCoarseTimer)
    : createClock(timeoutMs, () => reception.fail(new Failure('uploadTooSlow', `${timeoutMs} ms`)), startCoarseTimer);
  const reception = openReception({
    memory,
    account,
    limitBytes,
    source: {
      hold() {
        clock.stop();
        exchange.pauseBody();
      },
      goOn() {
        clock.start();
        exchange.resumeBody();
      },
    },
    onWhole: ({ content, lease }) => settle({ kind: 'file', filename: form.filename(), content, lease }),
    onFailed: (reason) =>
      settle({ kind: 'unsent', error: asFailure(reason), filename: form.filename(), isWhole: false }),
  });
  const form = createForm({ append: reception.append, isTooLarge });
  const parser = createMultipartParser(boundary, form);

  function settle(result: Sent | Unsent): void {
    isSettled = true;
    clock.stop();
    exchange.onGone(null);
    onReceived(result);
  }
  function end(): void {
    parser.end();
    const content = form.finish();
    if (content.kind === 'file') reception.end();
    else if (reception.drop()) settle(content);
  }

  clock.start();
  exchange.onGone(reception.fail);
  cleared?.catch(reception.fail);
  if (isSettled) return;
  exchange.receive({
    chunk: (bytes) => reception.step(() => parser.write(bytes)),
    end: () => reception.step(end),
  });
}

function asFailure(error: unknown): unknown {
  return error instanceof MalformedMultipart ? new Failure('malformedMultipart', error.message) : error;
}
