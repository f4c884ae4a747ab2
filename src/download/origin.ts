// One request to an origin with undici, over a connection of its own to addresses that were checked.
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { buildConnector, Dispatcher } from 'undici';
import { codeOf } from '../error-text.js';
import { Failure, Unavailable } from '../errors.js';
import { undici } from '../http/fetch.js';
import {
  ORIGIN_ADDRESSES_DIALLED,
  ORIGIN_AROUND_BYTES,
  ORIGIN_CONNECT_MS,
  ORIGIN_HEADER_BYTES,
  ORIGIN_HEADERS_MS,
  ORIGIN_IDLE_MS,
} from '../limits.js';
import { processAddon } from '../process-addon.js';
import { createClock } from '../waiting/within.js';

interface DialTarget {
  readonly address: string;
  readonly port: number;
}

export interface OriginOptions {
  readonly userAgent: string;
  readonly connectMs?: number;
  readonly headersMs?: number;
  readonly idleMs?: number;
  /** Where a checked address is dialled. Default: at that address. A test has no public addresses, and puts its own origin in their place. */
  readonly redial?: (target: DialTarget) => DialTarget;
}

interface OriginRequest {
  readonly url: URL;
  /** At least one; all of them have passed the guard, and nothing else is dialled. */
  readonly addresses: readonly string[];
  readonly signal: AbortSignal;
  /** To be sent with a POST; null: a GET. */
  readonly message: OriginMessage | null;
}

export interface OriginMessage {
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export type ByteSink = (bytes: Uint8Array) => void;

export interface OriginResponse extends Pick<ReturnType<typeof createReception>, 'receive' | 'hold' | 'goOn'> {
  readonly status: number;
  /** The one value of a header; null when it is absent or repeated. */
  header(name: string): string | null;
  /** The members of a header that is a list, in lower case; of all headers of that name. */
  list(name: string): readonly string[];
  close(): void;
}

/**
 * Sends a GET, or a POST, and resolves with the response once its headers are there. Rejects with Failure `downloadFailed` or `unavailable`, with the
 * signal's reason when it aborts. The connection serves this request only: a kept one would skip the next check.
 */
export async function requestOrigin(request: OriginRequest, options: OriginOptions): Promise<OriginResponse> {
  const { signal } = request;
  const connection = openConnection(request, options);
  const client = openClient(request, connection);
  return await new Promise((resolve, reject) => {
    const reception = createReception(connection, options.idleMs ?? ORIGIN_IDLE_MS, abort);
    let controller: Dispatcher.DispatchController | null = null;
    let isBegun = false;
    const late = createClock(options.headersMs ?? ORIGIN_HEADERS_MS, () =>
      abort(new Failure('downloadFailed', TOO_SLOW)),
    );

    function end(error: unknown): void {
      late.stop();
      reception.end(error);
      // Nothing but the first settlement counts: after the headers this one is too late, and the reception has it.
      reject(error);
    }
    function abort(error: unknown): void {
      end(error);
      controller?.abort(new Error('Aborted'));
      // undici knows nothing of a connection that doesn't stand yet.
      connection.abandon();
    }
    const onAbort = (): void => abort(signal.reason);
    function close(): void {
      signal.removeEventListener('abort', onAbort);
      reception.end(new Error('Closed'));
      client.destroy().catch(() => undefined);
      connection.abandon();
    }
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort);
    connection.whenFlooded(() => abort(new Failure('downloadFailed', NOT_HTTP)));

    // The handler rather than a stream: a stream that isn't read stops undici's parser. If the origin ends its connection
    // just then, an assertion fails that nobody can catch (nodejs/undici#5360).
    client.dispatch(sentOf(request, options), {
      onRequestStart(started) {
        controller = started;
        late.start();
      },
      onResponseStart(_controller, status, headers) {
        // 1xx comes before the response (RFC 9110 section 15.2).
        if (status < 200) return;
        isBegun = true;
        late.stop();
        connection.hold();
        const { receive, hold, goOn } = reception;
        resolve({
          status,
          header: (name) => single(headers[name]),
          list: (name) => membersOf(headers[name]),
          receive,
          hold,
          goOn,
          close,
        });
      },
      onResponseData: (_controller, bytes) => reception.take(bytes),
      onResponseEnd: () => reception.end(null),
      onResponseError(_controller, error) {
        end(connection.problem() ?? new Failure('downloadFailed', reasonOf(error, isBegun)));
        close();
      },
    });
  });
}

function openClient({ url }: OriginRequest, { connect }: OriginConnection) {
  const { Client } = loaded();
  return new Client(url.origin, {
    connect,
    // No pipelining, no keep-alive: the request says `Connection: close`.
    pipelining: 0,
    maxHeaderSize: ORIGIN_HEADER_BYTES,
    // There are clocks of our own: these begin anew with a 1xx, and run on while we don't read.
    headersTimeout: 0,
    bodyTimeout: 0,
    allowH2: false,
  });
}

