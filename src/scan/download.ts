// One request to an origin with undici, over a connection of its own to addresses that were checked. Sole importer of undici.
import { isIP } from 'node:net';
import { buildConnector, Client, type Dispatcher } from 'undici';
import { Failure } from '../errors.js';
import {
  ORIGIN_ADDRESSES_DIALLED,
  ORIGIN_CONNECT_MS,
  ORIGIN_HEADER_BYTES,
  ORIGIN_HEADERS_MS,
  ORIGIN_IDLE_MS,
} from '../limits.js';

export interface DialTarget {
  readonly address: string;
  readonly port: number;
}

export interface OriginOptions {
  readonly userAgent: string;
  readonly connectMs?: number;
  readonly headersMs?: number;
  readonly idleMs?: number;
  /** Where a checked address is dialled. Default: there. A test has no public addresses, and puts its own origin in their place. */
  readonly redial?: (target: DialTarget) => DialTarget;
}

export interface OriginRequest {
  readonly url: URL;
  /** At least one; all of them have passed the guard, and nothing else is dialled. */
  readonly addresses: readonly string[];
  readonly signal: AbortSignal;
}

export interface OriginResponse {
  readonly status: number;
  /** The one value of a header; null when it is absent or repeated. */
  header(name: string): string | null;
  /** Bytes as they come over the wire; throws a Failure when they end before their end. */
  readonly body: AsyncIterable<Uint8Array>;
  /** Ends the connection, whatever was read. */
  close(): void;
}

/**
 * Sends a GET and resolves with the response once its headers are there. Rejects with Failure `downloadFailed`, with the
 * signal's reason when it aborts. The connection serves this request only: a kept one would skip the next check.
 */
export async function requestOrigin(request: OriginRequest, options: OriginOptions): Promise<OriginResponse> {
  const { url, signal } = request;
  let connected = false;
  const client = new Client(url.origin, {
    connect: (target, callback) => {
      createConnector(request, options)(target, (error, socket) => {
        if (error !== null) return callback(error, null);
        connected = true;
        callback(null, socket);
      });
    },
    // No pipelining, no keep-alive: the request says `Connection: close`.
    pipelining: 0,
    maxHeaderSize: ORIGIN_HEADER_BYTES,
    headersTimeout: options.headersMs ?? ORIGIN_HEADERS_MS,
    bodyTimeout: options.idleMs ?? ORIGIN_IDLE_MS,
    allowH2: false,
  });
  const close = (): void => {
    client.destroy().catch(() => undefined);
  };
  const failureOf = (error: unknown): unknown =>
    signal.aborted ? signal.reason : new Failure('downloadFailed', reasonOf(error, url, connected));
  try {
    const { statusCode, headers, body } = await client.request({
      method: 'GET',
      path: url.pathname + url.search,
      // Nothing of the client's, no cookies, no Referer.
      headers: { 'user-agent': options.userAgent, accept: '*/*', 'accept-encoding': 'identity' },
      signal,
    });
    // Closing ends the body with an error that nobody waits for.
    body.on('error', () => undefined);
    return { status: statusCode, header: (name) => single(headers[name]), body: read(body, failureOf), close };
  } catch (error) {
    close();
    throw failureOf(error);
  }
}

async function* read(
  body: Dispatcher.ResponseData['body'],
  failureOf: (error: unknown) => unknown,
): AsyncGenerator<Uint8Array> {
  const chunks: AsyncIterator<Uint8Array> = body[Symbol.asyncIterator]();
  for (;;) {
    const next = await chunks.next().catch((error: unknown) => {
      throw failureOf(error);
    });
    if (next.done === true) return;
    yield next.value;
  }
}

function single(value: string | string[] | undefined): string | null {
  return typeof value === 'string' ? value : null;
}

/** Dials the checked addresses in turn, and nothing else: no name is looked up behind the guard. */
function createConnector({ url, addresses }: OriginRequest, options: OriginOptions): buildConnector.connector {
  const { redial = (target) => target } = options;
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
  const targets = addresses.slice(0, ORIGIN_ADDRESSES_DIALLED).map((address) => redial({ address, port }));
  const answers = targets.map(({ address }) => ({ address, family: isIP(address) }));
  const [first] = targets;
  if (first === undefined) throw new Error('There is no address to dial');
  const connect = buildConnector({
    timeout: options.connectMs ?? ORIGIN_CONNECT_MS,
    // Said here, so that NODE_TLS_REJECT_UNAUTHORIZED changes nothing.
    rejectUnauthorized: true,
    autoSelectFamily: true,
    maxCachedSessions: 0,
    keepAlive: false,
    lookup: (_hostname, { all }, callback) => {
      if (all === true) callback(null, answers);
      else callback(null, first.address, isIP(first.address));
    },
  });
  return (target, callback) => {
    // The lookup isn't asked about an address: that one is dialled as it is. For the certificate the name stays that of the URL.
    const isAddress = isIP(target.hostname) !== 0;
    connect({ ...target, hostname: isAddress ? first.address : target.hostname, port: String(first.port) }, callback);
  };
}

const NO_CONNECTION: ReadonlySet<string> = new Set([
  'EADDRNOTAVAIL',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'ENETDOWN',
  'ENETUNREACH',
  'EPIPE',
  'ETIMEDOUT',
  'EACCES',
  'EPERM',
  'EINVAL',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** A closed set of words: an operating system's or a library's own would tell of addresses, ports and routes. */
function reasonOf(error: unknown, url: URL, connected: boolean): string {
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (!connected) {
    const isTls = url.protocol === 'https:' && !NO_CONNECTION.has(code);
    return isTls ? 'TLS failed, or the certificate is not valid for the host' : 'no connection to the host';
  }
  if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT') return TOO_SLOW;
  if (code === 'UND_ERR_HEADERS_OVERFLOW' || code.startsWith('HPE_')) return 'the response is not valid HTTP';
  return 'the connection was lost before the end of the response';
}

export const TOO_SLOW = 'the origin took too long';
