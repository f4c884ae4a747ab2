// The one table of everything Sluice answers that is not a success, and the one class that carries a row of it.
import { ERROR_DETAIL_CHARACTERS } from './limits.js';

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
  acceptedTooLarge: row(
    400,
    SCAN,
    'File size exceeds limit: REASON',
    'a file that is to be scanned asynchronously is over ASYNC_MAX_MB, or what came by ICAP is over STREAM_MAX_MB',
  ),
  fileEmpty: row(400, SCAN, 'File is empty', 'the content has no bytes'),
  filenameMissing: row(400, SCAN, 'Filename is missing', 'the file has no or a blank filename'),
  nothingToScan: row(400, SCAN, 'Either file or url is required', 'neither is in the body'),
  fileAndUrl: row(400, SCAN, 'Send either file or url, not both', 'both are in the body'),
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
  codeMissing: row(
    401,
    'Unauthorized',
    'Two-factor code missing',
    'the password is right, and the account has a second factor',
  ),
  codeInvalid: row(
    401,
    'Unauthorized',
    'Two-factor code wrong',
    'the password is right; the code is wrong, or was used',
  ),
  refreshInvalid: row(401, 'Unauthorized', 'Refresh token invalid', 'it is absent, unknown, used or expired'),
  registrationClosed: row(403, 'Forbidden', 'Registration is closed', 'only the operator makes accounts'),
  accountSuspended: row(403, 'Forbidden', 'The account is suspended', 'an operator has suspended the account'),
  scopeMissing: row(
    403,
    'Forbidden',
    'The key is not for this: it lacks the scope REASON',
    'the API key was made for less',
  ),
  operatorsOnly: row(403, 'Forbidden', 'Operators only', 'the account that is signed in is no operator'),
  twoFactorNeeded: row(
    403,
    'Forbidden',
    'Operators need a second factor',
    'OPERATOR_2FA is required, and the account has none',
  ),
  mailOff: row(403, 'Forbidden', 'This server sends no mail', 'SMTP_URL is not set: the operator makes the link'),
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
    'a scan route got no type, or the one of the dashboard another type',
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
  tooManyRequests: row(429, 'Too many requests', 'At most REASON', 'the account asks too often'),
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

interface UnavailableRow {
  /** Stands for REASON unless the occurrence has a text of its own. */
  readonly text: string;
  /** For `Retry-After`: when it is likely to be over. */
  readonly retryAfterSeconds: number;
}

const because = (text: string, retryAfterSeconds: number): UnavailableRow => ({ text, retryAfterSeconds });

/** Why a request can't be served now. Clients read the text; the log and the metrics have the name, as `unavailable.NAME`. */
export const unavailableTable = {
  engineLoading: because('The scan engine is still loading its signatures', 5),
  engineFailed: because('The scan engine has no signatures', 60),
  engineMemory: because('The scan engine is out of memory', 2),
  engineStorage: because('The engine has no room to unpack', 5),
  queueFull: because('The scan queue is full', 2),
  queueShareFull: because('Too many scans of this account are waiting', 2),
  queueSlow: because('The scan queue is too long', 2),
  clamdFilesBusy: because('Too many files are being read', 5),
  clamdAccountMissing: because('CLAMD_ACCOUNT is no account', 60),
  icapAccountMissing: because('ICAP_ACCOUNT is no account', 60),
  stopping: because('The server is stopping', 2),
  asyncStoreFull: because('Too many accepted scans wait for their verdict', 30),
  waitsBusy: because('Too many requests wait for a scan', 2),
  contentNotKept: because('The content can not be kept', 30),
  contentLost: because('The content is lost', 60),
  uploadsBusy: because('Too many uploads at once', 5),
  downloadsBusy: because('Too many downloads at once', 5),
  downloadSlotsTaken: because('Too many downloads at once', 5),
  downloadShareTaken: because('Too many downloads of this account at once', 5),
  memoryNeeded: because('Other accounts need the memory', 5),
  bodiesBusy: because('Too many request bodies at once', 1),
  storeDown: because('The account store is not reachable', 2),
  storeBusy: because('Too many questions to the account store at once', 1),
  keyLookUpsBusy: because('Too many key look-ups at once', 1),
  accountChanging: because('The account changes too fast', 2),
  nodesNotReached: because('Not every node can be told; try again', 2),
  redisDown: because('Redis does not answer', 2),
  sameKeyBusy: because('A request with this Idempotency-Key is still under way', 2),
  signInsBusy: because('Too many sign-ins at once', 1),
  mailBusy: because('Too many mails at once', 10),
  passwordsBusy: because('Too many passwords to check', 2),
  issuerDown: because('The keys of the token issuer are not reachable', 5),
  journalRefuses: because('The journal takes no more scans', 5),
  notRecorded: because('The scan can not be recorded', 5),
  exportsBusy: because('Too many exports of yours are running', 5),
  exportSlow: because('These scans take too long to find: narrow them by dates', 5),
  pageSlow: because('This page takes too long to find: narrow it by dates', 5),
  billingOff: because('Billing is not configured', 3600),
  checkoutChanging: because('The checkout keeps changing', 2),
  stripeBusy: because('Too many calls to Stripe at once', 1),
  stripeDown: because('Stripe does not answer; the plan stays as it is', 5),
  stripeRefuses: because('Stripe refuses the request; the log says more', 60),
  quotaStoreDown: because('The quota store is not reachable', 5),
} as const satisfies Record<string, UnavailableRow>;

export type UnavailableReason = keyof typeof unavailableTable;

/**
 * The `WWW-Authenticate` of a 401 (RFC 9110, section 15.5.2), null for every other row. Tokens by RFC 6750, section 3: a request
 * without one gets no error code. Keys in a header have no registered scheme; the parameter names the header.
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
    // It is expected: where it comes from says nothing, and to find that out costs more than all else of a refusal.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    const shown = detail.length > ERROR_DETAIL_CHARACTERS ? `${detail.slice(0, ERROR_DETAIL_CHARACTERS)}…` : detail;
    super(messageOf(code, shown) ?? errorTable[code].error);
    Error.stackTraceLimit = stackTraceLimit;
    this.name = 'Failure';
    this.code = code;
    this.detail = shown;
    this.retryAfterSeconds = retryAfterSeconds;
  }

  get status(): number {
    return errorTable[this.code].status;
  }

  /** For the log and the metrics: which failure it is, whatever its text says. */
  get label(): string {
    return this.code;
  }
}

/** A 503: the one way to say why, and when to come back. */
export class Unavailable extends Failure {
  readonly reason: UnavailableReason;

  /** `text`: in the place of the table's. `cause`: for the log. */
  constructor(reason: UnavailableReason, { text, cause }: { readonly text?: string; readonly cause?: unknown } = {}) {
    super('unavailable', text ?? unavailableTable[reason].text, unavailableTable[reason].retryAfterSeconds);
    this.reason = reason;
    if (cause !== undefined) this.cause = cause;
  }

  override get label(): string {
    return `${this.code}.${this.reason}`;
  }
}

/** The `message` of a row with its detail filled in, or null where the row has none. */
export function messageOf(code: ErrorCode, detail: string): string | null {
  const { message } = errorTable[code];
  return message === null ? null : message.replace('REASON', () => detail);
}

/** Ends the process, as a bug that nobody can answer for does, but not before the others of this turn have their answers. */
export function throwLater(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}
