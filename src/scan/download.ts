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
    const isUntilClose = headers['content-length'] === undefined && headers['transfer-encoding'] === undefined;
    const isCut = (): boolean => isUntilClose && connection.wasReset();
    return {
      status: statusCode,
      header: (name) => single(headers[name]),
      body: read(body, { failureOf, isCut }),
      close,
    };
  } catch (error) {
    close();
    throw failureOf(error);
  }
}

interface Reading {
  readonly failureOf: (error: unknown) => unknown;
  readonly isCut: () => boolean;
}

async function* read(body: Dispatcher.ResponseData['body'], { failureOf, isCut }: Reading): AsyncGenerator<Uint8Array> {
  const chunks: AsyncIterator<Uint8Array> = body[Symbol.asyncIterator]();
  for (;;) {
    const next = await chunks.next().catch((error: unknown) => {
      throw failureOf(error);
    });
    if (next.done === true) {
      if (isCut()) throw new Failure('downloadFailed', LOST);
      return;
    }
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
  /**
   * Whether it ended with a reset. undici takes that for the end of a body that lasts until its connection ends, and so
   * for content that is whole.
   */
  wasReset(): boolean;
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
  let isReset = false;

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
      const late = setTimeout(() => dialled.destroy(new Error('No connection in time')), connectMs);
      const onError = (error: Error): void => {
        clearTimeout(late);
        callback(error, null);
      };
      const onClose = (): void => onError(new Error('Closed before it was open'));
      const onOpen = (): void => {
        clearTimeout(late);
        state = 'open';
        dialled.off('error', onError).off('close', onClose);
        dialled.once('error', (error) => {
          isReset = 'code' in error && error.code === 'ECONNRESET';
        });
        callback(null, dialled);
      };
      if (isTls) {
        dialled.once('connect', () => {
          state = 'shaking hands';
        });
      }
      dialled.once('error', onError).once('close', onClose);
      dialled.once(isTls ? 'secureConnect' : 'connect', onOpen);
    },
    problem() {
      if (state === 'open') return null;
      return state === 'dialling'
        ? 'no connection to the host'
        : 'TLS failed, or the certificate is not valid for the host';
    },
    wasReset: () => isReset,
    abandon() {
      if (state !== 'open') socket?.destroy();
    },
  };
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