function loaded(): ReturnType<typeof undici> {
  try {
    return undici();
  } catch (error) {
    throw lackOf(error) ?? error;
  }
}

/** Nothing of the client's, no cookies, no Referer. */
function sentOf({ url, message }: OriginRequest, { userAgent }: OriginOptions): Dispatcher.DispatchOptions {
  return {
    method: message === null ? 'GET' : 'POST',
    path: url.pathname + url.search,
    headers: {
      'user-agent': userAgent,
      accept: '*/*',
      'accept-encoding': 'identity',
      ...(message?.headers ?? {}),
    },
    body: message?.body ?? null,
  };
}

/** One body on its way: what came with the headers waits for the sink, and nothing else is read before there is one. */
function createReception(connection: OriginConnection, idleMs: number, abort: (error: unknown) => void) {
  const early: Uint8Array[] = [];
  let sink: ByteSink = (bytes) => early.push(bytes.slice());
  let ended: { readonly error: unknown } | null = null;
  let settle: () => void = () => undefined;
  const idle = createClock(idleMs, () => abort(new Failure('downloadFailed', TOO_SLOW)));
  let isHeld = false;

  /** Reads on; an origin that is silent then is too slow. */
  function read(): void {
    if (ended !== null || isHeld) return;
    idle.start();
    connection.release();
  }

  /** The body is whole (null), or won't be. Only the first end counts. */
  function end(error: unknown): void {
    if (ended !== null) return;
    ended = { error };
    idle.stop();
    settle();
  }

  /** Takes the next bytes of the body, which are not kept: their memory is undici's. */
  function take(bytes: Uint8Array): void {
    if (ended !== null) return;
    connection.onBody(bytes.length);
    idle.renew();
    try {
      sink(bytes);
    } catch (error) {
      abort(error);
    }
  }

  return {
    take,
    end,
    /**
     * Hands on the body's bytes as they come over the wire; until then the connection isn't read. Rejects with a Failure when
     * they end before their end, with what the sink throws, with the signal's reason.
     */
    receive: (into: ByteSink) =>
      new Promise<void>((resolve, reject) => {
        const whole = ended;
        sink = into;
        ended = null;
        settle = () => {
          if (ended === null) return;
          if (ended.error === null) resolve();
          else reject(ended.error);
        };
        for (const bytes of early.splice(0)) take(bytes);
        if (whole !== null) return end(whole.error);
        read();
      }),
    /** Leaves what arrives with the kernel, because the sink has no room now; what was read already is still handed on. */
    hold(): void {
      isHeld = true;
      idle.stop();
      if (ended === null) connection.hold();
    },
    goOn(): void {
      isHeld = false;
      idle.renew();
      // Later: memory comes back while another download is inside undici's parser, of which only one may run at a time.
      setImmediate(read);
    },
  };
}

const single = (value: string | string[] | undefined): string | null => (typeof value === 'string' ? value : null);

function membersOf(value: string | string[] | undefined): readonly string[] {
  const members = [value ?? []].flat().flatMap((each) => each.split(','));
  return members.map((member) => member.trim().toLowerCase()).filter((member) => member !== '');
}

type OriginConnection = ReturnType<typeof openConnection>;

function openConnection(request: OriginRequest, options: OriginOptions) {
  const { connectMs = ORIGIN_CONNECT_MS } = options;
  const isTls = request.url.protocol === 'https:';
  const dial = createDialler(request, options);
  let state: 'dialling' | 'shaking hands' | 'open' = 'dialling';
  let socket: Socket | null = null;
  let cause: Error | null = null;
  const pieces = new Pieces();

  return {
    connect(_options: buildConnector.Options, callback: buildConnector.Callback): void {
      const dialled = dial();
      socket = dialled;
      pieces.comeFrom(dialled);
      dialled.on('error', disguiseReset);
      const settle = (error: Error | null): void => {
        late.stop();
        dialled.off('error', settle).off('close', onClose);
        if (error === null) {
          state = 'open';
          callback(null, dialled);
        } else {
          cause = error;
          callback(error, null);
        }
      };
      const onClose = (): void => settle(new Error('Closed before it was open'));
      const late = createClock(connectMs, () => dialled.destroy(new Error('No connection in time')));
      late.start();
      dialled.on('error', settle).on('close', onClose);
      if (isTls) {
        dialled.once('connect', () => {
          state = 'shaking hands';
        });
      }
      dialled.once(isTls ? 'secureConnect' : 'connect', () => settle(null));
    },
    /** Why there is none; null when it stands. */
    problem(): Failure | null {
      if (state === 'open') return null;
      return lackOf(cause) ?? new Failure('downloadFailed', state === 'dialling' ? NO_CONNECTION : NO_TLS);
    },
    /** Ends it while it is being made, which undici leaves to its timeout. */
    abandon(): void {
      if (state !== 'open') socket?.destroy();
    },
    /** So many bytes of the body have come, of what was read last. */
    onBody: (bytes: number): void => pieces.onBody(bytes),
    whenFlooded(onFlooded: () => void): void {
      pieces.onFlooded = onFlooded;
    },
    /** Shows undici no more of what arrives, which stays with the kernel then; its end isn't seen either. */
    hold(): void {
      pieces.isHeld = true;
    },
    release(): void {
      if (!pieces.isHeld) return;
      pieces.isHeld = false;
      socket?.emit('readable');
    },
  };
}

