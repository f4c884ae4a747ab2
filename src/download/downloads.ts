// What is behind a URL, as a source of bytes: each hop checked, resolved, checked again and dialled; the last one's body handed on.
import { Failure, Unavailable } from '../errors.js';
import { REDIRECTS_MAX } from '../limits.js';
import { Shares } from '../waiting/shares.js';
import { type Deadline, startDeadline } from '../waiting/within.js';
import { allowed, type DiallingOptions, dial } from './dialling.js';
import { type BodySink, codingCheck, type OriginResponse, TOO_SLOW } from './origin.js';

/** The body of a response that is a success. */
export interface OriginBody {
  /** Null: the origin doesn't say. */
  readonly declaredBytes: number | null;
  /** Hands the bytes on, once. Rejects with Failure `downloadFailed` when they are not all there or not as they should be. */
  receive(sink: BodySink): Promise<void>;
  /** Keeps the origin waiting, on our time. */
  hold(): void;
  goOn(): void;
}

export type Downloads = ReturnType<typeof createDownloads>;

interface DownloadOptions extends DiallingOptions {
  readonly limits: SlotLimits;
  /** From the first question to the DNS to the last byte, but for the time in which the body is held. */
  readonly timeoutMs: number;
}

/** RFC 9110 section 15.4: those that name another place for the same GET. 300 and 304 name none. */
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const PARTIAL_CONTENT = 206;

export function createDownloads(options: DownloadOptions) {
  const { guard } = options;
  const slots = new Shares(options.limits.perUser);

  /** The first response that is no redirect. */
  async function follow(start: URL, signal: AbortSignal): Promise<OriginResponse> {
    let url = start;
    for (let redirects = 0; ; redirects += 1) {
      const response = await dial(url, signal, options);
      if (!REDIRECTS.has(response.status)) return response;
      response.close();
      const location = response.header('location');
      if (location === null || location === '') throw new Failure('downloadFailed', 'a redirect without a target');
      if (redirects === REDIRECTS_MAX) throw new Failure('urlRejected', 'too many redirects');
      url = allowed(guard.checkRedirect(location, url));
    }
  }

  return {
    /**
     * Resolves with what `receive` makes of the body, and ends the connection then. Rejects with Failure `urlRejected`,
     * `downloadFailed` or `unavailable`, with the signal's reason when it aborts, and with what `receive` rejects with.
     */
    async fetch<T>(
      text: string,
      account: string,
      signal: AbortSignal,
      receive: (body: OriginBody) => Promise<T>,
    ): Promise<T> {
      const url = allowed(guard.checkUrl(text));
      if (!slots.take(account)) throw new Unavailable('downloadShareTaken');
      const deadline = startDeadline(options.timeoutMs, signal, new Failure('downloadFailed', TOO_SLOW));
      try {
        if (slots.all > options.limits.total) throw new Unavailable('downloadSlotsTaken');
        const response = await follow(url, deadline.signal);
        try {
          return await receive(bodyOf(response, deadline));
        } finally {
          response.close();
        }
      } finally {
        deadline.end();
        slots.giveBack(account);
      }
    },
    /** What can be said of a URL before its host is resolved. Throws Failure `urlRejected`. */
    check: (text: string): void => void allowed(guard.checkUrl(text)),
    /** Downloads under way. */
    get running(): number {
      return slots.all;
    },
  };
}

/** Throws Failure `downloadFailed` for a response that has no content, or none that the engine could open. */
function bodyOf(response: OriginResponse, deadline: Deadline): OriginBody {
  const { status } = response;
  // A part that nobody asked for is not the content.
  if (status < 200 || status > 299 || status === PARTIAL_CONTENT) {
    throw new Failure('downloadFailed', `the origin answered with status ${status}`);
  }
  const coding = codingCheck(response);
  const declared = response.header('content-length');
  return {
    declaredBytes: declared === null ? null : Number(declared),
    async receive(sink) {
      await response.receive((bytes) => {
        coding.look(bytes);
        sink(bytes);
      });
      coding.assertAsSaid();
    },
    hold() {
      deadline.stop();
      response.hold();
    },
    goOn() {
      deadline.start();
      response.goOn();
    },
  };
}

interface SlotLimits {
  readonly perUser: number;
  readonly total: number;
}
