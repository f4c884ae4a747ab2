// Raw requests that servers read differently, and the answers to each that are right.
//
// Cases known from the tests of h1spec, llhttp, http-garden, smuggler, picohttpparser and uWebSockets, and from RFC 9110 and RFC 9112.
import { API_KEY } from '../fixtures/server.js';

export interface RawCase {
  readonly name: string;
  /** Latin-1: a character for each byte. */
  readonly raw: string;
  /** What the first answer may be, divided by blanks: a status, a class of them, `any`; `close`: none, the connection is closed. */
  readonly expected: string;
  /** Default: three. More would be requests that nobody sent. */
  readonly maxAnswers?: number;
  /** Whether it must not take a scan of the quota. */
  readonly isFree?: boolean;
}

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n';
const POST = 'POST / HTTP/1.1\r\nHost: a\r\n';
const CHUNKED = `${POST}Transfer-Encoding: chunked\r\n\r\n`;
const SCAN = `POST /api/v1/scans HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: ${API_KEY}\r\n`;
const TYPE = 'Content-Type: multipart/form-data; boundary=AaB03x\r\n';
/** 120 bytes. */
const FORM =
  '--AaB03x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\nhello\r\n--AaB03x--\r\n';
const HEADERS_97 = Array.from({ length: 97 }, (_, n) => `h${n}: v\r\n`).join('');