/** What brings no bytes of a body, however much of it comes, is left to the collector. */
const PIECES_KEPT = 16;

/** What undici reads, which it does when the socket says that it is readable, until there is nothing. */
class Pieces {
  isHeld = false;
  /** Far more comes around the body than it has itself: the serving thread would be busy with it for as long as the download may take. */
  onFlooded: () => void = () => undefined;
  /** Those that it may still refer to. */
  readonly #read: Buffer[] = [];
  /** Of what was read, less twice what was body of it. */
  #aroundBytes = 0;

  comeFrom(socket: Socket): void {
    const read = socket.read.bind(socket);
    socket.read = (size): Buffer | null => {
      if (this.#aroundBytes > ORIGIN_AROUND_BYTES) this.onFlooded();
      const piece: Buffer | null = this.isHeld ? null : read(size);
      if (piece === null) return null;
      this.#aroundBytes += piece.length;
      if (this.#read.push(piece) > PIECES_KEPT) this.#read.shift();
      return piece;
    };
  }

  /**
   * So many bytes of the body have come, of the last piece. Gives the memory back of what lies before: undici refers to pieces of a head, or of
   * trailers, until these are whole. V8 would collect its whole heap for every few megabytes of it.
   */
  onBody(bytes: number): void {
    this.#aroundBytes -= 2 * bytes;
    for (const piece of this.#read.splice(0, this.#read.length - 1)) {
      // A small one may share its memory with others.
      if (piece.length === piece.buffer.byteLength) processAddon()?.releaseMemory(piece);
    }
  }
}

/** Dials the checked addresses in turn, and nothing else: no name is looked up behind the guard. */
function createDialler(
  { url, addresses }: OriginRequest,
  { redial = (target) => target }: OriginOptions,
): () => Socket {
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
  const target = {
    // The lookup isn't asked about an address: that one is dialled as it is.
    host: isIP(name) === 0 ? name : first.address,
    port: first.port,
    lookup,
    autoSelectFamily: true,
    // Node's own is a quarter of a second: too little for the other side of the world.
    autoSelectFamilyAttemptTimeout: ADDRESS_TIMEOUT_MS,
    noDelay: true,
  };
  if (!isTls) return () => connectTcp(target);
  const tlsTarget = {
    ...target,
    // RFC 6066 section 3: a server name is a name; the certificate of an address is held against the host.
    ...(isIP(name) === 0 ? { servername: name } : {}),
    ALPNProtocols: ['http/1.1'],
    // Said here, so that NODE_TLS_REJECT_UNAUTHORIZED changes nothing.
    rejectUnauthorized: true,
  };
  return () => connectTls(tlsTarget);
}

/**
 * undici takes ECONNRESET for the end of a body that lasts until its connection ends: cut content would pass for whole. Under
 * another code it is an error like any other. This listener is the first, so that undici sees what it leaves.
 */
function disguiseReset(error: Error): void {
  if ('code' in error && error.code === 'ECONNRESET') error.code = 'CONNECTION_RESET';
}

const LACKS: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'ENOBUFS']);

/** What this machine has none of left says nothing of the origin. Null: it is something else. */
function lackOf(cause: unknown): Failure | null {
  return LACKS.has(codeOf(cause) ?? '') ? new Unavailable('downloadSlotsTaken', { cause }) : null;
}

/** A closed set of words: the messages of an operating system or a library contain addresses, ports and routes. */
function reasonOf(error: unknown, isBegun: boolean): string {
  const name = error instanceof Error ? error.name : '';
  // undici calls headers that its parser refuses so, too, where they have a length: no byte of a body has been read.
  const isRefused = name === 'ResponseContentLengthMismatchError' && !isBegun;
  return isRefused || name === 'HTTPParserError' || name === 'HeadersOverflowError' ? NOT_HTTP : LOST;
}

/** One address gets so long before the next one is dialled; the last one the rest of what the host has. */
const ADDRESS_TIMEOUT_MS = 1_500;
const NO_CONNECTION = 'no connection to the host';
const NO_TLS = 'TLS failed, or the certificate is not valid for the host';
const LOST = 'the connection was lost before the end of the response';
export const NOT_HTTP = 'the response is not valid HTTP';
export const TOO_SLOW = 'the origin took too long';
