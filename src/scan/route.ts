// POST /api/v1/scans and POST /web/scans: who asks, what it costs, and the scan's answer with its headers.
import { v7 as uuidv7 } from 'uuid';
import type { Access, AccessControl } from '../account/access.js';
import type { EngineInfo } from '../engine/addon.js';
import { Failure } from '../errors.js';
import { type CallerRoute, callerErrors } from '../http/caller.js';
import type { Exchange, Reply } from '../http/exchange.js';
import { failureReply } from '../http/failure.js';
import type { Operation } from '../http/openapi.js';
import type { Route } from '../http/router.js';
import { MULTIPART_FIELD_BYTES } from '../limits.js';
import { resultJson, resultSchema } from './result.js';
import { type Scanned, type ScanParts, scanContent } from './scan.js';

export interface ScanRouteParts extends ScanParts {
  readonly access: AccessControl;
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

/** What the OpenAPI document says of the public route. */
const scanOperation: Operation = {
  summary: 'Scan a file, uploaded or behind a URL',
  description:
    'An infection is not an error: it is a 200 with `infected` true. Whatever was not looked at completely is a 422. ' +
    'Takes one unit of the hourly quota, which comes back when the service fails or the request never arrives whole. ' +
    'Send either `file` or `url`. A URL is fetched without credentials, at most 5 redirects are followed, and every host on ' +
    'the way must have public addresses only.',
  tag: 'scans',
  who: 'key',
  requestBody: {
    required: true,
    content: {
      'multipart/form-data': {
        schema: {
          type: 'object',
          oneOf: [{ required: ['file'] }, { required: ['url'] }],
          properties: {
            file: { type: 'string', format: 'binary', description: 'At most 10,485,760 bytes, with a filename.' },
            url: {
              type: 'string',
              format: 'uri',
              maxLength: MULTIPART_FIELD_BYTES,
              description:
                'Public http or https URL without credentials; what it answers with is at most 10,485,760 bytes.',
            },
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
        'X-Scan-Engine': textHeader('Engine and signatures with their versions.'),
        'X-Scan-Cache': textHeader('MISS: the engine looked.'),
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
    'downloadFailed',
    'scanIncomplete',
    'quotaExhausted',
    'internal',
    'unavailable',
  ],
};

type Admitted = Extract<Access, { outcome: 'admitted' }>;
type Quota = Admitted['quota'];

const signedInOperation: Operation = {
  ...scanOperation,
  summary: 'Scan an uploaded file as the signed-in user',
  description: `${scanOperation.description} Uploads only: a \`url\` is refused.`,
  who: 'user',
  errors: [...scanOperation.errors.filter((code) => code !== 'keyMissing' && code !== 'keyInvalid'), ...callerErrors],
};

export interface ScanRoutes {
  /** The public route. */
  readonly withKey: Route;
  /** The dashboard's: uploads only, the same quota. */
  readonly signedIn: CallerRoute;
}

export function createScanRoutes(parts: ScanRouteParts): ScanRoutes {
  return {
    withKey: {
      method: 'POST',
      path: '/api/v1/scans',
      operation: scanOperation,
      handle: async (exchange) =>
        await answer(exchange, await parts.access.withApiKey(exchange.headers.get('x-api-key')), parts),
    },
    signedIn: {
      method: 'POST',
      path: '/web/scans',
      operation: signedInOperation,
      handle: async (caller, exchange) =>
        await answer(exchange, await parts.access.asUser(caller), { ...parts, downloader: null }),
    },
  };
}

async function answer(exchange: Exchange, access: Access, parts: ScanRouteParts): Promise<Reply> {
  switch (access.outcome) {
    case 'keyMissing':
    case 'keyInvalid':
      throw new Failure(access.outcome);
    case 'exhausted':
      return exhausted(access);
    case 'admitted':
      return await scanAdmitted(exchange, access, parts);
  }
}

async function scanAdmitted(exchange: Exchange, access: Admitted, parts: ScanRouteParts): Promise<Reply> {
  const scanId = uuidv7();
  const { userId, keyId } = access;
  const event = { scanId, requestId: exchange.requestId, userId, keyId };
  let received = false;
  const onReceived = (): void => {
    received = true;
  };
  try {
    const scanned = await scanContent({ exchange, userId, onReceived }, parts);
    const { sizeBytes, sha256 } = scanned;
    const virusName = virusNameOf(scanned);
    parts.onScan({ ...event, status: 200, sizeBytes, sha256, virusName, error: null });
    return scanReply(scanned, scanId, access.quota, parts.signatures.state());
  } catch (error) {
    const isGone = exchange.signal.aborted;
    const quota = isGivenBack(error, { isGone, received }) ? await access.refund() : access.quota;
    if (!(error instanceof Failure)) throw error;
    const { status, message } = error;
    parts.onScan({ ...event, status, sizeBytes: null, sha256: null, virusName: null, error: message });
    return failureReply(error, { ...quotaHeaders(quota), 'X-Scan-Id': scanId });
  }
}

/** When the service fails or the request never arrived whole; never for a complete request that is wrong. */
function isGivenBack(error: unknown, { isGone, received }: { isGone: boolean; received: boolean }): boolean {
  if (error instanceof Failure && (error.status >= 500 || error.code === 'uploadTooSlow')) return true;
  // Who leaves after a whole request pays for it: else URLs could be fetched in our name without end.
  return isGone ? !received : !(error instanceof Failure);
}

function scanReply(
  scanned: Scanned,
  scanId: string,
  quota: Quota,
  state: ReturnType<ScanParts['signatures']['state']>,
): Reply {
  const { verdict, filename, sizeBytes, sha256, durationMs } = scanned;
  const headers: Record<string, string> = {
    ...quotaHeaders(quota),
    'X-Scan-Id': scanId,
    'X-Scan-Sha256': sha256,
    'X-Scan-Engine': state.kind === 'ready' ? describeEngine(state.info) : 'none',
    'X-Scan-Cache': 'MISS',
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

function exhausted({ quota, retryAfterSeconds }: Extract<Access, { outcome: 'exhausted' }>): Reply {
  const fields = { limit: quota.limit, resetTime: quota.resetEpochSeconds, retryAfter: retryAfterSeconds };
  return failureReply(new Failure('quotaExhausted', '', retryAfterSeconds), quotaHeaders(quota), fields);
}
