// The one table of everything Sluice answers that is not a success, and the one class that carries a row of it.

export interface ErrorRow {
  readonly status: number;
  /** The `error` field of the body. */
  readonly error: string;
  /** The `message` field; `REASON` stands for the detail of the occurrence. `null`: the body has no message. */
  readonly message: string | null;
  /** When this row is answered, for the OpenAPI document. */
  readonly when: string;
}

function row(status: number, error: string, message: string | null, when: string): ErrorRow {
  return { status, error, message, when };
}

const SCAN = 'Scan failed';

export const errorTable = {
  fileTooLarge: row(400, SCAN, 'File size exceeds limit: 10MB', 'the content is over 10,485,760 bytes'),
  fileEmpty: row(400, SCAN, 'File is empty', 'the content has no bytes'),
  filenameMissing: row(400, SCAN, 'Filename is missing', 'the file part has no or a blank filename'),
  nothingToScan: row(400, SCAN, 'Either file or url is required', 'neither part is present'),
  fileAndUrl: row(400, SCAN, 'Send either file or url, not both', 'both parts are present'),
  severalFiles: row(400, SCAN, 'Send one file per request', 'more than one file part, or a repeated url'),
  malformedMultipart: row(400, SCAN, 'Malformed multipart body: REASON', 'the multipart parser refuses the body'),
  urlRejected: row(400, SCAN, 'URL rejected: REASON', 'the URL may not be fetched'),
  badFraming: row(400, 'Bad request', 'REASON', 'framing or credential headers are duplicated or contradictory'),
  badRequest: row(400, 'Bad request', 'REASON', 'a JSON body or a query parameter is wrong; the message names it'),
  keyMissing: row(401, 'X-API-KEY MISSING', null, 'the X-API-KEY header is absent'),
  keyInvalid: row(401, 'X-API-KEY INVALID', null, 'the API key is unknown or revoked'),
  tokenMissing: row(401, 'Unauthorized', 'Access token missing', 'neither a bearer token nor the cookie was sent'),
  tokenInvalid: row(401, 'Unauthorized', 'Access token invalid', 'the access token or its session is not accepted'),
  tokenExpired: row(401, 'Unauthorized', 'Access token expired', 'the access token was valid once'),
  credentialsInvalid: row(401, 'Unauthorized', 'E-mail or password wrong', 'no account has this address and password'),
  refreshInvalid: row(401, 'Unauthorized', 'Refresh token invalid', 'it is absent, unknown, used or expired'),
  registrationClosed: row(403, 'Forbidden', 'Registration is closed', 'only the operator makes accounts'),
  crossSite: row(403, 'Forbidden', 'Cross-site request refused', "another site's page sent the cookie"),
  foreignCheckout: row(403, 'Forbidden', 'The checkout session is not yours', "the checkout is another customer's"),
  notFound: row(404, 'Not found', 'No such resource: REASON', 'the path is unknown'),
  methodNotAllowed: row(405, 'Method not allowed', 'Allowed: REASON', 'the path exists for other methods'),
  conflict: row(409, 'Conflict', 'REASON', 'what exists already stands against it'),
  bodyTooLarge: row(413, 'Payload too large', 'Expected at most REASON', 'a JSON body is over the limit'),
  uploadTooSlow: row(408, 'Request timeout', 'Request not complete after REASON', 'the body took too long to arrive'),
  unsupportedMediaType: row(
    415,
    'Unsupported media type',
    'Expected multipart/form-data',
    'a scan route got another type',
  ),
  contentEncoded: row(
    415,
    'Unsupported media type',
    'Expected no Content-Encoding',
    'a scan route got an encoded body',
  ),
  jsonExpected: row(415, 'Unsupported media type', 'Expected application/json', 'a JSON body has another type'),
  downloadFailed: row(422, SCAN, 'Download failed: REASON', 'the URL may be fetched, and its content could not be had'),
  scanIncomplete: row(422, SCAN, 'Scan incomplete: REASON', 'the engine could not look at everything'),
  quotaExhausted: row(429, 'Rate limit exceeded', 'Hourly scan limit reached', 'no unit is left in this hour'),
  tooManyAttempts: row(
    429,
    'Too many attempts',
    'Try again later',
    'too many sign-ins, registrations, changes of keys or guesses of the current password',
  ),
  internal: row(500, 'Internal error', 'REASON', 'anything unforeseen; the message is the request id'),
  unavailable: row(
    503,
    'Service unavailable',
    'REASON',
    'the engine loads, something is full (the queue, memory, room to unpack), or a store is down',
  ),
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof errorTable;

/**
 * The `WWW-Authenticate` of a 401 (RFC 9110, section 15.5.2), null for every other row. Tokens by RFC 6750, section 3: who sent none
 * is told no error. Keys in a header have no registered scheme; the parameter names the header.
 */
export function challengeOf(code: ErrorCode): string | null {
  if (errorTable[code].status !== 401) return null;
  switch (code) {
    case 'keyMissing':
    case 'keyInvalid':
      return 'ApiKey realm="sluice", header="X-API-KEY"';
    case 'tokenInvalid':
    case 'tokenExpired':
      return `Bearer realm="sluice", error="invalid_token", error_description="${errorTable[code].message}"`;
    default:
      return 'Bearer realm="sluice"';
  }
}

/** An expected failure: one row of the table, with the detail that stands for REASON. */
export class Failure extends Error {
  readonly code: ErrorCode;
  readonly detail: string;
  /** Seconds for `Retry-After`; only 429 and 503 have it. */
  readonly retryAfterSeconds: number | null;

  constructor(code: ErrorCode, detail = '', retryAfterSeconds: number | null = null) {
    super(messageOf(code, detail) ?? errorTable[code].error);
    this.name = 'Failure';
    this.code = code;
    this.detail = detail;
    this.retryAfterSeconds = retryAfterSeconds;
  }

  get status(): number {
    return errorTable[this.code].status;
  }
}

/** The `message` of a row with its detail filled in, or null where the row has none. */
export function messageOf(code: ErrorCode, detail: string): string | null {
  const { message } = errorTable[code];
  return message === null ? null : message.replace('REASON', () => detail);
}
