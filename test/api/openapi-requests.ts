// What each operation of the OpenAPI document is asked, well and badly, and the status that must come of it.
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { nestedZip } from '../fixtures/archives.js';
import { API_KEY, type TestServer } from '../fixtures/server.js';
import { bearer, signIn } from '../fixtures/sign-in.js';

export interface Sent {
  readonly path?: string;
  readonly body?: RequestInit['body'];
  readonly headers?: Readonly<Record<string, string>>;
  /** What must come of it. */
  readonly status: number;
}

/** By operation. */
export type Asked = Readonly<Record<string, readonly Sent[]>>;

/** Of every request of these tests: it has to come back. */
export const REQUEST_ID = 'of-this-test';

export async function send(
  server: TestServer,
  method: string,
  path: string,
  { body, headers = {}, path: sentPath }: Sent,
): Promise<Response> {
  const init = { method: method.toUpperCase(), headers: { 'X-Request-Id': REQUEST_ID, ...headers } };
  return await fetch(`${server.url}${sentPath ?? path}`, body === undefined ? init : { ...init, body });
}

export interface Requests {
  readonly asked: Asked;
  /** Headers: of a key, and of a user who is signed in. */
  readonly key: Readonly<Record<string, string>>;
  readonly me: Readonly<Record<string, string>>;
}

