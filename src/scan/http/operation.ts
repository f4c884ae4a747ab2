// The answers of the scan routes, the six fields or an error, with the headers of the scan and of its quota; and what the OpenAPI document says of them.
import { z } from 'zod';
import type { Access } from '../../admission/access.js';
import { errorTable, Failure } from '../../errors.js';
import type { PendingScan } from '../../history/pending-scans.js';
import { pendingRow, ScanView, scanView } from '../../history/scan-view.js';
import type { GuardedOperation } from '../../http/caller.js';
import { documented, type Headers, jsonAnswer, type Operation, queryParameters } from '../../http/openapi.js';
import { failureReply, type Reply } from '../../http/wire.js';
import { MULTIPART_FIELD_BYTES, UNFINISHED_REFUNDS_PER_HOUR } from '../../limits.js';
import { bareText, jsonText } from '../../wire-text.js';
import type { Admitted, Scan } from '../scan.js';
import { optionFields, ScanQuery, UrlToScan } from './body-reader.js';

type AnswerHeaders = Record<string, string>;

/** Of one without a verdict. What is no Failure is a 500 without detail. */
export function failedReply(scan: Scan): Reply {
  const headers = scan.quota === null ? {} : quotaHeadersOf(scan.quota);
  if (scan.scanId !== null) headers['X-Scan-Id'] = scan.scanId;
  if (scan.detectedType !== null) headers['X-Scan-Type'] = scan.detectedType;
  const { problem, requestId } = scan;
  return failureReply(problem instanceof Failure ? problem : new Failure('internal', requestId), headers);
}

/** The scan will come. */
export function acceptedReply(scan: Scan, pending: PendingScan, keyName: string | null): Reply {
  const headers = scan.quota === null ? {} : quotaHeadersOf(scan.quota);
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
  return failureReply(new Failure('quotaExhausted', '', retryAfterSeconds), quotaHeadersOf(quota), fields);
}

/** In one step: a list that grows leaves its old self behind. */
export function scannedReply(scan: Scan, { limit, remaining, resetEpochSeconds }: Admitted['quota']): Reply {
  const { lookedBy, looked, notices } = scan;
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
  return { status: 200, list, body: resultJson(scan) };
}

