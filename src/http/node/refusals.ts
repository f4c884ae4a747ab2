// What never becomes a request under node:http: its answers, which uWebSockets.js gives in its own words (SECURITY.md).

import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';

const refusals = {
  syntax: [400, 'Bad request', 'The request is not valid HTTP/1.1'],
  method: [400, 'Bad request', 'CONNECT is not served'],
  version: [505, 'HTTP version not supported', 'Expected HTTP/1.1 or HTTP/1.0'],
  headers: [431, 'Request header fields too large', 'Expected at most 16 KB and 98 header fields'],
} as const;

export type Refusal = keyof typeof refusals;

/** The whole answer, after which the connection ends. */
export function refusalBytes(refusal: Refusal): string {
  const [status, error, message] = refusals[refusal];
  const body = JSON.stringify({ error, message });
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Content-Type: application/json; charset=utf-8',
    `X-Request-Id: ${randomUUID()}`,
    'X-Content-Type-Options: nosniff',
    'Cache-Control: no-store',
    'Connection: close',
    `Date: ${new Date().toUTCString()}`,
    `Content-Length: ${body.length}`,
    '',
    body,
  ].join('\r\n');
}
