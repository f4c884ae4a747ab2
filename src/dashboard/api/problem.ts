// What went wrong with a request, as one class: an answer of the service that is no success, or no answer at all.
import { isProxysOwn, noteNoAnswer } from './reachability.ts';
import { ErrorBody } from './shapes.ts';

export class Problem extends Error {
  /** 0: there was no answer. */
  readonly status: number;
  /** The `error` of the body; empty without one of ours. */
  readonly error: string;
  readonly retryAfterSeconds: number | null;

  constructor(status: number, body: { error?: string; message?: string }, retryAfter: string | null) {
    super(body.message ?? body.error ?? '');
    this.name = 'Problem';
    this.status = status;
    this.error = body.error ?? '';
    const seconds = Number.parseInt(retryAfter ?? '', 10);
    this.retryAfterSeconds = Number.isFinite(seconds) ? Math.max(1, seconds) : null;
  }
}

/** The session is over: the tokens that the browser has are good for nothing any more. */
export class SessionEnded extends Error {
  constructor() {
    super('The session has ended');
    this.name = 'SessionEnded';
  }
}

export function noAnswer(): Problem {
  noteNoAnswer();
  return new Problem(0, {}, null);
}

export function problemOf(status: number, text: string, retryAfter: string | null): Problem {
  const parsed = ErrorBody.safeParse(jsonOf(text));
  if (!parsed.success && isProxysOwn(status)) return noAnswer();
  if (!parsed.success) return new Problem(status, {}, retryAfter);
  const { error, message } = parsed.data;
  return new Problem(status, { error, ...(message === undefined ? {} : { message }) }, retryAfter);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