function quotaHeadersOf({ limit, remaining, resetEpochSeconds }: Admitted['quota']): AnswerHeaders {
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

type Scanned = Pick<Scan, 'filename' | 'extension' | 'wholeBytes' | 'durationMs' | 'virusName'>;

/** By hand, since `JSON.stringify` of an object takes several times as long. */
export function resultJson({ filename, extension, wholeBytes, durationMs, virusName }: Scanned): string {
  const found = virusName === null ? 'false,"virusName":null}' : `true,"virusName":${jsonText(virusName)}}`;
  const name = bareText(filename);
  // It is the end of the name.
  const end = name === filename ? extension : bareText(extension);
  return (
    `{"filename":"${name}","extension":"${end}","sizeInBytes":${wholeBytes ?? 0},` +
    `"scanDurationMillis":${Math.round(durationMs)},"infected":${found}`
  );
}

/** Of what was scanned and has no verdict. */
const BAD_REQUEST = errorTable.urlRejected.status;
const INCOMPLETE = errorTable.scanIncomplete.status;

const integerHeader = (description: string): object => ({ description, schema: { type: 'integer' } });
const textHeader = (description: string): object => ({ description, schema: { type: 'string' } });

const quotaHeaders: Headers = {
  'X-RateLimit-Limit': integerHeader('Scans per hour.'),
  'X-RateLimit-Remaining': integerHeader('Scans left in this hour.'),
  'X-RateLimit-Reset': integerHeader('End of the hour, in epoch seconds.'),
};
const idHeader: Headers = { 'X-Scan-Id': textHeader('UUID of this scan: the id of its row in the history.') };

const typeHeader: Headers = {
  'X-Scan-Type': textHeader(
    "What ClamAV says the content is, by its own name such as `CL_TYPE_PDF`; it isn't there where ClamAV hasn't looked, or can't say.",
  ),
};

const replayedHeader = textHeader('`true`: this is the answer to an earlier request with the same Idempotency-Key.');

/** Once the quota was touched its headers are there, and the id of the row once there is one: not before, in a 400 of the framing or a 503. */
function errorHeaders(status: number): Headers {
  if (status === 401 || status === 403 || status === 409) return {};
  if (status === 429) return quotaHeaders;
  return { ...quotaHeaders, ...idHeader, ...(status === INCOMPLETE ? typeHeader : {}) };
}

/** Of what is about a whole content or a URL the answer is kept for the next request with its Idempotency-Key. */
function keptErrorHeaders(status: number): Headers {
  const headers = errorHeaders(status);
  return status === BAD_REQUEST || status === INCOMPLETE
    ? { ...headers, 'Idempotent-Replayed': replayedHeader }
    : headers;
}

const file = { type: 'string', format: 'binary', description: 'At most 10,485,760 bytes, with a filename.' };
const url = {
  type: 'string',
  format: 'uri',
  minLength: 1,
  maxLength: MULTIPART_FIELD_BYTES,
  description: 'Public http or https URL without credentials; what it answers with is at most 10,485,760 bytes.',
};

/** As forms send an input that nobody has filled in. */
const leftEmpty = { type: 'string', const: '' };

const urlBody = {
  get schema() {
    return documented(UrlToScan, 'input');
  },
  example: { url: 'https://example.com/report.pdf' } satisfies z.infer<typeof UrlToScan>,
};

const { properties: options = {} } = documented(z.object(optionFields), 'input');

const fileForm = { required: ['file'], properties: { file, ...options } };
const named = { $ref: '#/$defs/FileToScan', $defs: { FileToScan: { type: 'object', ...fileForm } } };

function encodedHeader(name: string, about: string, example: string): Readonly<Record<string, unknown>> {
  return {
    name,
    in: 'header',
    description: `${about}: percent-encoded UTF-8, such as \`${example}\`.`,
    schema: { type: 'string' },
  };
}
const onceHeader = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    'Of your own making, for one scan: the same request again within 24 hours has the same answer, with `Idempotent-Replayed: true`, and takes no unit.',
  schema: { type: 'string', pattern: '^[!-~]{1,255}$' },
};
const preferHeader = {
  name: 'Prefer',
  in: 'header',
  description:
    '`respond-async`: the answer is a 202 when the content is whole and can not get lost, and the verdict is at its address later. A file may have more than 10 MB then.',
  schema: { type: 'string' },
};
const filenameHeader = encodedHeader('X-Filename', 'The name of a file that is sent as it is', 'r%C3%A9sum%C3%A9.pdf');
const metadataHeader = encodedHeader('X-Metadata', 'Your own text about the scan, in place of the field', 'order%207');

const DESCRIPTION =
  'An infection is not an error: it is a 200 with `infected` true. Whatever was not looked at completely is a 422. ' +
  'Takes one unit of the hourly quota, which comes back when the service fails or the request never arrives whole ' +
  `(for that ${UNFINISHED_REFUNDS_PER_HOUR} in an hour at most).`;

const commonErrors = [
  'fileTooLarge',
  'fileEmpty',
  'filenameMissing',
  'nothingToScan',
  'badFraming',
  'uploadTooSlow',
  'contentEncoded',
  'scanIncomplete',
  'quotaExhausted',
  'internal',
  'unavailable',
] as const;

const uploadErrors = [...commonErrors, 'unsupportedMediaType', 'severalFiles', 'malformedMultipart'] as const;

const clean: z.infer<typeof ScanResult> = {
  ...{ filename: 'report.pdf', extension: 'pdf', sizeInBytes: 48_213, scanDurationMillis: 4 },
  ...{ infected: false, virusName: null },
};
const infected: z.infer<typeof ScanResult> = { ...clean, infected: true, virusName: 'Win.Test.EICAR_HDB-1' };

