// What looks at the contents of `sluice scan`: an engine in this process, or a server, to which each is uploaded and which is asked again when it says so, until there is
// an answer.
import { setTimeout as delay } from 'node:timers/promises';
import { v4 as uuidv4 } from 'uuid';
import { z } from 'zod';
import type { Config } from '../config/config.js';
import { createStandings, MEANINGS } from '../engine/folders.js';
import { loadSignatures } from '../engine/signatures.js';
import { ScanPool, scanOnce } from '../engine/threads/pool.js';
import { findSandbox } from '../engine/threads/sandbox.js';
import { noticesOf } from '../engine/verdict.js';
import { codeOf, messageOfError } from '../error-text.js';
import { CONTENT_LIMIT_BYTES } from '../limits.js';
import { parseJson, parseUrl } from '../wire-text.js';
import type { Examined, Examiner, Finding } from './scan-files.js';

/** For each thread: one content that it scans, and the next one. */
const FILES_PER_THREAD = 2;

export interface EngineScanOptions {
  readonly config: Config;
  /** Where the files of gates are kept; null: there are none. */
  readonly gatesDirectory: string | null;
  readonly signal: AbortSignal;
  /** 0 to 1. */
  readonly onLoading: (fraction: number) => void;
  readonly note: (text: string) => void;
}

/** Null: it can't be had, as a note says, or the scan has been ended meanwhile. */
export async function startEngineExaminer({
  config,
  gatesDirectory,
  signal,
  onLoading,
  note,
}: EngineScanOptions): Promise<(Examiner & { stop(): Promise<void> }) | null> {
  const signatures = loadSignatures({
    ...config.signatureFolders,
    engine: config.engine,
    scanTimeoutMs: config.scanTimeoutMs,
    limits: config.scanLimits,
    gatesDirectory,
    onProgress: onLoading,
    onEvent: (event) => {
      if (event.kind === 'warning') note(event.message);
    },
  });
  const interrupted = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
  try {
    const engine = await Promise.race([signatures.ready(), interrupted]);
    if (engine !== undefined && createStandings(config.signatureFolders, Date.now)(engine) === 'starter') {
      const todo = "`sluice signatures update` fetches ClamAV's";
      note(`${engine.signatureCount} signatures serve, ${MEANINGS.starter}. ${todo}`);
    }
  } catch (error) {
    note(`the signatures could not be loaded: ${messageOfError(error)}`);
    await signatures.stop();
    return null;
  }
  // A load can't be broken off; its empty temporary folder goes with the next start.
  if (signal.aborted) return null;
  try {
    const sandbox = findSandbox(config.sandbox);
    const pool = new ScanPool({
      threads: config.scanThreads,
      // There is one account, which needs nobody to stand in for it and may have three quarters of the queue.
      threadsMost: config.scanThreads,
      queueLimit: config.scanThreads * 4,
      // The file before this one may use up a whole deadline of the engine's; this one's own begins after it.
      scanTimeoutMs: config.scanTimeoutMs * 2,
      encryptedArchives: config.encryptedArchives,
      sandbox: sandbox.mode,
    });
    return {
      atOnce: pool.threads * FILES_PER_THREAD,
      // The engine would stop half-way through a larger file (its limit over all layers).
      fileLimitBytes: config.scanLimits.maxScanSizeBytes,
      async examine(content) {
        const outcome = await scanOnce(pool, content, content.length);
        const { durationMs, returned } = outcome;
        // After its deadline the thread may still be at it, and hold the memory.
        return { finding: findingOf(outcome), durationMs, ...(returned === null ? {} : { held: returned }) };
      },
      async stop() {
        // What still runs at an interruption ends with the process.
        if (!signal.aborted) await pool.stop();
        await signatures.stop();
      },
    };
  } catch (error) {
    note(messageOfError(error));
    await signatures.stop();
    return null;
  }
}

