// A verdict is about the client's file: what stock clients and origins encode is refused on every route, and never called clean.
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import t from 'tap';
import { makeAccount } from '../fixtures/another-account.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { type OriginConnection, response, startOrigin } from '../fixtures/origin.js';
import { chunked, filePart, openRaw, scanRequest } from '../fixtures/raw-http.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer } from '../fixtures/server.js';
import { postForm } from '../fixtures/upload.js';

const run = promisify(execFile);
const folder = temporaryFolder(t);
const path = join(folder, 'eicar.com');
writeFileSync(path, eicar());

const paths: Record<string, (connection: OriginConnection) => unknown> = {};
const origin = await startOrigin((connection) => paths[connection.path]?.(connection));
const server = await startServer({ env: { REGISTRATION: 'open', URL_ALLOW_NETWORKS: '127.0.0.1/32' } });
const other = await makeAccount(server.url, 'other@example.com');
const keys = [API_KEY, other.key];
t.teardown(async () => {
  await server.stop();
  await origin.stop();
});

interface CurlAnswer {
  readonly status: number;
  readonly head: string;
  readonly body: unknown;
}

async function curl(key: string, ...options: string[]): Promise<CurlAnswer> {
  const url = `${server.url}/api/v1/scans`;
  const { stdout } = await run('curl', ['-s', '-i', '--max-time', '30', '-H', `X-API-KEY: ${key}`, ...options, url]);
  const [head = '', text = ''] = stdout.split('\r\n\r\n').slice(-2);
  return { status: Number(/ (\d+) /.exec(head)?.[1]), head, body: JSON.parse(text) };
}

const infected = { status: 200, body: { infected: true, sizeInBytes: 68, filename: 'eicar.com' } };
const malformed = (reason: string) => ({
  status: 400,
  body: { error: 'Scan failed', message: `Malformed multipart body: ${reason}` },
});
const encoded = malformed('the Content-Transfer-Encoding of a part is not 7bit, 8bit or binary');

t.test('what curl encodes in a part is refused, what it leaves as it is is scanned', async (t) => {
  const cases: [string, object][] = [
    [`file=@${path}`, infected],
    [`file=@${path};encoder=binary`, infected],
    [`file=@${path};encoder=8bit`, infected],
    [`file=@${path};encoder=7bit`, infected],
    [`file=@${path};encoder=base64`, encoded],
    [`file=@${path};encoder=quoted-printable`, encoded],
    [`file=@${path};headers="Content-Transfer-Encoding: BASE64"`, encoded],
    [`file=@${path};headers="Content-Encoding: gzip"`, malformed('a part has a Content-Encoding')],
    [`file=@${path};headers="Content-Range: bytes 0-67/100"`, malformed('a part has a Content-Range')],
    [`file=@${path};type=text/plain;headers="X-Other: base64"`, infected],
  ];
  for (const key of keys) {
    for (const [form, expected] of cases) t.match(await curl(key, '-F', form), expected, form);
    const several = ['-F', 'file=(;type=multipart/mixed', '-F', `=@${path}`, '-F', '=)'];
    t.match(
      await curl(key, ...several),
      malformed('a part is a multipart body of its own'),
      'several files in one part',
    );
    const field = ['-F', `file=@${path}`, '-F', 'note=x;encoder=base64'];
    t.match(await curl(key, ...field), encoded, 'a field beside the file');
  }
});

t.test('an encoded request is a 415 that says what may be sent, a piece of a file a 400', async (t) => {
  for (const key of keys) {
    for (const encoding of ['gzip', 'Deflate', 'br', 'gzip, identity', 'x']) {
      const answer = await curl(key, '-H', `Content-Encoding: ${encoding}`, '-F', `file=@${path}`);
      t.match(
        answer,
        { status: 415, body: { error: 'Unsupported media type', message: 'Expected no Content-Encoding' } },
        encoding,
      );
      t.match(answer.head, /\r\naccept-encoding: identity\r\n/i);
      t.match(answer.head, /\r\nx-ratelimit-remaining: /i);
    }
    t.match(await curl(key, '-H', 'Content-Encoding: Identity', '-F', `file=@${path}`), infected);
    t.match(
      await curl(key, '-H', 'Content-Range: bytes 0-67/1000', '-F', `file=@${path}`),
      malformed('the request has a Content-Range'),
    );
  }
});

t.test('two Content-Encoding headers are refused: the second one might be the true one', async (t) => {
  const connection = await openRaw(server.port);
  const request = scanRequest(filePart(eicar()), { 'Content-Encoding': 'identity' }).toString('latin1');
  await connection.send(request.replace('Host: localhost\r\n', 'Host: localhost\r\ncontent-encoding: gzip\r\n'));
  const answer = await connection.answer();
  t.match(answer, { status: 400 });
  t.match(answer?.body, /Repeated header: content-encoding/);
  await connection.closed();
});

t.test('a URL whose body comes in an encoding that the engine cannot open is a 422', async (t) => {
  const bodies: [string, Uint8Array, string][] = [
    ['br', brotliCompressSync(eicar()), 'Content-Encoding: br'],
    ['zstd', Buffer.from('28b52ffd2044210200', 'hex'), 'Content-Encoding: zstd'],
    ['zlib', deflateSync(eicar()), 'Content-Encoding: deflate'],
    ['raw deflate', deflateRawSync(eicar()), 'content-encoding: DEFLATE'],
    ['a list', gzipSync(brotliCompressSync(eicar())), 'Content-Encoding: br, gzip'],
    ['twice', gzipSync(deflateSync(eicar())), 'Content-Encoding: deflate\r\nContent-Encoding: gzip'],
    ['zlib by the name of gzip', deflateSync(eicar()), 'Content-Encoding: gzip'],
    ['one nobody knows', eicar(), 'Content-Encoding: utf-8'],
  ];
  const message = 'Download failed: the body comes in an encoding that cannot be opened';
  for (const key of keys) {
    for (const [name, body, header] of bodies) {
      paths['/file'] = ({ send }) => send(response(body, `${header}\r\n`));
      const answer = await scanUrl('/file', key);
      t.match(answer, { status: 422, body: { error: 'Scan failed', message } }, name);
      t.ok(answer.headers.get('x-scan-id'));
    }
    const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: br, chunked\r\n\r\n';
    paths['/file'] = ({ send }) => send(Buffer.concat([Buffer.from(head), chunked([brotliCompressSync(eicar())])]));
    t.match(await scanUrl('/file', key), { status: 422, body: { message } }, 'a transfer coding');
  }
});

t.test('a URL whose body comes in gzip, or in none by any spelling, has its verdict', async (t) => {
  const found = { status: 200, body: { infected: true } };
  for (const [header, body] of [
    ['Content-Encoding: gzip', gzipSync(eicar())],
    ['content-encoding: X-GZIP', gzipSync(eicar())],
    ['Content-Encoding: identity, gzip', gzipSync(eicar())],
    ['Content-Encoding: identity', eicar()],
    ['Content-Encoding: ', eicar()],
  ] as const) {
    paths['/file'] = ({ send }) => send(response(body, `${header}\r\n`));
    for (const key of keys) t.match(await scanUrl('/file', key), found, header);
  }
});

async function scanUrl(target: string, key: string) {
  const form = new FormData();
  form.append('url', `http://127.0.0.1:${origin.port}${target}`);
  return await postForm(server.url, form, key);
}
