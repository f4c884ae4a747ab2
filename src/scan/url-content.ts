// The content behind a URL: each hop judged, resolved, judged again and dialled; the last one's bytes into a lent buffer.
import { isIP } from 'node:net';
import { Failure } from '../errors.js';
import { CONTENT_LIMIT_BYTES, REDIRECTS_MAX } from '../limits.js';
import { assertWithinLimit, type Content, createBody } from './body.js';
import { assertCoded, codingOf } from './content-coding.js';
import { type Clock, type Deadline, startDeadline } from './deadline.js';
import { type OriginOptions, type OriginResponse, requestOrigin, TOO_SLOW } from './download.js';
import { createDownloadSlots, type SlotLimits } from './download-slots.js';
import { nameFromUrl, type ShownName } from './filename.js';
import type { Guard, GuardedUrl } from './guard.js';
import type { Lease, UploadMemory } from './memory.js';
import type { Resolve } from './resolve.js';

/** Named by the URL that was asked for, wherever it led. */
export interface Download extends ShownName {
  readonly content: Content;
  /** The caller releases it. */
  readonly lease: Lease;
}

type Received = Omit<Download, keyof ShownName>;

export interface Downloader {
  /**
   * Rejects with Failure `urlRejected`, `downloadFailed`, `fileTooLarge`, `fileEmpty` or `unavailable`, with the signal's
   * reason when the client goes away; everything is given back then.
   */
  download(url: string, userId: string, signal: AbortSignal): Promise<Download>;
  /** Downloads under way. */
  readonly running: number;
}

export interface DownloaderOptions extends OriginOptions {
  readonly guard: Guard;
  readonly resolve: Resolve;
  /** A budget of its own: slow origins must not keep uploads waiting. */
  readonly memory: Pick<UploadMemory, 'open'>;
  readonly limits: SlotLimits;
  /** From the first question to the DNS to the last byte; waiting for memory isn't in it. */
  readonly timeoutMs: number;
}

/** RFC 9110 section 15.4: those that name another place for the same GET. 300 and 304 name none. */
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const PARTIAL_CONTENT = 206;

export function createDownloader(options: DownloaderOptions): Downloader {
  const { guard, resolve, memory } = options;
  const slots = createDownloadSlots(options.limits);

  /** The addresses of a URL's host, all of them judged: one that may not be dialled spoils the host. */
  async function checkedAddresses({ hostname }: URL, signal: AbortSignal): Promise<readonly string[]> {
    // An address was judged with the URL, and is judged again with all others.
    const bare = hostname.replace(/^\[(.*)\]$/, '$1');
    const addresses = isIP(bare) === 0 ? await resolve(hostname, signal) : [bare];
    for (const address of addresses) {
      const checked = guard.checkAddress(address);
      if (!checked.allowed) throw new Failure('urlRejected', checked.reason);
    }
    return addresses;
  }

  /** The first response that is no redirect. */
  async function follow(start: URL, signal: AbortSignal): Promise<OriginResponse> {
    let url = start;
    for (let redirects = 0; ; redirects += 1) {
      const addresses = await checkedAddresses(url, signal);
      const response = await requestOrigin({ url, addresses, signal }, options);
      if (!REDIRECTS.has(response.status)) return response;
      response.close();
      const location = response.header('location');
      if (location === null || location === '') throw new Failure('downloadFailed', 'a redirect without a target');
      if (redirects === REDIRECTS_MAX) throw new Failure('urlRejected', 'too many redirects');
      url = allowed(guard.checkRedirect(location, url));
    }
  }

  /** The whole body of a response that is a success. */
  async function receive(response: OriginResponse, account: string, deadline: Deadline): Promise<Received> {
    const { status } = response;
    // A part that nobody asked for is not the content.
    if (status < 200 || status > 299 || status === PARTIAL_CONTENT) {
      throw new Failure('downloadFailed', `the origin answered with status ${status}`);
    }
    const coding = codingOf(response);
    const declared = response.header('content-length');
    const expectedBytes = declared === null ? CONTENT_LIMIT_BYTES : Number(declared);
    assertWithinLimit(expectedBytes);
    const received = await receiveInto(memory, { account, limitBytes: expectedBytes }, { response, clock: deadline });
    try {
      assertCoded(coding, received.content);
      return received;
    } catch (error) {
      received.lease.release(received.lease.buffer());
      throw error;
    }
  }

  return {
    async download(text, userId, client) {
      const url = allowed(guard.checkUrl(text));
      const giveBack = slots.take(userId);
      const deadline = startDeadline(options.timeoutMs, client, new Failure('downloadFailed', TOO_SLOW));
      try {
        const response = await follow(url, deadline.signal);
        try {
          return { ...nameFromUrl(url), ...(await receive(response, userId, deadline)) };
        } finally {
          response.close();
        }
      } finally {
        deadline.end();
        giveBack();
      }
    },
    get running() {
      return slots.taken;
    },
  };
}

/** The body into lent memory: the origin is kept waiting while there is none, and its clock stands still. */
function receiveInto(
  memory: DownloaderOptions['memory'],
  { account, limitBytes }: { readonly account: string; readonly limitBytes: number },
  { response, clock }: { readonly response: OriginResponse; readonly clock: Clock },
): Promise<Received> {
  return new Promise((resolve, reject) => {
    let settled = false;
    let hasEnded = false;
    const lease = memory.open(account, limitBytes, { room: () => attempt(takeUp), refused: fail });
    const body = createBody(lease);

    function fail(reason: unknown): void {
      if (settled) return;
      settled = true;
      lease.release(lease.buffer());
      reject(reason);
    }
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
      if (hasEnded) finish();
      else response.goOn();
    }
    function finish(): void {
      const content = body.finish();
      settled = true;
      resolve({ content, lease });
    }
    function onBytes(bytes: Uint8Array): void {
      if (settled) return;
      body.append(bytes);
      if (!body.isWaiting()) return;
      clock.stop();
      response.hold();
    }
    response.receive(onBytes).then(
      () =>
        attempt(() => {
          hasEnded = true;
          if (!body.isWaiting()) finish();
        }),
      fail,
    );
  });
}

function allowed(checked: GuardedUrl): URL {
  if (!checked.allowed) throw new Failure('urlRejected', checked.reason);
  return checked.url;
}