const verdict = {
  description: 'The verdict about all of the content.',
  content: {
    'application/json': {
      get schema() {
        return documented(ScanResult, 'output');
      },
      examples: { clean: { value: clean }, infected: { value: infected } },
    },
  },
  headers: {
    ...idHeader,
    ...typeHeader,
    'X-Scan-Sha256': textHeader('Of the content that was scanned.'),
    'X-Scan-Engine': textHeader('Engine and signatures that have looked at the content, with their versions.'),
    'X-Scan-Cache': textHeader(
      'HIT: the account has had the same content scanned before, with the same signatures. MISS: it has not.',
    ),
    'X-Scan-Notice': textHeader(
      'Words, parted by a comma. `encrypted`: there are members that nobody could look into. `truncated`: something in it ends before ' +
        'its time, and all that is there was looked at. `suspected`: a heuristic hit that was not to count. `raw-content`: YARA rules stand in for ClamAV.',
    ),
    ...quotaHeaders,
  },
};

const keptVerdict = { ...verdict, headers: { ...verdict.headers, 'Idempotent-Replayed': replayedHeader } };

export const scanOperation: Operation = {
  id: 'scan',
  summary: 'Scan a file, uploaded or behind a URL',
  description:
    `${DESCRIPTION} Send either a file or a URL: as a form with \`file\` or \`url\`; a file as it is, with its own media type and its name beside it; a URL as ` +
    'JSON or as a form without parts. Other fields of a form with parts are ignored. A URL is fetched without credentials, at most 5 redirects are followed, and every host on the way must have public ' +
    'addresses only.',
  tag: 'scans',
  who: 'key',
  parameters: [onceHeader, preferHeader, filenameHeader, metadataHeader, ...queryParameters(ScanQuery)],
  requestBody: {
    required: true,
    content: {
      'multipart/form-data': {
        schema: {
          type: 'object',
          oneOf: [
            { type: 'object', ...fileForm, properties: { ...fileForm.properties, url: leftEmpty } },
            { type: 'object', required: ['url'], properties: { url, ...options, file: leftEmpty } },
          ],
        },
      },
      'application/octet-stream': { schema: { type: 'string', format: 'binary' } },
      'application/json': urlBody,
      'application/x-www-form-urlencoded': urlBody,
    },
  },
  responses: {
    200: keptVerdict,
    202: {
      ...jsonAnswer('Accepted: it is scanned, whatever happens to this process.', ScanView),
      headers: {
        ...idHeader,
        Location: textHeader('Where the scan is.'),
        'Preference-Applied': textHeader('`respond-async`'),
        ...quotaHeaders,
        'Idempotent-Replayed': replayedHeader,
      },
    },
  },
  errors: [
    'keyMissing',
    'keyInvalid',
    'conflict',
    'accountSuspended',
    'scopeMissing',
    ...uploadErrors,
    'acceptedTooLarge',
    'fileAndUrl',
    'urlRejected',
    'bodyTooLarge',
    'downloadFailed',
  ],
  errorHeaders: keptErrorHeaders,
};

export const signedInOperation: GuardedOperation = {
  id: 'scanAsUser',
  summary: 'Scan an uploaded file as the signed-in user',
  description: DESCRIPTION,
  tag: 'scans',
  parameters: [onceHeader, metadataHeader],
  requestBody: { required: true, content: { 'multipart/form-data': { schema: named } } },
  responses: { 200: keptVerdict },
  errors: ['conflict', ...uploadErrors],
  errorHeaders: keptErrorHeaders,
};

export const signedInUrlOperation: GuardedOperation = {
  id: 'scanUrlAsUser',
  summary: 'Scan what is behind a URL as the signed-in user',
  description: `${DESCRIPTION} The URL is fetched as on the public route.`,
  tag: 'scans',
  parameters: [onceHeader, metadataHeader],
  requestBody: { required: true, content: { 'application/json': urlBody } },
  responses: { 200: keptVerdict },
  errors: ['conflict', ...commonErrors, 'urlRejected', 'downloadFailed'],
  errorHeaders: keptErrorHeaders,
};
