// One request to an origin with undici, over a connection of its own to addresses that were checked. Sole importer of undici.
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { type buildConnector, Client, type Dispatcher, errors } from 'undici';
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
  const connection = openConnection(request, options);
  const client = new Client(url.origin, {
    connect: connection.connect,
    // No pipelining, no keep-alive: the request says `Connection: close`.
    pipelining: 0,
    maxHeaderSize: ORIGIN_HEADER_BYTES,
    headersTimeout: options.headersMs ?? ORIGIN_HEADERS_MS,
    bodyTimeout: options.idleMs ?? ORIGIN_IDLE_MS,
    allowH2: false,
  });
  // undici looks at the signal once a connection stands.
  signal.addEventListener('abort', connection.abandon);
  const close = (): void => {
    signal.removeEventListener('abort', connection.abandon);
    // An open connection is the client's to end: its parser doesn't bear an end that it hasn't made.
    client.destroy().catch(() => undefined);
    connection.abandon();
  };
  const failureOf = (error: unknown): unknown =>
    signal.aborted ? signal.reason : new Failure('downloadFailed', connection.problem() ?? reasonOf(error));
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
    return {
      status: statusCode,
      header: (name) => single(headers[name]),
      body: read(body, failureOf),
      close,
    };
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

interface Connection {
  readonly connect: buildConnector.connector;
  /** Why there is none; null when it stands. */
  problem(): string | null;
  /** Ends it while it is being made, which undici leaves to its timeout. */
  abandon(): void;
}

/** Dials the checked addresses in turn, and nothing else: no name is looked up behind the guard. */
function openConnection({ url, addresses }: OriginRequest, options: OriginOptions): Connection {
  const { redial = (target) => target, connectMs = ORIGIN_CONNECT_MS } = options;
  const isTls = url.protocol === 'https:';
  const name = url.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
  const ownPort = url.port === '' ? (isTls ? 443 : 80) : Number(url.port);
  const targets = addresses.slice(0, ORIGIN_ADDRESSES_DIALLED).map((address) => redial({ address, port: ownPort }));
  const answers = targets.map(({ address }) => ({ address, family: isIP(address) }));
  const [first] = targets;
  if (first === undefined) throw new Error('There is no address to dial');
  const lookup: LookupFunction = (_name, { all }, callback) => {
    if (all === true) callback(null, answers);
    else callback(null, first.address, isIP(first.address));
  };
  // The lookup isn't asked about an address: that one is dialled as it is.
  const host = isIP(name) === 0 ? name : first.address;
  const target = { host, port: first.port, lookup, autoSelectFamily: true, noDelay: true };
  let state: 'dialling' | 'shaking hands' | 'open' = 'dialling';
  let socket: Socket | null = null;

  function dial(): Socket {
    if (!isTls) return connectTcp(target);
    return connectTls({
      ...target,
      // RFC 6066 section 3: a server name is a name; the certificate of an address is held against the host.
      ...(isIP(name) === 0 ? { servername: name } : {}),
      ALPNProtocols: ['http/1.1'],
      // Said here, so that NODE_TLS_REJECT_UNAUTHORIZED changes nothing.
      rejectUnauthorized: true,
    });
  }

  return {
    connect(_options, callback) {
      const dialled = dial();
      socket = dialled;
      dialled.on('error', disguiseReset);
      const settle = (error: Error | null): void => {
        clearTimeout(late);
        dialled.off('error', settle).off('close', onClose);
        if (error === null) {
          state = 'open';
          callback(null, dialled);
        } else {
          callback(error, null);
        }
      };
      const onClose = (): void => settle(new Error('Closed before it was open'));
      const late = setTimeout(() => dialled.destroy(new Error('No connection in time')), connectMs);
      dialled.on('error', settle).on('close', onClose);
      if (isTls) {
        dialled.once('connect', () => {
          state = 'shaking hands';
        });
      }
      dialled.once(isTls ? 'secureConnect' : 'connect', () => settle(null));
    },
    problem() {
      if (state === 'open') return null;
      return state === 'dialling'
        ? 'no connection to the host'
        : 'TLS failed, or the certificate is not valid for the host';
    },
    abandon() {
      if (state !== 'open') socket?.destroy();
    },
  };
}

/**
 * undici 7 takes ECONNRESET for the end of a body that lasts until its connection ends: cut content would pass for whole. And
 * when it comes while the body is held back, an assertion fails there that would end the process. Under another code it is
 * an error like any other. This listener is the first, so that undici sees what it leaves.
 */
function disguiseReset(error: Error): void {
  if ('code' in error && error.code === 'ECONNRESET') error.code = 'CONNECTION_RESET';
}

/** A closed set of words: an operating system's or a library's own would tell of addresses, ports and routes. */
function reasonOf(error: unknown): string {
  if (error instanceof errors.HeadersTimeoutError || error instanceof errors.BodyTimeoutError) return TOO_SLOW;
  if (error instanceof errors.HTTPParserError || error instanceof errors.HeadersOverflowError) {
    return 'the response is not valid HTTP';
  }
  return LOST;
}

const LOST = 'the connection was lost before the end of the response';
export const TOO_SLOW = 'the origin took too long';
