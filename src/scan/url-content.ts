// The content behind a URL: what the origin sends, into lent memory.
import type { Downloads, OriginBody } from '../download/downloads.js';
import { CONTENT_LIMIT_BYTES } from '../limits.js';
import { assertWithinLimit } from './body.js';
import type { UploadMemory } from './memory/memory.js';
import { openReception, type Received } from './reception.js';

export interface UrlParts {
  readonly downloads: Pick<Downloads, 'fetch'>;
  /** A budget of its own: slow origins must not keep uploads waiting. */
  readonly downloadMemory: Pick<UploadMemory, 'open'>;
}

/**
 * Rejects with Failure `urlRejected`, `downloadFailed`, `fileTooLarge`, `fileEmpty` or `unavailable`, with the signal's reason
 * when it aborts; everything is given back then.
 */
export function receiveUrl(
  { url, account, signal }: { readonly url: string; readonly account: string; readonly signal: AbortSignal },
  { downloads, downloadMemory: memory }: UrlParts,
): Promise<Received> {
  return downloads.fetch(url, account, signal, (origin) => receiveBody(origin, account, memory));
}

async function receiveBody(origin: OriginBody, account: string, memory: UrlParts['downloadMemory']): Promise<Received> {
  const limitBytes = origin.declaredBytes ?? CONTENT_LIMIT_BYTES;
  assertWithinLimit(limitBytes);
  return await new Promise((onWhole, onFailed) => {
    const reception = openReception({ memory, account, limitBytes, source: origin, onWhole, onFailed });
    origin
      .receive((bytes) => reception.step(() => reception.append(bytes)))
      .then(() => reception.step(reception.end), reception.fail);
  });
}
