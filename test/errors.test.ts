// The table of answers: the rows that concern uploads say what the contract says, and details are filled in as they are.
import t from 'tap';
import { type ErrorCode, errorTable, Failure, messageOf, Unavailable, unavailableTable } from '../src/errors.js';
import { failureReply } from '../src/http/wire.js';

/** The contract's own words: status, error, message. */
const contract: Partial<Record<ErrorCode, [number, string, string | null]>> = {
  fileTooLarge: [400, 'Scan failed', 'File size exceeds limit: 10MB'],
  fileEmpty: [400, 'Scan failed', 'File is empty'],
  filenameMissing: [400, 'Scan failed', 'Filename is missing'],
  nothingToScan: [400, 'Scan failed', 'Either file or url is required'],
  fileAndUrl: [400, 'Scan failed', 'Send either file or url, not both'],
  severalFiles: [400, 'Scan failed', 'Send one file per request'],
  malformedMultipart: [400, 'Scan failed', 'Malformed multipart body: REASON'],
  urlRejected: [400, 'Scan failed', 'URL rejected: REASON'],
  badFraming: [400, 'Bad request', 'REASON'],
  keyMissing: [401, 'X-API-KEY MISSING', null],
  keyInvalid: [401, 'X-API-KEY INVALID', null],
  foreignCheckout: [403, 'Forbidden', 'The checkout session is not yours'],
  tokenMissing: [401, 'Unauthorized', 'Access token missing'],
  tokenInvalid: [401, 'Unauthorized', 'Access token invalid'],
  tokenExpired: [401, 'Unauthorized', 'Access token expired'],
  credentialsInvalid: [401, 'Unauthorized', 'E-mail or password wrong'],
  codeMissing: [401, 'Unauthorized', 'Two-factor code missing'],
  codeInvalid: [401, 'Unauthorized', 'Two-factor code wrong'],
  twoFactorNeeded: [403, 'Forbidden', 'Operators need a second factor'],
  mailOff: [403, 'Forbidden', 'This server sends no mail'],
  refreshInvalid: [401, 'Unauthorized', 'Refresh token invalid'],
  accountSuspended: [403, 'Forbidden', 'The account is suspended'],
  scopeMissing: [403, 'Forbidden', 'The key is not for this: it lacks the scope REASON'],
  operatorsOnly: [403, 'Forbidden', 'Operators only'],
  registrationClosed: [403, 'Forbidden', 'Registration is closed'],
  crossSite: [403, 'Forbidden', 'Cross-site request refused'],
  tooManyRequests: [429, 'Too many requests', 'At most REASON'],
  tooManyAttempts: [429, 'Too many attempts', 'Try again later'],
  unsupportedMediaType: [415, 'Unsupported media type', 'Expected multipart/form-data'],
  downloadFailed: [422, 'Scan failed', 'Download failed: REASON'],
  scanIncomplete: [422, 'Scan failed', 'Scan incomplete: REASON'],
  quotaExhausted: [429, 'Rate limit exceeded', 'Hourly scan limit reached'],
  internal: [500, 'Internal error', 'REASON'],
  unavailable: [503, 'Service unavailable', 'REASON'],
};

for (const [code, expected] of Object.entries(contract)) {
  const { status, error, message } = Object.entries(errorTable).find(([name]) => name === code)?.[1] ?? {};
  t.strictSame([status, error, message], expected, code);
}

t.test('every row is an error and says when it is answered', async (t) => {
  for (const [code, row] of Object.entries(errorTable)) {
    t.ok(row.status >= 400 && row.status < 600, code);
    t.not(row.error, '', code);
    t.not(row.when, '', code);
  }
});

t.test('every 401 has a challenge, and nothing else has one', async (t) => {
  const isCode = (code: string): code is ErrorCode => code in errorTable;
  for (const code of Object.keys(errorTable).filter(isCode)) {
    const { status, headers } = failureReply(new Failure(code));
    t.equal(headers?.['WWW-Authenticate'] !== undefined, status === 401, code);
  }
});

t.test('a detail stands for REASON exactly as it is', async (t) => {
  t.equal(messageOf('malformedMultipart', 'two boundaries'), 'Malformed multipart body: two boundaries');
  t.equal(messageOf('urlRejected', "$& $1 $' REASON"), "URL rejected: $& $1 $' REASON", 'no patterns in it');
  t.equal(messageOf('fileEmpty', 'unused'), 'File is empty');
  t.equal(messageOf('keyMissing', 'unused'), null);
});

t.test('a detail that is long, as a name that a client has sent, is cut', async (t) => {
  t.equal(new Failure('badRequest', 'x'.repeat(500)).message, 'x'.repeat(500));
  t.match(new Failure('notFound', 'x'.repeat(501)), {
    message: `No such resource: ${'x'.repeat(500)}…`,
    detail: `${'x'.repeat(500)}…`,
  });
});

t.test('a failure carries its row', async (t) => {
  t.match(new Failure('keyMissing'), {
    status: 401,
    message: 'X-API-KEY MISSING',
    detail: '',
    retryAfterSeconds: null,
    label: 'keyMissing',
  });
});

t.test('a 503 says why, in words to the client and by a name to the operator, and when to come back', async (t) => {
  const failure = new Unavailable('queueFull');
  t.match(failure, { code: 'unavailable', status: 503, reason: 'queueFull', label: 'unavailable.queueFull' });
  t.equal(failure.message, 'The scan queue is full');
  t.equal(failureReply(failure).headers?.['Retry-After'], '2');
  const cause = new Error('connect ECONNREFUSED');
  t.match(new Unavailable('journalRefuses', { text: 'The disk is full', cause }), {
    message: 'The disk is full',
    label: 'unavailable.journalRefuses',
    cause,
  });
  for (const [reason, { text, retryAfterSeconds }] of Object.entries(unavailableTable)) {
    t.ok(Number.isInteger(retryAfterSeconds) && retryAfterSeconds >= 1, reason);
    t.match(text, /^[A-Z][^.]+$/, reason);
  }
});

t.test('what is expected has no stack, and what is not has one', async (t) => {
  t.notMatch(new Unavailable('queueFull').stack, '\n    at ');
  t.match(new Error('unexpected').stack, '\n    at ');
});