/** Makes on the server what they are about. */
export async function requestsTo(server: TestServer): Promise<Requests> {
  const { accessToken, userId: ownId } = await signIn(server.url);
  const me = bearer(accessToken);
  const json = { 'Content-Type': 'application/json' };

  function form(content: string | Buffer, name = 'a.bin', part = 'file'): FormData {
    const data = new FormData();
    if (part === 'file') data.append('file', new Blob([new Uint8Array(Buffer.from(content))]), name);
    else data.append(part, String(content));
    return data;
  }

  async function scannedId(): Promise<string> {
    const answer = await fetch(`${server.url}/web/scans`, { method: 'POST', body: form('known'), headers: me });
    const id = answer.headers.get('x-scan-id') ?? '';
    for (let found = 404; found === 404; )
      found = (await fetch(`${server.url}/web/scans/${id}`, { headers: me })).status;
    return id;
  }

  async function madeKey(): Promise<string> {
    const made = await send(server, 'post', '/web/keys', { ...asJson({ name: 'another' }), status: 201 });
    return z.object({ uuid: z.string() }).parse(await made.json()).uuid;
  }

  const asJson = (value: unknown): Pick<Sent, 'body' | 'headers'> => ({
    body: JSON.stringify(value),
    headers: { ...me, ...json },
  });
  const key = { 'X-API-KEY': API_KEY };
  const unknownId = '01a1d7c0-0000-7000-8000-000000000000';
  const newcomer = { email: 'new@example.com', password: 'a password for tests' };
  const poor = await fetch(`${server.url}/web/auth/register`, {
    method: 'POST',
    headers: json,
    body: JSON.stringify({ email: 'poor@example.com', password: newcomer.password }),
  });
  const { accessToken: poorToken, user } = z
    .object({ accessToken: z.string(), user: z.object({ id: z.string() }) })
    .parse(await poor.json());
  const poorId = user.id;
  /** By somebody who is no operator. */
  const poorly: Sent = { headers: bearer(poorToken), status: 403 };
  const deep = nestedZip(Buffer.from('deep'), 30);

  const scans = (headers: Readonly<Record<string, string>>): Sent[] => [
    { body: form('clean'), headers, status: 200 },
    { body: form('clean'), headers, status: 200 },
    { body: form(''), headers, status: 400 },
    { body: form('x', 'x', 'other'), headers, status: 400 },
    { body: form(Buffer.alloc(11 * 1024 * 1024)), headers, status: 400 },
    { body: form(deep), headers, status: 422 },
    { body: form('x'), headers: { ...headers, 'Content-Encoding': 'gzip' }, status: 415 },
    { body: form('x'), status: 401 },
  ];
  const webhook = { url: 'http://93.184.215.14/hook', events: ['scan.infected'] };
  const made = await fetch(`${server.url}/web/webhooks`, {
    method: 'POST',
    headers: { ...me, ...json },
    body: JSON.stringify(webhook),
  });
  const { id: webhookId } = z.object({ id: z.string() }).parse(await made.json());
  const webhooks = (prefix: string, headers: Readonly<Record<string, string>>): Record<string, readonly Sent[]> => {
    const path = `${prefix}/${webhookId}`;
    const unknown = { path: `${prefix}/${unknownId}`, headers, status: 404 };
    const sent = (value: unknown) => ({ body: JSON.stringify(value), headers: { ...headers, ...json } });
    return {
      [`get ${prefix}`]: [{ headers, status: 200 }],
      [`post ${prefix}`]: [
        { ...sent(webhook), status: 201 },
        { ...sent({ url: 'http://127.0.0.1/' }), status: 400 },
        { ...sent({ url: 'x'.repeat(20_000) }), status: 413 },
        { body: 'url=x', headers, status: 415 },
      ],
      [`get ${prefix}/{id}`]: [{ path, headers, status: 200 }, unknown],
      [`put ${prefix}/{id}`]: [
        { path, ...sent({ enabled: true }), status: 200 },
        { path, ...sent({ events: [] }), status: 400 },
        { ...unknown, ...sent({}) },
      ],
      [`post ${prefix}/{id}/rotate`]: [
        { path: `${path}/rotate`, headers, status: 200 },
        { ...unknown, path: `${prefix}/${unknownId}/rotate` },
      ],
      [`post ${prefix}/{id}/test`]: [{ ...unknown, path: `${prefix}/${unknownId}/test` }],
      [`get ${prefix}/{id}/deliveries`]: [
        { path: `${path}/deliveries`, headers, status: 200 },
        { path: `${path}/deliveries?state=x`, headers, status: 400 },
        { ...unknown, path: `${prefix}/${unknownId}/deliveries` },
      ],
      [`post ${prefix}/{id}/deliveries/{delivery}/retry`]: [
        { path: `${path}/deliveries/${unknownId}/retry`, headers, status: 404 },
      ],
      [`delete ${prefix}/{id}`]: [unknown],
    };
  };

  /** By operation; what each must answer. Those that aren't here are asked without anything. */
  const asked: Asked = {
    ...webhooks('/api/v1/webhooks', key),
    ...webhooks('/web/webhooks', me),
    'post /api/v1/scans': [
      ...scans(key),
      { body: Buffer.from('x'), headers: key, status: 415 },
      { body: 'x', headers: { ...key, 'X-Filename': 'a%20b.txt' }, status: 200 },
      { body: 'x', path: '/api/v1/scans?filename=a.txt', headers: key, status: 200 },
      { body: 'x', headers: { ...key, 'X-Filename': 'a', Prefer: 'respond-async' }, status: 202 },
      { body: 'x', headers: { ...key, 'X-Filename': 'a', 'Idempotency-Key': 'one' }, status: 200 },
      { body: 'x', headers: { ...key, 'X-Filename': 'a', 'Idempotency-Key': 'one' }, status: 200 },
      { body: 'y', headers: { ...key, 'X-Filename': 'a', 'Idempotency-Key': 'one' }, status: 409 },
      ...[400, 400].map((status) => ({
        body: '{"url":"http://10.0.0.1/"}',
        headers: { ...key, ...json, 'Idempotency-Key': 'two' },
        status,
      })),
      { body: '{}', headers: { ...key, ...json }, status: 400 },
      { body: '{"url":"http://does-not-exist.invalid/"}', headers: { ...key, ...json }, status: 422 },
      { body: new URLSearchParams({ url: 'http://127.0.0.1/' }), headers: key, status: 400 },
      { body: `{"url":"${'x'.repeat(40_000)}"}`, headers: { ...key, ...json }, status: 413 },
      { body: form('http://127.0.0.1/', '', 'url'), headers: key, status: 400 },
      { body: form('http://does-not-exist.invalid/', '', 'url'), headers: key, status: 422 },
      { body: form('x'), headers: { 'X-API-KEY': 'f'.repeat(32) }, status: 401 },
    ],
    'post /web/scans': [
      ...scans(me),
      { body: '{}', headers: { ...me, ...json }, status: 415 },
      ...Array.from({ length: 3 }, () => ({ body: form('x'), headers: bearer(poorToken), status: 200 })),
      { body: form('x'), headers: bearer(poorToken), status: 429 },
      {
        body: form('x'),
        headers: { Cookie: `sluice_access=${accessToken}`, Origin: 'https://evil.example' },
        status: 403,
      },
    ],
    'get /api/v1/scans': [
      { headers: key, status: 200 },
      { path: '/api/v1/scans?limit=x', headers: key, status: 400 },
    ],
    'get /api/v1/scans/{id}': [
      { path: `/api/v1/scans/${await scannedId()}`, headers: key, status: 200 },
      { path: `/api/v1/scans/${unknownId}`, headers: key, status: 404 },
      { path: `/api/v1/scans/${unknownId}?wait=61`, headers: key, status: 400 },
    ],
    'get /api/v1/files/{sha256}': [
      { path: `/api/v1/files/${createHash('sha256').update('known').digest('hex')}`, headers: key, status: 200 },
      { path: `/api/v1/files/${'0'.repeat(64)}`, headers: key, status: 404 },
    ],
    'get /api/v1/account': [
      { headers: key, status: 200 },
      { path: '/api/v1/account?x=1', headers: key, status: 400 },
    ],
    'get /web/quota': [{ headers: me, status: 200 }],
    'get /web/quota/hours': [{ headers: me, status: 200 }],
    'post /web/url-scans': [
      { ...asJson({ url: 'http://127.0.0.1/' }), status: 400 },
      { ...asJson({}), status: 400 },
      { ...asJson({ url: 'http://does-not-exist.invalid/' }), status: 422 },
      { ...asJson({ url: 'x'.repeat(40_000) }), status: 413 },
      { body: form('x'), headers: me, status: 415 },
      { status: 401 },
    ],
    'get /web/scans/{id}': [
      { path: `/web/scans/${await scannedId()}`, headers: me, status: 200 },
      { path: `/web/scans/${unknownId}`, headers: me, status: 404 },
    ],
    'get /web/scans/stats': [
      { headers: me, status: 200 },
      { path: '/web/scans/stats?size=1&sort=filename,asc&infected=false&q=a', headers: me, status: 200 },
      { path: '/web/scans/stats?size=0', headers: me, status: 400 },
      { path: '/web/scans/stats?unknown=1', headers: me, status: 400 },
    ],
    'get /web/scans/stats/export': [
      { headers: me, status: 200 },
      { path: '/web/scans/stats/export?status=x', headers: me, status: 400 },
    ],
    'get /web/scans/stats/donuts': [
      { headers: me, status: 200 },
      { path: '/web/scans/stats/donuts?startDate=x', headers: me, status: 400 },
    ],
    'get /web/scans/stats/daily': [
      { headers: me, status: 200 },
      { path: '/web/scans/stats/daily?x=1', headers: me, status: 400 },
    ],
    'get /web/scans/stats/monthly': [
      { headers: me, status: 200 },
      { path: '/web/scans/stats/monthly?x=1', headers: me, status: 400 },
    ],
    'get /web/keys/me': [{ headers: me, status: 200 }],
    'post /web/keys': [
      { ...asJson({ name: 'one' }), status: 201 },
      { ...asJson({ name: '' }), status: 400 },
      { ...asJson({ name: 'x'.repeat(300_000) }), status: 413 },
      { body: 'name=x', headers: me, status: 415 },
      {
        body: '{"name":"x"}',
        headers: { ...json, Cookie: `sluice_access=${accessToken}`, Origin: 'https://evil.example' },
        status: 403,
      },
    ],
    'put /web/keys/{uuid}': [
      { path: `/web/keys/${await madeKey()}`, ...asJson({ scopes: ['read'], hourlyLimit: 9 }), status: 200 },
      { path: `/web/keys/${unknownId}`, ...asJson({ name: 'two' }), status: 404 },
      { path: `/web/keys/${unknownId}`, ...asJson({ scopes: [] }), status: 400 },
    ],
    'delete /web/keys/{uuid}': [{ path: `/web/keys/${unknownId}`, headers: me, status: 404 }],
    'get /web/keys/{uuid}/usage': [
      { path: `/web/keys/${await madeKey()}/usage`, headers: me, status: 200 },
      { path: `/web/keys/${unknownId}/usage?days=x`, headers: me, status: 400 },
      { path: `/web/keys/${unknownId}/usage`, headers: me, status: 404 },
    ],
    'get /web/users/me': [{ headers: me, status: 200 }],
    'put /web/users/me': [
      { ...asJson({ name: 'Ada' }), status: 200 },
      { ...asJson({ newPassword: 'another password', currentPassword: 'wrong password' }), status: 400 },
      { ...asJson({ email: 'poor@example.com', currentPassword: 'a password for tests' }), status: 409 },
      { ...asJson({ unknown: 1 }), status: 400 },
    ],
    'get /web/users/me/sessions': [{ headers: me, status: 200 }],
    'delete /web/users/me/sessions/{sessionId}': [
      { path: `/web/users/me/sessions/${unknownId}`, headers: me, status: 404 },
    ],
    'delete /web/users/me/sessions': [
      { path: '/web/users/me/sessions?keepCurrent=true', headers: me, status: 204 },
      { path: '/web/users/me/sessions?keepCurrent=maybe', headers: me, status: 400 },
    ],
    'get /web/admin/health': [{ headers: me, status: 200 }, poorly],
    'delete /web/admin/refused/{sha256}': [
      { path: `/web/admin/refused/${'a'.repeat(64)}`, headers: me, status: 404 },
      poorly,
    ],
    'get /web/admin/activity': [{ headers: me, status: 200 }, poorly],
    'get /web/admin/accounts': [
      { headers: me, status: 200 },
      { path: '/web/admin/accounts?q=POOR&page=0', headers: me, status: 200 },
      { path: '/web/admin/accounts?page=-1', headers: me, status: 400 },
      poorly,
    ],
    'get /web/admin/accounts/{userId}': [
      { path: `/web/admin/accounts/${poorId}`, headers: me, status: 200 },
      { path: `/web/admin/accounts/${unknownId}`, headers: me, status: 404 },
      poorly,
    ],
    'put /web/admin/accounts/{userId}': [
      { ...asJson({ ownLimit: 4 }), path: `/web/admin/accounts/${poorId}`, status: 200 },
      { ...asJson({ ownLimit: 0 }), path: `/web/admin/accounts/${poorId}`, status: 400 },
      { ...asJson({ plan: 'GOLD' }), path: `/web/admin/accounts/${poorId}`, status: 400 },
      { ...asJson({}), path: `/web/admin/accounts/${poorId}`, status: 400 },
      { ...asJson({ ownLimit: null }), path: `/web/admin/accounts/${unknownId}`, status: 404 },
      { ...asJson({ suspended: true }), path: `/web/admin/accounts/${ownId}`, status: 409 },
      { body: 'x', headers: me, path: `/web/admin/accounts/${poorId}`, status: 415 },
      poorly,
    ],
    'delete /web/admin/accounts/{userId}': [
      { headers: me, status: 404 },
      { headers: me, path: `/web/admin/accounts/${ownId}`, status: 409 },
      poorly,
    ],
    'delete /web/admin/accounts/{userId}/sessions': [
      { headers: me, path: `/web/admin/accounts/${unknownId}/sessions`, status: 404 },
      poorly,
    ],
    'delete /web/admin/accounts/{userId}/keys/{uuid}': [
      { headers: me, path: `/web/admin/accounts/${poorId}/keys/${unknownId}`, status: 404 },
      poorly,
    ],
    'post /web/admin/signatures/update': [
      poorly,
      { headers: { Cookie: `sluice_access=${accessToken}`, Origin: 'https://evil.example' }, status: 403 },
    ],
    'get /web/admin/audit': [
      { headers: me, status: 200 },
      { path: `/web/admin/audit?before=9999&account=${poorId}`, headers: me, status: 200 },
      { path: '/web/admin/audit?before=x', headers: me, status: 400 },
      poorly,
    ],
    'get /web/admin/audit/export': [
      { headers: me, status: 200 },
      { path: '/web/admin/audit/export?account=x', headers: me, status: 400 },
      poorly,
    ],
    'get /web/billing/me': [{ headers: me, status: 200 }],
    'post /web/billing/checkout-session': [{ ...asJson({ plan: 'FREE' }), status: 503 }],
    'post /web/billing/portal-session': [{ headers: me, status: 503 }],
    'post /web/billing/sync': [{ headers: me, status: 503 }],
    'post /web/auth/register': [
      { ...asJson(newcomer), status: 201 },
      { ...asJson(newcomer), status: 409 },
      { ...asJson({ ...newcomer, password: 'short' }), status: 400 },
    ],
    'post /web/auth/login': [
      { ...asJson(newcomer), status: 200 },
      { ...asJson({ ...newcomer, password: 'not this one at all' }), status: 401 },
      { ...asJson({}), status: 400 },
    ],
    'post /web/auth/reset-request': [
      { ...asJson({ email: newcomer.email }), status: 403 },
      { ...asJson({}), status: 400 },
    ],
    'post /web/auth/reset': [{ ...asJson({ token: 'x', newPassword: newcomer.password }), status: 400 }],
    'post /web/users/me/two-factor': [
      { ...asJson({ currentPassword: newcomer.password }), status: 200 },
      { ...asJson({ currentPassword: 'not this one at all' }), status: 400 },
    ],
    'post /web/users/me/two-factor/confirmation': [{ ...asJson({ code: '12345' }), status: 400 }],
    'post /web/users/me/two-factor/removal': [
      { ...asJson({ currentPassword: newcomer.password, code: '12345' }), status: 400 },
    ],
    'post /web/users/me/deletion': [
      { ...asJson({ currentPassword: newcomer.password }), status: 409 },
      { ...asJson({}), status: 400 },
    ],
    'post /web/auth/refresh': [{ status: 401 }, { headers: { Origin: 'https://evil.example' }, status: 403 }],
    'post /web/auth/logout': [{ status: 204 }, { headers: { Origin: 'https://evil.example' }, status: 403 }],
    'post /webhooks/stripe': [{ body: '{}', headers: json, status: 503 }],
  };
  return { asked, key, me };
}
