// The answers of the scan routes: the six fields or an error, with the headers of the scan and of its quota.
import type { Access } from '../../admission/access.js';
import { Failure } from '../../errors.js';
import type { Reply } from '../../http/exchange.js';
import { failureReply, Surprise } from '../../http/failure.js';
import type { Scanned } from '../scan.js';
import type { Admitted, Served } from '../service.js';
import { resultJson } from './result.js';

type Headers = Record<string, string>;

/** Throws a Surprise with the headers for what is no Failure. */
export function servedReply(served: Served): Reply {
  const headers = quotaHeaders(served.quota);
  if (served.scanId !== null) headers['X-Scan-Id'] = served.scanId;
  if (served.kind === 'scanned') return scannedReply(served.scanned, headers);
  if (!(served.error instanceof Failure)) throw new Surprise(served.error, headers);
  return failureReply(served.error, headers);
}

export function exhaustedReply({ quota, retryAfterSeconds }: Extract<Access, { outcome: 'exhausted' }>): Reply {
  const fields = { limit: quota.limit, resetTime: quota.resetEpochSeconds, retryAfter: retryAfterSeconds };
  return failureReply(new Failure('quotaExhausted', '', retryAfterSeconds), quotaHeaders(quota), fields);
}

function scannedReply({ verdict, content, engine, looked, ...scanned }: Scanned, headers: Headers): Reply {
  headers['X-Scan-Sha256'] = content.sha256;
  headers['X-Scan-Engine'] = engine.description;
  headers['X-Scan-Cache'] = looked === 'for the account' ? 'HIT' : 'MISS';
  if (verdict.kind === 'clean' && verdict.encrypted) headers['X-Scan-Notice'] = 'encrypted';
  if (engine.notice !== null) headers['X-Scan-Notice'] = engine.notice;
  const result = {
    filename: scanned.filename,
    extension: scanned.extension,
    sizeInBytes: content.sizeBytes,
    scanDurationMillis: scanned.durationMs,
    virusName: verdict.kind === 'infected' ? verdict.virusName : null,
  };
  return { status: 200, headers, body: resultJson(result) };
}

function quotaHeaders({ limit, remaining, resetEpochSeconds }: Admitted['quota']): Headers {
  return {
    'X-RateLimit-Limit': String(limit),
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(resetEpochSeconds),
  };
}
