// A scan asked for over a pool of connections, as load makes it: the form as bytes, the answer reduced to what is compared later.
import type { Pool } from 'undici';
import { API_KEY } from '../fixtures/server.js';

const BOUNDARY = 'sluice-test-boundary';

export interface ScanAnswer {
  readonly status: number;
  /** Null: the scan isn't in the history. */
  readonly scanId: string | null;
  readonly infected: boolean;
}

export async function scan(
  pool: Pool,
  content: Buffer | string,
  { key = API_KEY, filename = 'a.bin' }: { readonly key?: string; readonly filename?: string } = {},
): Promise<ScanAnswer> {
  const head = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="${filename}"\r\n\r\n`;
  const { statusCode, headers, body } = await pool.request({
    method: 'POST',
    path: '/api/v1/scans',
    headers: { 'X-API-KEY': key, 'Content-Type': `multipart/form-data; boundary=${BOUNDARY}` },
    body: Buffer.concat([Buffer.from(head), Buffer.from(content), Buffer.from(`\r\n--${BOUNDARY}--\r\n`)]),
  });
  const { infected } = Object(await body.json());
  const scanId = headers['x-scan-id'];
  return { status: statusCode, scanId: typeof scanId === 'string' ? scanId : null, infected: infected === true };
}
