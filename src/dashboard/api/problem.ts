// What went wrong with a request, as one class: an answer of the service that is no success, or no answer at all.
import { isProxysOwn, noteNoAnswer } from './reachability.ts';
import { ErrorBody } from './shapes.ts';

/** Nothing waits longer, whatever a proxy says: timers of browsers that are to wait for more than 24 days don't wait at all. */
const WAIT_SECONDS = 86_400;

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
    this.retryAfterSeconds = Number.isFinite(seconds) ? Math.min(WAIT_SECONDS, Math.max(1, seconds)) : null;
  }
}

/** Something was to be changed, and no answer says whether it was. Nobody sends it again but who has looked. */
export class OutcomeUnknown extends Problem {
  constructor() {
    super(0, {}, null);
    this.name = 'OutcomeUnknown';
  }
}

/** The session is over: the tokens that the browser has are good for nothing any more. */
export class SessionEnded extends Error {
  constructor() {
    super('The session has ended');
    this.name = 'SessionEnded';
  }
}

/** Nothing was changed, or it may be asked for again. */
export function noAnswer(): Problem {
  noteNoAnswer();
  return new Problem(0, {}, null);
}

export function outcomeUnknown(): OutcomeUnknown {
  noteNoAnswer();
  return new OutcomeUnknown();
}

/** `unanswered`: what it is where a proxy says that the server has not answered. */
export function problemOf(
  status: number,
  text: string,
  retryAfter: string | null,
  unanswered: () => Problem = noAnswer,
): Problem {
  const parsed = ErrorBody.safeParse(jsonOf(text));
  if (!parsed.success && isProxysOwn(status)) return unanswered();
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
