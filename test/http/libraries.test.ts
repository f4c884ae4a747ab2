// The same bytes over both HTTP libraries: what one answers the other answers, but for a list of exceptions, which SECURITY.md gives in words.
import { connect } from 'node:net';
import t from 'tap';
import type { Exchange } from '../../src/http/exchange.js';
import { chooseLibrary, startServer } from '../../src/http/server.js';
import type { Reply } from '../../src/http/wire.js';
import { librariesHere } from '../fixtures/libraries.js';
import { chunked } from '../fixtures/raw-http.js';

const HOST = 'Host: a\r\n';
const HEX = '0123456789abcdef';
const LARGE = Buffer.alloc(300_000, HEX);

async function* pieces(): AsyncGenerator<string> {
  yield* ['one', '', 'two', HEX.repeat(2_000)];
}

const answers: Readonly<Record<string, (body: string) => Reply>> = {
  '/none': () => ({ status: 204, body: '' }),
  '/known': () => ({ status: 304, headers: { ETag: '"a"' }, body: '' }),
  '/text': () => ({
    status: 200,
    contentType: 'text/plain',
    headers: { 'Set-Cookie': ['a=1', 'b=2'], 'Cache-Control': 'no-cache' },
    body: 'ü',
  }),
  '/cookie': () => ({ status: 200, headers: { 'Set-Cookie': `a=${HEX.repeat(500)}`, ETag: '"a"' }, body: '' }),
  '/large': () => ({ status: 200, body: LARGE }),
  '/pieces': () => ({ status: 200, contentType: 'text/csv', body: pieces() }),
};

function serve(exchange: Exchange): void {
  const { method, path, query, headers, body, problem } = exchange;
  const early = problem === null ? '{}' : JSON.stringify({ problem });
  if (path === '/early') {
    exchange.reply({ status: 204, body: '' });
    return;
  }
  if (problem !== null || path === '/refused') {
    exchange.reply({ status: problem === null ? 401 : 400, body: early });
    return;
  }
  const received: Buffer[] = [];
  exchange.receive({
    take(bytes, isLast) {
      received.push(Buffer.from(bytes));
      if (!isLast) return;
      const text = Buffer.concat(received).toString('latin1');
      const seen = { method, path, query, headers: [...headers], body, text };
      exchange.reply(answers[path]?.(text) ?? { status: 200, body: JSON.stringify(seen) });
    },
  });
}

const post = (headers: string, body = ''): string => `POST /echo?a=b HTTP/1.1\r\n${HOST}${headers}\r\n${body}`;
const get = (path: string, headers = ''): string => `GET ${path} HTTP/1.1\r\n${HOST}${headers}\r\n`;
const inChunks = (body: string): string => post('Transfer-Encoding: chunked\r\n', body);

