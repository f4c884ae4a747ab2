// One file on its way to POST /web/scans, with the progress, which fetch doesn't report; or one URL to POST /web/url-scans.
import { isRefusal } from './client.ts';
import { watchMovement } from './movement.ts';
import { noAnswer, Problem, problemOf, SessionEnded } from './problem.ts';
import { endSession, keepFresh, renewAfterRefusal } from './session.ts';
import { type Quota, ScanResult } from './shapes.ts';

export interface Scanned extends ScanResult {
  readonly scanId: string;
  /** `encrypted` or `raw-content`; null: nothing to say. */
  readonly notice: string | null;
}

export interface UploadEvents {
  readonly signal: AbortSignal;
  /** Its Idempotency-Key: the same one again has the answer that was lost, and takes nothing. */
  readonly once: string;
  /** Bytes of the form that the browser has sent. */
  readonly onProgress: (sent: number, total: number) => void;
  /** Nothing is sent or answered any more, though the server is there. */
  readonly onStill: () => void;
  /** What the answer says of the hour. */
  readonly onQuota: (quota: Quota) => void;
}

/** What is to be scanned. */
export type Content = { readonly kind: 'file'; readonly file: File } | { readonly kind: 'url'; readonly url: string };

interface Answer {
  readonly status: number;
  readonly text: string;
  header(name: string): string | null;
}

/** Rejects with Problem, SessionEnded, or the signal's reason. */
export async function scanContent(content: Content, events: UploadEvents): Promise<Scanned> {
  await keepFresh();
  let answer = await post(content, events);
  if (isRefusal(answer)) {
    await renewAfterRefusal();
    answer = await post(content, events);
  }
  if (isRefusal(answer)) {
    endSession();
    throw new SessionEnded();
  }
  tellQuota(answer, events);
  if (answer.status !== 200) throw problemOf(answer.status, answer.text, answer.header('retry-after'));
  const result = ScanResult.parse(JSON.parse(answer.text));
  return { ...result, scanId: answer.header('x-scan-id') ?? '', notice: answer.header('x-scan-notice') };
}

function tellQuota(answer: Answer, { onQuota }: UploadEvents): void {
  const [limit, remaining, resetTime] = ['limit', 'remaining', 'reset'].map((name) =>
    Number(answer.header(`x-ratelimit-${name}`) ?? Number.NaN),
  );
  if (limit === undefined || remaining === undefined || resetTime === undefined) return;
  if ([limit, remaining, resetTime].every(Number.isFinite)) onQuota({ limit, remaining, resetTime });
}

function post(content: Content, { signal, once, onProgress, onStill }: UploadEvents): Promise<Answer> {
  return new Promise((resolve, reject) => {
    // It was cancelled while the session was renewed.
    signal.throwIfAborted();
    const request = new XMLHttpRequest();
    const abort = (): void => request.abort();
    const movement = watchMovement({
      onStill,
      onLost(isAway) {
        reject(isAway ? noAnswer() : new Problem(0, {}, null));
        abort();
      },
    });
    request.upload.onprogress = ({ loaded, total }) => {
      movement.go();
      onProgress(loaded, total);
    };
    request.onload = () =>
      resolve({
        status: request.status,
        text: request.responseText,
        header: (name) => request.getResponseHeader(name),
      });
    request.onerror = () => reject(noAnswer());
    request.onabort = () => reject(signal.reason);
    request.onloadend = () => {
      movement.end();
      signal.removeEventListener('abort', abort);
    };
    signal.addEventListener('abort', abort);
    const isFile = content.kind === 'file';
    request.open('POST', isFile ? '/web/scans' : '/web/url-scans');
    request.setRequestHeader('Idempotency-Key', once);
    if (!isFile) request.setRequestHeader('Content-Type', 'application/json');
    request.send(isFile ? formOf(content.file) : JSON.stringify({ url: content.url }));
  });
}

function formOf(file: File): FormData {
  const form = new FormData();
  form.append('file', file, file.name);
  return form;
}