function findingOf({ verdict, engine }: Awaited<ReturnType<typeof scanOnce>>): Finding {
  if (verdict.kind === 'incomplete') return verdict;
  // Another file may have filled it.
  if (verdict.kind === 'failed') return { ...verdict, reason: `${verdict.reason} (SCAN_TEMP_MB, or /dev/shm is full)` };
  const notices = engine === null ? [] : noticesOf(verdict, engine.notice);
  return verdict.kind === 'clean'
    ? { kind: 'clean', notices }
    : { kind: 'infected', virusName: verdict.virusName, notices };
}

export interface ScanServerOptions {
  readonly url: string;
  readonly key: string;
  readonly signal: AbortSignal;
  /** Called when the server says when to come back, and that is not soon. */
  readonly onWait: (seconds: number, reason: string) => void;
  /** Before a content that had no answer is sent for the second time; then twice as long each time. Default: half a second. */
  readonly firstPauseMs?: number;
}

/** The server refuses all, or has not answered for the better part of a minute: what is left is not tried. */
export class ServerRefuses extends Error {}

/** Uploads at one time: one is read and sent while others are scanned. */
const AT_ONCE = 8;
/** Of one content, for what may be over soon: no connection, a server that is full, starts or stops. */
const TRIES = 8;
const FIRST_PAUSE_MS = 500;
const LAST_PAUSE_MS = 20_000;
/** An upload of 10 MB on a slow line, and its scan. */
const ANSWER_MS = 300_000;
/** A wait that somebody has to be told of. */
const LONG_SECONDS = 15;

const Result = z.object({
  infected: z.boolean(),
  virusName: z.string().nullable(),
  scanDurationMillis: z.number(),
});
const Problem = z.object({ error: z.string(), message: z.string().optional() });

/** Throws ServerRefuses where `url` is no address. */
export function createServerExaminer(options: ScanServerOptions): Examiner {
  const { firstPauseMs = FIRST_PAUSE_MS } = options;
  const address = addressOf(options.url);
  /** Nobody asks before: the account's hour is used up, for all of them. */
  let notBeforeMs = 0;

  async function post(content: Uint8Array, filename: string, once: string): Promise<Response> {
    return await fetch(address, {
      method: 'POST',
      headers: {
        'X-API-KEY': options.key,
        'X-Filename': encodeURIComponent(filename),
        'Content-Type': 'application/octet-stream',
        'Idempotency-Key': once,
      },
      // Of its own: a request takes no memory that threads share.
      body: Uint8Array.from(content),
      // The key is for this server.
      redirect: 'manual',
      signal: AbortSignal.any([options.signal, AbortSignal.timeout(ANSWER_MS)]),
    });
  }

  return {
    atOnce: AT_ONCE,
    fileLimitBytes: CONTENT_LIMIT_BYTES,
    async examine(content, filename) {
      const once = uuidv4();
      for (let tries = 1; ; ) {
        if (Date.now() < notBeforeMs) await delay(notBeforeMs - Date.now(), undefined, { signal: options.signal });
        const answer = await attempt(() => post(content, filename, once));
        options.signal.throwIfAborted();
        if (answer.kind === 'answered' && answer.retryAfterSeconds === null) return answer.examined;
        if (answer.kind === 'answered' && answer.isQuota) {
          // The hour will be over, however often that is said.
          if (Date.now() >= notBeforeMs) options.onWait(answer.retryAfterSeconds ?? 1, answer.reason);
          notBeforeMs = Date.now() + (answer.retryAfterSeconds ?? 1) * 1000;
          continue;
        }
        if (tries >= TRIES) {
          if (answer.kind === 'unreachable') throw new ServerRefuses(answer.reason);
          return { finding: { kind: 'failed', reason: answer.reason }, durationMs: null };
        }
        const backOffMs = Math.min(LAST_PAUSE_MS, firstPauseMs * 2 ** (tries - 1));
        tries += 1;
        const seconds = answer.kind === 'answered' ? (answer.retryAfterSeconds ?? 1) : backOffMs / 1000;
        if (seconds >= LONG_SECONDS) options.onWait(seconds, answer.reason);
        await delay(seconds * 1000, undefined, { signal: options.signal });
      }
    },
  };
}