/** What both answer with the same bytes. */
const same: Readonly<Record<string, string | Buffer>> = {
  'a GET': get('/echo'),
  'a query': get('/echo?x=1&y=%20?z'),
  'a question mark alone': get('/echo?'),
  'a fragment': get('/echo#a'),
  'dots and slashes': get('//a/../b/%2e%2e/%2f'),
  'a header beyond ASCII': get('/echo', 'X-Text: a\u00c3\u00a9b\r\n'),
  'a header in every case': get('/echo', 'x-API-kEY:  a b \t\r\nX-Empty:\r\n'),
  'a header that comes twice': get('/echo', 'Accept: a\r\naccept: b\r\nX-Forwarded-For: 1\r\nX-Forwarded-For: 2\r\n'),
  'a request id': get('/echo', 'X-Request-Id: mine\r\n'),
  'an end of the connection': get('/echo', 'Connection: close\r\n'),
  'an upgrade': get('/echo', 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a\r\n'),
  'another protocol': get('/echo', 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\n'),
  'a GET with a body': get('/echo', 'Content-Length: 3\r\n').concat('abc'),
  HEAD: `HEAD /text HTTP/1.1\r\n${HOST}\r\n`,
  'HEAD of pieces': `HEAD /pieces HTTP/1.1\r\n${HOST}\r\n`,
  OPTIONS: 'OPTIONS /echo HTTP/1.1\r\nHost: a\r\n\r\n',
  TRACE: 'TRACE /echo HTTP/1.1\r\nHost: a\r\n\r\n',
  'no content': get('/none'),
  'not modified': get('/known'),
  'a text with cookies': get('/text'),
  'a header that is larger than most heads': get('/cookie'),
  'a large answer': get('/large'),
  'an answer in pieces': get('/pieces'),
  'a body': post('Content-Length: 3\r\n', 'abc'),
  'an empty body': post('Content-Length: 0\r\n'),
  'no body': post(''),
  'a body in chunks': inChunks(chunked([Buffer.from('abc'), Buffer.from(HEX)]).toString('latin1')),
  'an expectation': post('Expect: 100-continue\r\nContent-Length: 3\r\n', 'abc'),
  'an expectation that nobody knows': post('Expect: a\r\nContent-Length: 3\r\n', 'abc'),
  'a body that is refused': `POST /refused HTTP/1.1\r\n${HOST}Content-Length: 3\r\n\r\nabc`,
  'HEAD with a body that is refused': `HEAD /refused HTTP/1.1\r\n${HOST}Content-Length: 3\r\n\r\nabc`,
  'no content before a body has come': `POST /early HTTP/1.1\r\n${HOST}Content-Length: 3\r\n\r\nabc`,
  'two hosts': get('/echo', 'Host: b\r\n'),
  'two keys': get('/echo', 'X-API-KEY: a\r\nX-API-KEY: a\r\n'),
  'two types': post('Content-Type: a\r\ncontent-type: b\r\nContent-Length: 0\r\n'),
  'a coding that is not chunked': post('Transfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n'),
  'a request behind another': get('/echo') + get('/text'),
};

/** What the library answers by itself: status under uWebSockets.js, status under node:http; null: none, the connection is closed. */
const exceptions: Readonly<Record<string, readonly [text: string, uws: number | null, node: number | null]>> = {
  'HTTP/1.0': [`GET /echo HTTP/1.0\r\n${HOST}\r\n`, 505, 200],
  'HTTP/1.0 without a host': ['GET /echo HTTP/1.0\r\n\r\n', 505, 200],
  'chunks in HTTP/1.0': [`POST /echo HTTP/1.0\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, 505, 400],
  'HTTP/2.0': [`GET /echo HTTP/2.0\r\n${HOST}\r\n`, 505, 505],
  'another version': [`GET /echo HTTP/1.2\r\n${HOST}\r\n`, 505, 400],
  'no HTTP': ['\u0016\u0003\u0001\u0002\r\n\r\n', 505, 400],
  'an absolute target': [get('http://a/echo'), 505, 400],
  'OPTIONS *': [`OPTIONS * HTTP/1.1\r\n${HOST}\r\n`, 505, 400],
  'CONNECT with an authority': [`CONNECT a:443 HTTP/1.1\r\n${HOST}\r\n`, 505, 400],
  'CONNECT with a path': [`CONNECT /echo HTTP/1.1\r\n${HOST}\r\n`, 200, 400],
  'a target beyond ASCII': [get('/\u00c3\u00a9?\u00c3\u00a9'), 200, 400],
  'a method that nobody has registered': [`SCAN /echo HTTP/1.1\r\n${HOST}\r\n`, 200, 400],
  'a line that ends in LF alone': [`GET /echo HTTP/1.1\n${HOST}\r\n`, 505, 400],
  'no host': ['GET /echo HTTP/1.1\r\nAccept: a\r\n\r\n', 400, 400],
  'two lengths': [post('Content-Length: 3\r\nContent-Length: 3\r\n', 'abc'), 400, 400],
  'a length with a sign': [post('Content-Length: +3\r\n', 'abc'), 400, 400],
  'an empty length': [post('Content-Length: \r\n'), 400, 400],
  'a length beside chunks': [post('Content-Length: 3\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'), 400, 400],
  'chunks with a trailer': [inChunks('3\r\nabc\r\n0\r\nX-API-KEY: a\r\n\r\n'), 505, 200],
  'broken chunks': [inChunks('zz\r\n'), 400, 400],
  'chunks whose lines end in LF alone': [inChunks('3\nabc\n0\n\n'), 200, 400],
  'chunks with other bytes in the place of a line end': [inChunks('3\r\nabcXX0\r\n\r\n'), 200, 400],
  'more headers than are taken': [get('/echo', 'A: b\r\n'.repeat(120)), 431, 431],
  'two hosts behind a header without a name': [get('/echo', ': b\r\nHost: b\r\n'), 200, 400],
  'a header block of more than 16 KB': [get('/echo', `A: ${'b'.repeat(17_000)}\r\n`), 431, 431],
};
/** Only node:http sees where these end: uWebSockets.js waits for more, and closes after ten seconds without an answer. */
const unanswered: Readonly<Record<string, readonly [text: string, node: number]>> = {
  'no version': ['GET /echo\r\n\r\n', 505],
  'no header': ['GET /echo HTTP/1.1\r\n\r\n', 400],
  'an empty line before the request': [`\r\n${get('/echo')}`, 200],
  'a header line that is none': [get('/echo', 'A : b\r\n'), 400],
  'chunks with an extension': [inChunks('3;a=b\r\nabc\r\n0\r\n\r\n'), 200],
  'a folded header': [get('/echo', 'A: b\r\n c\r\n'), 400],
};

/** All that comes until the connection ends; behind a whole answer a last request is sent, which ends it. */
function talk(port: number, request: string | Buffer): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    const received: Buffer[] = [];
    let isLast = request.includes('Connection: close');
    socket.on('data', (bytes) => {
      received.push(bytes);
      const text = Buffer.concat(received).toString('latin1');
      if (isLast || !isWhole(text, request.includes('HEAD '))) return;
      isLast = true;
      socket.write(get('/text', 'Connection: close\r\n'));
    });
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(Buffer.concat(received).toString('latin1')));
    socket.write(typeof request === 'string' ? Buffer.from(request, 'latin1') : request);
  });
}

function isWhole(text: string, isHead: boolean): boolean {
  const [head = '', body = ''] = text.replace(/^HTTP\/1.1 100 Continue\r\n\r\n/, '').split(/\r\n\r\n(.*)/s);
  if (!text.includes('\r\n\r\n')) return false;
  if (isHead) return true;
  const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
  if (length !== undefined) return body.length >= Number(length);
  return /\r\ntransfer-encoding/i.test(head) ? body.endsWith('0\r\n\r\n') : true;
}

/** Without what differs from answer to answer, and without the name that uWebSockets.js leaves in each. */
function comparable(transcript: string): string {
  return transcript
    .replace(/\r\nDate: [^\r]+/g, '\r\nDate: *')
    .replace(/\r\nuWebSockets: \d+/g, '')
    .replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'ID');
}

const statusOf = (transcript: string): number | null => Number(/^HTTP\/1.1 (\d+)/.exec(transcript)?.[1] ?? 0) || null;

const servers = new Map<'uws' | 'node', number>();
for (const name of await librariesHere()) {
  const library = await chooseLibrary(name);
  const server = await startServer({ library, host: '127.0.0.1', port: 0, handle: serve, onEnd: () => undefined });
  t.teardown(() => server.stop(0));
  servers.set(library.name, server.port);
}
const node = servers.get('node') ?? 0;
/** Where it can't be had there is nothing to compare with. */
const uws = servers.get('uws') ?? node;

for (const [name, request] of Object.entries(same)) {
  t.test(`${name}: the same bytes`, async (t) => {
    const [expected, found] = await Promise.all([talk(uws, request), talk(node, request)]);
    t.equal(comparable(found), comparable(expected));
    t.match(found, /^HTTP\/1.1 \d/);
  });
}

for (const name of ['HEAD with a body that is refused', 'no content before a body has come']) {
  t.test(`${name}: behind the head comes the head of the next answer`, async (t) => {
    const [, next] = (await talk(node, same[name] ?? '')).split(/(?<=\r\n\r\n)/);
    t.match(next, /^HTTP\/1.1 200 OK\r\n/);
  });
}

for (const [name, [request, uwsStatus, nodeStatus]] of Object.entries(exceptions)) {
  t.test(`${name}: the library answers`, async (t) => {
    const [theirs, ours] = await Promise.all([talk(uws, request), talk(node, request)]);
    if (uws !== node) t.equal(statusOf(theirs), uwsStatus, 'uWebSockets.js');
    t.equal(statusOf(ours), nodeStatus, 'node:http');
  });
}

for (const [name, [request, nodeStatus]] of Object.entries(unanswered)) {
  t.test(`${name}: node:http answers at once`, async (t) => {
    t.equal(statusOf(await talk(node, request)), nodeStatus);
  });
}
