// POST /api/v1/scans: who asks, what it costs, and the scan's answer with its headers.
import { v7 as uuidv7 } from 'uuid';
import type { Access, AccessControl } from '../account/access.js';
import type { EngineInfo } from '../engine/addon.js';
import { Failure } from '../errors.js';
import type { Exchange, Reply } from '../http/exchange.js';
import { failureReply } from '../http/failure.js';
import type { Operation } from '../http/openapi.js';
import { resultJson, resultSchema } from './result.js';
import { type Scanned, type ScanParts, scanUpload } from './scan.js';

export interface ScanRouteParts extends ScanParts {
  readonly access: AccessControl;
  readonly now: () => number;
  /** Told of every scan that was admitted, once it is decided. Never of keys or contents. */
  readonly onScan: (event: ScanEvent) => void;
}

export interface ScanEvent {
  readonly scanId: string;
  readonly requestId: string;
  readonly userId: string;
  readonly keyId: string | null;
  readonly status: number;
  readonly sizeBytes: number | null;
  readonly sha256: string | null;
  readonly virusName: string | null;
  /** The message of the error table, null on success. */
  readonly error: string | null;
}

const integerHeader = (description: string): object => ({ description, schema: { type: 'integer' } });
const textHeader = (description: string): object => ({ description, schema: { type: 'string' } });

/** What the OpenAPI document says of the route. */
export const scanOperation: Operation = {
  summary: 'Scan an uploaded file',
  description:
    'An infection is not an error: it is a 200 with `infected` true. Whatever was not looked at completely is a 422. ' +
    'Takes one unit of the hourly quota, which comes back when the service fails or the request never arrives whole.',
  tag: 'scans',
  who: 'key',
  requestBody: {
    required: true,
    content: {
      'multipart/form-data': {
        schema: {
          type: 'object',
          required: ['file'],
          properties: {
            file: { type: 'string', format: 'binary', description: 'At most 10,485,760 bytes, with a filename.' },
          },
        },
      },
    },
  },
  responses: {
    200: {
      description: 'The verdict about all of the content.',
      headers: {
        'X-Scan-Id': textHeader('UUID of this scan.'),
        'X-Scan-Sha256': textHeader('Of the content that was scanned.'),
        'X-Scan-Engine': textHeader('Engine and signatures that have looked at the content, with their versions.'),
        'X-Scan-Cache': textHeader(
          'MISS: the engine looked. HIT: it has looked at the same content before, with the same signatures.',
        ),
        'X-Scan-Notice': textHeader('`encrypted`: there are members that nobody could look into.'),
        'X-RateLimit-Limit': integerHeader('Scans per hour.'),
        'X-RateLimit-Remaining': integerHeader('Scans left in this hour.'),
        'X-RateLimit-Reset': integerHeader('End of the hour, in epoch seconds.'),
      },
      content: { 'application/json': { schema: resultSchema } },
    },
  },
  errors: [
    'fileTooLarge',
    'fileEmpty',
    'filenameMissing',
    'nothingToScan',
    'fileAndUrl',
    'severalFiles',
    'malformedMultipart',
    'urlRejected',
    'badFraming',
    'keyMissing',
    'keyInvalid',
    'uploadTooSlow',
    'unsupportedMediaType',
    'scanIncomplete',
    'quotaExhausted',
    'internal',
    'unavailable',
  ],
};

type Admitted = Extract<Access, { outcome: 'admitted' }>;
type Quota = Admitted['quota'];

/** The handler of the public scan route. */
export function createScanHandler(parts: ScanRouteParts): (exchange: Exchange) => Promise<Reply> {
  return async (exchange) => {
    const access = await parts.access.withApiKey(exchange.headers.get('x-api-key'));
    switch (access.outcome) {
      case 'keyMissing':
      case 'keyInvalid':
        throw new Failure(access.outcome);
      case 'exhausted':
        return exhausted(access.quota, parts.now());
      case 'admitted':
        return await scanAdmitted(exchange, access, parts);
    }
  };
}

async function scanAdmitted(exchange: Exchange, access: Admitted, parts: ScanRouteParts): Promise<Reply> {
  const scanId = uuidv7();
  const { userId, keyId } = access;
  const event = { scanId, requestId: exchange.requestId, userId, keyId };
  try {
    const scanned = await scanUpload(exchange, parts);
    const { sizeBytes, sha256 } = scanned;
    const virusName = virusNameOf(scanned);
    parts.onScan({ ...event, status: 200, sizeBytes, sha256, virusName, error: null });
    return scanReply(scanned, scanId, access.quota, parts.signatures);
  } catch (error) {
    const quota = isGivenBack(error, exchange) ? await access.refund() : access.quota;
    if (!(error instanceof Failure)) throw error;
    const { status, message } = error;
    parts.onScan({ ...event, status, sizeBytes: null, sha256: null, virusName: null, error: message });
    return failureReply(error, { ...quotaHeaders(quota), 'X-Scan-Id': scanId });
  }
}

/** When the service fails or the request never arrived whole; never for a complete request that is wrong. */
function isGivenBack(error: unknown, exchange: Exchange): boolean {
  if (!(error instanceof Failure) || error.status >= 500) return true;
  return exchange.signal.aborted || error.code === 'uploadTooSlow';
}

function scanReply(scanned: Scanned, scanId: string, quota: Quota, signatures: ScanParts['signatures']): Reply {
  const { verdict, filename, sizeBytes, sha256, durationMs, epoch, cached } = scanned;
  // Not the engine that serves now: the one that has looked.
  const engine = epoch === null ? null : signatures.engineOf(epoch);
  const headers: Record<string, string> = {
    ...quotaHeaders(quota),
    'X-Scan-Id': scanId,
    'X-Scan-Sha256': sha256,
    'X-Scan-Engine': engine === null ? 'none' : describeEngine(engine),
    'X-Scan-Cache': cached ? 'HIT' : 'MISS',
  };
  if (verdict.kind === 'clean' && verdict.encrypted) headers['X-Scan-Notice'] = 'encrypted';
  const result = { filename, sizeInBytes: sizeBytes, scanDurationMillis: durationMs, virusName: virusNameOf(scanned) };
  return { status: 200, headers, body: resultJson(result) };
}

function virusNameOf({ verdict }: Scanned): string | null {
  return verdict.kind === 'infected' ? verdict.virusName : null;
}

/** `clamav/1.4.6; signatures=daily:27000; built=2026-11-20T08:00:00` */
export function describeEngine(info: EngineInfo): string {
  const built = new Date(info.signaturesBuiltAt * 1000).toISOString().slice(0, 19);
  return `clamav/${info.engineVersion}; signatures=${info.signatureVersion}; built=${built}`;
}

function quotaHeaders({ limit, remaining, resetEpochSeconds }: Quota): Record<string, string> {
  return {
    'X-RateLimit-Limit': String(limit),
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(resetEpochSeconds),
  };
}

function exhausted(quota: Quota, nowMs: number): Reply {
  const retryAfter = Math.max(1, Math.ceil(quota.resetEpochSeconds - nowMs / 1000));
  const fields = { limit: quota.limit, resetTime: quota.resetEpochSeconds, retryAfter };
  return failureReply(new Failure('quotaExhausted', '', retryAfter), quotaHeaders(quota), fields);
}