function addressOf(url: string): string {
  const known = parseUrl(url);
  if (known === null || !['http:', 'https:'].includes(known.protocol) || known.username !== '') {
    throw new ServerRefuses('--server must be an address such as https://scan.example.com');
  }
  return new URL('api/v1/scans', known.href.endsWith('/') ? known : `${known.href}/`).href;
}

type ExamineAnswer =
  /** `retryAfterSeconds` null: that is its answer. */
  | {
      readonly kind: 'answered';
      readonly examined: Examined;
      readonly retryAfterSeconds: number | null;
      readonly isQuota: boolean;
      readonly reason: string;
    }
  | { readonly kind: 'unreachable'; readonly reason: string };

/** No connection, or one that broke. Others, such as a certificate that is wrong or a name that nobody has, stay as they are. */
const MAY_PASS = /^(?:E(?:AI_AGAIN|CONN\w+|HOSTUNREACH|NETDOWN|NETUNREACH|PIPE|TIMEDOUT)|UND_ERR_\w+)$/;

/** Of fetch, which asks no port that is known for another protocol, such as 1, 25 or 6000 (https://fetch.spec.whatwg.org/#port-blocking). */
const BAD_PORT =
  'the port of --server is one that HTTP clients keep to another protocol, and nothing was sent: have the server, or a proxy in front of it, listen on another port';

/** Throws ServerRefuses for a key that may not scan, and where no server of ours can be reached so. */
async function attempt(send: () => Promise<Response>): Promise<ExamineAnswer> {
  let answer: Response;
  let text: string;
  try {
    answer = await send();
    text = await answer.text();
  } catch (error) {
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    const reason = `no answer: ${messageOfError(cause)}`;
    // A DOMException: its time is over, or nobody waits any more.
    if (cause instanceof DOMException || MAY_PASS.test(codeOf(cause) ?? '')) return { kind: 'unreachable', reason };
    throw new ServerRefuses(reason.endsWith(': bad port') ? BAD_PORT : reason);
  }
  const { status } = answer;
  if (status === 200) return said(resultOf(text, answer.headers.get('x-scan-notice')));
  const reason = reasonIn(text);
  const elsewhere = answer.headers.get('location');
  if (elsewhere !== null)
    throw new ServerRefuses(`the server says ${status}: name the address that it leads to, ${elsewhere}`);
  if ([401, 403, 404, 405].includes(status)) throw new ServerRefuses(`the server says ${status}: ${reason}`);
  if (status === 422) {
    return said({
      finding: { kind: 'incomplete', reason: reason.replace(/^Scan incomplete: /, '') },
      durationMs: null,
    });
  }
  const failed: Examined = { finding: { kind: 'failed', reason: `${status} ${reason}` }, durationMs: null };
  const isAgain = status === 429 || status === 408 || status >= 500;
  const seconds = Number(answer.headers.get('retry-after') ?? '1');
  const retryAfterSeconds = isAgain ? Math.max(1, Number.isFinite(seconds) ? seconds : 1) : null;
  return { ...said(failed), retryAfterSeconds, isQuota: status === 429, reason: `${status} ${reason}` };
}

function said(examined: Examined) {
  return { kind: 'answered', examined, retryAfterSeconds: null, isQuota: false, reason: '' } as const;
}

function resultOf(text: string, notice: string | null): Examined {
  const parsed = Result.safeParse(parseJson(text));
  if (!parsed.success) return { finding: { kind: 'failed', reason: 'the answer is none of a scan' }, durationMs: null };
  const { infected, virusName, scanDurationMillis: durationMs } = parsed.data;
  const notices = notice === null ? [] : notice.split(', ');
  if (!infected) return { finding: { kind: 'clean', notices }, durationMs };
  return { finding: { kind: 'infected', virusName: virusName ?? '', notices }, durationMs };
}

function reasonIn(text: string): string {
  const problem = Problem.safeParse(parseJson(text));
  if (!problem.success) return 'no answer of Sluice';
  return problem.data.message ?? problem.data.error;
}