export const rawCases: readonly RawCase[] = [
  { name: 'fragment-method', raw: 'G', expected: 'close' },
  { name: 'fragment-url-2', raw: 'GET /hello', expected: 'close' },
  { name: 'fragment-version', raw: 'GET /hello HTTP', expected: 'wait' },
  { name: 'fragment-request-line-cr', raw: 'GET /hello HTTP/1.1\r', expected: 'wait' },
  { name: 'fragment-field-name', raw: 'GET /hello HTTP/1.1\r\nHos', expected: 'close' },
  { name: 'fragment-field-value', raw: 'GET /hello HTTP/1.1\r\nHost: localhost', expected: 'close' },
  { name: 'fragment-header-end-missing', raw: 'GET /hello HTTP/1.1\r\nHost: localhost\r\n', expected: 'close' },
  { name: 'no-version', raw: 'GET / \r\n\r\n', expected: '400 5xx close' },
  { name: 'get-valid', raw: `${GET}\r\n`, expected: '2xx 404' },
  { name: 'header-name-brackets', raw: `${GET}X-Invalid[]: test\r\n\r\n`, expected: '400 close' },
  { name: 'host-twice', raw: `${GET}Host: b\r\n\r\n`, expected: '400 close' },
  { name: 'cl-negative', raw: `${GET}Content-Length: -1234\r\n\r\n`, expected: '400 close' },
  { name: 'header-ctl', raw: `${GET}X-Bad-Control-Char: test\x07\r\n\r\n`, expected: '400 close' },
  { name: 'prefix-garbage', raw: `abc ${GET}\r\n`, expected: '400 5xx close' },
  {
    name: 'cl-and-te-mixed-case',
    raw: `${POST}content-LengtH: 5\r\nTransFer-Encoding: chunked\r\n\r\nc\r\nhello, world\r\n0\r\n\r\n`,
    expected: '400 close',
  },
  {
    name: 'te-cl-identity',
    raw: `${SCAN}${TYPE}Content-Length: 1\r\nTransfer-Encoding: identity\r\n\r\nZ`,
    expected: '400 close',
    isFree: true,
  },
  {
    name: 'cl-twice-equal',
    raw: `${SCAN}${TYPE}Content-Length: 120\r\nContent-Length: 120\r\n\r\n${FORM}`,
    expected: '400 2xx close',
  },
  { name: 'cl-plus', raw: `${SCAN}${TYPE}Content-Length: +1_0\r\n\r\n0123456789`, expected: '400 close', isFree: true },
  { name: 'cl-octal-looking', raw: `${GET}Content-Length: 010\r\n\r\n0123456789`, expected: '2xx 404 400' },
  { name: 'cl-inner-space', raw: `${POST}Content-Length: 4 2\r\n\r\n`, expected: '400 close' },
  {
    name: 'cl-empty-then-value',
    raw: `${GET}Content-Length: \r\nContent-Length: 43\r\n\r\nPOST /evil HTTP/1.1\r\nHost: a\r\nContent-Length: 18\r\n\r\n`,
    expected: '400 close',
    maxAnswers: 1,
  },
  { name: 'cl-2e64-plus', raw: `${POST}Content-Length: 18446744073709551617\r\n\r\nx`, expected: '400 close' },
  {
    name: 'cl-cr-instead-of-dash',
    raw: 'PUT /url HTTP/1.1\r\nHost: a\r\nContent\rLength: 003\r\n\r\nabc',
    expected: '400 close',
  },
  { name: 'cl-11MB-announced', raw: `${SCAN}${TYPE}Content-Length: 11534336\r\n\r\n`, expected: '400' },
  {
    name: 'te-chunked-valid',
    raw: `${SCAN}${TYPE}Transfer-Encoding: chunked\r\n\r\n78\r\n${FORM}\r\n0\r\n\r\n`,
    expected: '2xx 411 400',
  },
  {
    name: 'te-chunkedchunked',
    raw: `${SCAN}${TYPE}Transfer-Encoding: chunkedchunked\r\n\r\n5\r\nWorld\r\n0\r\n\r\n`,
    expected: '400 501 close',
    isFree: true,
  },
  {
    name: 'te-deflate-chunked',
    raw: `${SCAN}${TYPE}Transfer-Encoding: deflate, chunked\r\n\r\n5\r\nWorld\r\n0\r\n\r\n`,
    expected: '400 501 close',
    isFree: true,
  },
  {
    name: 'te-chunked-then-deflate',
    raw: `${SCAN}${TYPE}Transfer-Encoding: chunked\r\nTransfer-Encoding: deflate\r\n\r\n5\r\nWorld\r\n0\r\n\r\n`,
    expected: '400 501 close',
    isFree: true,
  },
  { name: 'te-nbsp', raw: `${POST}Transfer-Encoding: \xa0chunked\xa0\r\n\r\n0\r\n\r\n`, expected: '400 501 close' },
  { name: 'te-name-space', raw: `${POST}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`, expected: '400 close' },
  {
    name: 'te-leading-space-line',
    raw: 'POST / HTTP/1.1\r\n Transfer-Encoding: chunked\r\nHost: a\r\n\r\n0\r\n\r\n',
    expected: '400 close',
  },
  { name: 'te-lf-wrapped', raw: `${POST}Transfer-Encoding:\n chunked\r\n\r\n0\r\n\r\n`, expected: '400 close' },
  { name: 'te-case', raw: `${POST}TrAnSFer-EnCODinG: cHuNkeD\r\n\r\n0\r\n\r\n`, expected: '2xx 404 400 501 411' },
  {
    name: 'te-hidden-by-cr',
    raw: `${POST}x:\rTransfer-Encoding: chunked\r\n\r\n1\r\nA\r\n0\r\n\r\n`,
    expected: '400 close',
  },
  {
    name: 'chunk-underscore',
    raw: `${CHUNKED}0_2e\r\n\r\n${GET}Content-Length: 5\r\n\r\n0\r\n\r\n`,
    expected: '400 501 411 close',
    maxAnswers: 1,
  },
  { name: 'chunk-negative', raw: `${CHUNKED}-0x0\r\n\r\n`, expected: '400 501 411 close', maxAnswers: 1 },
  {
    name: 'chunk-letter-g',
    raw: `${CHUNKED}g\r\n${'A'.repeat(16)}\r\n0\r\n\r\n`,
    expected: '400 501 411 close',
    maxAnswers: 1,
  },
  {
    name: 'chunk-long-prefix',
    raw: `${CHUNKED}1and-what-follows-a-digit\r\nZ\r\n0\r\n\r\n`,
    expected: '400 501 411 close',
    maxAnswers: 1,
  },
  { name: 'chunk-leading-space', raw: `${CHUNKED}           0\r\n\r\n`, expected: '400 501 411 close', maxAnswers: 1 },
  { name: 'chunk-empty-size', raw: `${CHUNKED}\r\n\r\n`, expected: '400 501 411 close', maxAnswers: 1 },
  {
    name: 'chunk-data-not-terminated',
    raw: `${CHUNKED}5\r\nABCDE0\r\n\r\n`,
    expected: '400 501 411 close',
    maxAnswers: 1,
  },
  { name: 'chunk-bare-lf-line', raw: `${CHUNKED}0\n\r\n`, expected: '400 501 411 close', maxAnswers: 1 },
  {
    name: 'chunk-terminator-xx',
    raw: `${CHUNKED}0\r\nX:GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n`,
    expected: '400 501 411 close',
    maxAnswers: 1,
  },
  {
    name: 'chunk-ext-unbalanced-quote',
    raw: `${CHUNKED}5;one="two";three="four; five\r\nhello\r\n6;one;two\r\n world\r\n0\r\n\r\n`,
    expected: '400 501 411 close',
    maxAnswers: 1,
  },
  {
    name: 'chunk-ext-cr-padding',
    raw: `${CHUNKED}41;a=b\r\r${'X'.repeat(65)}\r\n0\r\n\r\nGET /bad_path/pwned HTTP/1.1\r\nHost: a\r\nContent-Length: 412\r\n\r\n0\r\n\r\n`,
    expected: '400 501 411 close',
    maxAnswers: 1,
  },
  {
    name: 'chunk-ext-valid',
    raw: `${CHUNKED}5;one;two=three;four=five\r\nhello\r\n6;one;two\r\n world\r\n0\r\n\r\n`,
    expected: '2xx 404 411 501 400',
  },
  { name: 'chunk-colon-digit', raw: `${CHUNKED}:\r\n0123456789\r\n0\r\n\r\n`, expected: '400 501 411 close' },
  { name: 'chunk-one-byte-each', raw: `${CHUNKED}${'1\r\nA\r\n'.repeat(20000)}0\r\n\r\n`, expected: '2xx 404 400 411' },
  {
    name: 'chunk-trailer-api-key',
    raw: `POST /api/v1/scans HTTP/1.1\r\nHost: localhost\r\n${TYPE}Transfer-Encoding: chunked\r\n\r\n78\r\n${FORM}\r\n0\r\nX-API-KEY: ${API_KEY}\r\n\r\n`,
    expected: '401 400 411',
    maxAnswers: 1,
  },
  {
    name: 'header-nul-truncation',
    raw: `${GET}Test: test\x00and more\r\nConnection: close\r\n\r\n`,
    expected: '400 close',
  },
  { name: 'header-cr-in-value', raw: `${GET}Header: va\rlue\r\n\r\n`, expected: '400 close' },
  { name: 'header-lf-only', raw: 'GET / HTTP/1.1\nHost: a\nConnection: close\n\n', expected: '400 close' },
  { name: 'header-colon-only', raw: `${GET}:\r\nX: y\r\n\r\n`, expected: '400 close' },
  {
    name: 'header-name-continued',
    raw: `${POST}Transfer-\r\nEncoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
    expected: '400 close',
  },
  {
    name: 'header-block-cr-z',
    raw: `${GET}\rZGET /evil: HTTP/1.1\r\nHost: a\r\n\r\n`,
    expected: '400 close',
    maxAnswers: 1,
  },
  { name: 'header-0x85-name', raw: `${GET}Content-Length\x85: 10\r\n\r\n0123456789`, expected: '400 close' },
  { name: 'header-ctl-name', raw: 'GET / HTTP/1.0\r\nHost: a\r\na\x1bb: c\r\n\r\n', expected: '400 close' },
  { name: 'method-tab', raw: 'G\tT / HTTP/1.1\r\nHost: a\r\n\r\n', expected: '400 close' },
  { name: 'method-empty', raw: ' / HTTP/1.1\r\nHost: a\r\n\r\n', expected: '400 close' },
  {
    name: 'method-specials',
    raw: 'G=":<>(e),[T];?" /get HTTP/1.1\r\nHost: a\r\n\r\n',
    expected: '400 404 405 501 close',
  },
  { name: 'version-1.32', raw: 'GET /test HTTP/1.32\r\nHost: a\r\n\r\n', expected: '400 505 close' },
  { name: 'version-overflow', raw: 'GET / HTTP/4294967295.255\r\nHost: a\r\n\r\n', expected: '400 505 close' },
  { name: 'space-after-start-line', raw: 'GET / HTTP/1.1\r\n Host: foo\r\n\r\n', expected: '400 close' },
  { name: 'double-crlf-first', raw: `\r\n\r\n${GET}\r\n`, expected: '2xx 404 400 close' },
  {
    name: 'tls-hello-on-http',
    raw: `\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03${'A'.repeat(64)}`,
    expected: '400 close',
  },
  { name: 'header-one-8k', raw: `${GET}X-Big: ${'a'.repeat(8192)}\r\n\r\n`, expected: '431 400 2xx 404 close' },
  { name: 'header-count-99', raw: `${GET}${HEADERS_97}\r\n`, expected: '2xx 404 431 400 close' },
  { name: 'target-64k', raw: `GET /${'a'.repeat(65536)} HTTP/1.1\r\nHost: a\r\n\r\n`, expected: '414 431 400 close' },
  {
    name: 'cookie-jwt-8k',
    raw: `GET /web/users/me HTTP/1.1\r\nHost: localhost\r\nCookie: access_token=${'e'.repeat(8000)}\r\n\r\n`,
    expected: '401 431 400',
  },
  {
    name: 'absolute-form-other-host',
    raw: `POST http://evil.example/api/v1/scans HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: ${API_KEY}\r\nContent-Length: 0\r\n\r\n`,
    expected: '4xx close',
  },
  { name: 'asterisk-form', raw: 'OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n', expected: '2xx 400 404 405 close' },
  {
    name: 'target-fragment',
    raw: 'GET /web/users/me#/../api HTTP/1.1\r\nHost: localhost\r\n\r\n',
    expected: '401 400 404',
  },
  {
    name: 'double-slash-inner',
    raw: `POST /api//v1/scans HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: ${API_KEY}\r\n${TYPE}Content-Length: 120\r\n\r\n${FORM}`,
    expected: '404 400 401',
  },
  {
    name: 'dot-segments',
    raw: `POST /api/v1/../v1/scans HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: ${API_KEY}\r\n${TYPE}Content-Length: 120\r\n\r\n${FORM}`,
    expected: '404 400 401 2xx',
  },
  {
    name: 'encoded-slash',
    raw: 'POST /api%2fv1%2fscans HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n',
    expected: '404 400 401',
  },
  {
    name: 'encoded-path-double',
    raw: 'POST /%2561pi/v1/scans HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n',
    expected: '404 401',
  },
  {
    name: 'raw-dotdot-static',
    raw: 'GET /../../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n',
    expected: '404 400 403',
  },
  {
    name: 'nul-encoded-static',
    raw: 'GET /index.html%00.png HTTP/1.1\r\nHost: localhost\r\n\r\n',
    expected: '404 400',
  },
  {
    name: 'overlong-utf8',
    raw: 'GET /%c0%ae%c0%ae/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n',
    expected: '404 400 403',
  },
  {
    name: 'semicolon-param',
    raw: `POST /api/v1/scans;jsessionid=1 HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: ${API_KEY}\r\n${TYPE}Content-Length: 120\r\n\r\n${FORM}`,
    expected: '404 401 400',
  },
  {
    name: 'method-get-scans',
    raw: `GET /api/v1/scans HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: ${API_KEY}\r\nContent-Length: 0\r\n\r\n`,
    expected: '404 405 400 2xx 401',
    isFree: true,
  },
  {
    name: 'method-put-scans',
    raw: `PUT /api/v1/scans HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: ${API_KEY}\r\nContent-Length: 0\r\n\r\n`,
    expected: '404 405 400 2xx 401',
    isFree: true,
  },
  {
    name: 'method-patch-scans',
    raw: `PATCH /api/v1/scans HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: ${API_KEY}\r\nContent-Length: 0\r\n\r\n`,
    expected: '404 405 400 2xx 401',
    isFree: true,
  },
  {
    name: 'method-trace-scans',
    raw: `TRACE /api/v1/scans HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: ${API_KEY}\r\nContent-Length: 0\r\n\r\n`,
    expected: '404 405 400 2xx 401',
    isFree: true,
  },
  {
    name: 'method-override',
    raw: `GET /web/keys/${API_KEY} HTTP/1.1\r\nHost: localhost\r\nX-HTTP-Method-Override: DELETE\r\n\r\n`,
    expected: '401 404 405',
  },
  { name: 'get-with-body', raw: `${GET}Content-Length: 10\r\n\r\n1234567890`, expected: '2xx 404 400', maxAnswers: 1 },
  {
    name: 'upgrade-h2c',
    raw: `${GET}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n`,
    expected: '2xx 404',
  },
  {
    name: 'key-empty',
    raw: `POST /api/v1/scans HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: \r\n${TYPE}Content-Length: 0\r\n\r\n`,
    expected: '401',
    isFree: true,
  },
  {
    name: 'key-name-x-api-key',
    raw: `POST /api/v1/scans HTTP/1.1\r\nHost: localhost\r\nx-api-key: ${API_KEY}\r\n${TYPE}Content-Length: 120\r\n\r\n${FORM}`,
    expected: '2xx',
  },
  {
    name: 'key-name-x-API-key',
    raw: `POST /api/v1/scans HTTP/1.1\r\nHost: localhost\r\nx-API-key: ${API_KEY}\r\n${TYPE}Content-Length: 120\r\n\r\n${FORM}`,
    expected: '2xx',
  },
  {
    name: 'key-underscore-name',
    raw: `POST /api/v1/scans HTTP/1.1\r\nHost: localhost\r\nX_API_KEY: ${API_KEY}\r\n${TYPE}Content-Length: 120\r\n\r\n${FORM}`,
    expected: '401',
    isFree: true,
  },
  {
    name: 'key-twice-valid-first',
    raw: `${SCAN}${TYPE}X-API-KEY: ${'f'.repeat(32)}\r\nContent-Length: 120\r\n\r\n${FORM}`,
    expected: '400 401 2xx',
  },
  {
    name: 'key-comma-list',
    raw: `POST /api/v1/scans HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: ${API_KEY}, ${API_KEY}\r\n${TYPE}Content-Length: 120\r\n\r\n${FORM}`,
    expected: '401 400',
    isFree: true,
  },
  {
    name: 'key-padded-spaces',
    raw: `POST /api/v1/scans HTTP/1.1\r\nHost: localhost\r\nX-API-KEY:   ${API_KEY}\t \r\n${TYPE}Content-Length: 120\r\n\r\n${FORM}`,
    expected: '2xx',
  },
  {
    name: 'key-wildcard',
    raw: 'POST /api/v1/scans HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: *\r\nContent-Length: 0\r\n\r\n',
    expected: '401',
    isFree: true,
  },
  {
    name: 'key-4k',
    raw: `POST /api/v1/scans HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: ${'a'.repeat(3500)}\r\nContent-Length: 0\r\n\r\n`,
    expected: '401 400 431',
    isFree: true,
  },
  { name: 'pipeline-two-gets', raw: `${GET}\r\n${GET}\r\n`, expected: 'any close' },
  {
    name: 'pipeline-valid-then-garbage',
    raw: `${GET}Connection: close\r\n\r\nInvalid\r\n\r\n`,
    expected: 'any close',
    maxAnswers: 1,
  },
  {
    name: 'cl0-then-request',
    raw: `POST / HTTP/1.1\r\nContent-Length: 0\r\nConnection:keep-alive\r\nHost: a\r\nid: 0\r\n\r\n${POST}id: 1\r\nContent-Length: 34\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\nid: 2\r\n\r\n`,
    expected: 'any close',
  },
];
