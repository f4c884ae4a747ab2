// The answers of the scan routes: the six fields or an error, with the headers of the scan and of its quota.
import { z } from 'zod';
import type { Access } from '../../admission/access.js';
import { Failure } from '../../errors.js';
import type { PendingScan } from '../../history/pending-scans.js';
import { pendingRow, scanView } from '../../history/scan-view.js';
import { failureReply, type Reply } from '../../http/reply.js';
import { bareText, jsonText } from '../../wire-text.js';
import type { Admitted, Scan } from '../scan.js';

type Headers = Record<string, string>;

/** Of one without a verdict. What is no Failure is a 500 without detail. */
export function failedReply(scan: Scan): Reply {
  const headers = scan.quota === null ? {} : quotaHeaders(scan.quota);
  if (scan.scanId !== null) headers['X-Scan-Id'] = scan.scanId;
  if (scan.detectedType !== null) headers['X-Scan-Type'] = scan.detectedType;
  const { problem, requestId } = scan;
  return failureReply(problem instanceof Failure ? problem : new Failure('internal', requestId), headers);
}

/** The scan will come. */
export function acceptedReply(scan: Scan, pending: PendingScan, keyName: string | null): Reply {
  const headers = scan.quota === null ? {} : quotaHeaders(scan.quota);
  headers['X-Scan-Id'] = pending.id;
  headers['Location'] = `/api/v1/scans/${pending.id}`;
  headers['Preference-Applied'] = 'respond-async';
  const view = scanView(
    pendingRow({ ...pending, state: 'queued' }),
    new Map(pending.keyId === null || keyName === null ? [] : [[pending.keyId, keyName]]),
  );
  return { status: 202, headers, body: JSON.stringify(view) };
}

export function exhaustedReply({ quota, retryAfterSeconds }: Extract<Access, { outcome: 'exhausted' }>): Reply {
  const fields = { limit: quota.limit, resetTime: quota.resetEpochSeconds, retryAfter: retryAfterSeconds };
  return failureReply(new Failure('quotaExhausted', '', retryAfterSeconds), quotaHeaders(quota), fields);
}

/** In one step: a list that grows leaves its old self behind. */
export function scannedReply(scan: Scan, { limit, remaining, resetEpochSeconds }: Admitted['quota']): Reply {
  const { filename, extension, lookedBy, looked, notices } = scan;
  const list = [
    'X-Request-Id',
    scan.requestId,
    'X-RateLimit-Limit',
    String(limit),
    'X-RateLimit-Remaining',
    String(remaining),
    'X-RateLimit-Reset',
    String(resetEpochSeconds),
    'X-Scan-Id',
    scan.scanId ?? '',
    'X-Scan-Sha256',
    scan.sha256 ?? '',
    'X-Scan-Engine',
    lookedBy?.description ?? '',
    'X-Scan-Cache',
    looked === 'for the account' ? 'HIT' : 'MISS',
    'X-Scan-Type',
    scan.detectedType ?? '',
  ];
  if (scan.detectedType === null) list.length -= 2;
  if (notices.length > 0) list.push('X-Scan-Notice', notices.join(', '));
  const body = resultJson({
    filename,
    extension,
    sizeInBytes: scan.wholeBytes ?? 0,
    scanDurationMillis: scan.durationMs,
    virusName: scan.virusName,
  });
  return { status: 200, list, body };
}

function quotaHeaders({ limit, remaining, resetEpochSeconds }: Admitted['quota']): Headers {
  return {
    'X-RateLimit-Limit': String(limit),
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(resetEpochSeconds),
  };
}

export const ScanResult = z
  .strictObject({
    filename: z
      .string()
      .describe('Base name of the uploaded file; of a URL the last path segment, decoded, or else its host.'),
    extension: z.string().describe('After the last dot of the filename; empty without one, and for a host.'),
    sizeInBytes: z.int(),
    scanDurationMillis: z.int(),
    infected: z.boolean().describe('Whether a signature matched.'),
    virusName: z.string().nullable().describe('The name of the signature; null when clean.'),
  })
  .meta({ id: 'ScanResult' });

type Fields = Omit<z.infer<typeof ScanResult>, 'infected'>;

/** `scanDurationMillis` may have a fraction. By hand, since `JSON.stringify` of an object takes several times as long. */
export function resultJson({ filename, extension, sizeInBytes, scanDurationMillis, virusName }: Fields): string {
  const found = virusName === null ? 'false,"virusName":null}' : `true,"virusName":${jsonText(virusName)}}`;
  return (
    `{"filename":"${bareText(filename)}","extension":"${bareText(extension)}","sizeInBytes":${sizeInBytes},` +
    `"scanDurationMillis":${Math.round(scanDurationMillis)},"infected":${found}`
  );
}
