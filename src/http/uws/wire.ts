// uWebSockets.js as an HTTP library, and sole loader of its packages: its requests as wires, and its sockets. None is on npm by its authors: what is there are repacks of
// their binaries.
import { existsSync, readFileSync } from 'node:fs';
import { STATUS_CODES } from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { messageOfError } from '../../error-text.js';
import { HTTP_HEADER_BLOCK_BYTES } from '../../limits.js';
import { fetchedUwsDirectory, installedUwsDirectory } from '../../paths.js';
import { type Accepting, type LibrarySocket, startAccepting } from '../acceptor.js';
import { canGuardSweeps, guardSweeps } from '../connections.js';
import {
  type AnswerHead,
  type HttpLibrary,
  joined,
  type Listening,
  type ListenOptions,
  type RequestHead,
  USUAL_HEADERS,
  type Wire,
  type WireOwner,
  wholeText,
} from '../wire.js';

const NOTHING = new Uint8Array();
/** In which the library gathers what is written inside of its run. */
const CORK_BYTES = 16 * 1024;
const UNGUARDED =
  'it has no timer that we know: after a standstill it ends kept connections whose next request has arrived unread';

class UwsWire implements Wire {
  readonly head: RequestHead;
  readonly #response: UwsResponse;
  #owner: WireOwner | null = null;
  /** Of an answer all of which was sent but its last byte. */
  #body: Uint8Array = NOTHING;
  /** The connection ends with an answer in pieces. */
  #closes = false;

  /** To be called before the library's handler returns. */
  constructor(response: UwsResponse, request: UwsRequest) {
    request.forEach(addHeader);
    const headers = HEADERS.splice(0);
    const method = request.getCaseSensitiveMethod();
    // HTTP/1.0 never gets here.
    this.head = { method, path: request.getUrl(), query: request.getQuery() ?? '', version: '1.1', headers };
    this.#response = response;
  }

  open(owner: WireOwner, hasBody: boolean): void {
    this.#owner = owner;
    this.#response.onAborted(() => owner.onEnd(false));
    if (hasBody) this.#response.onData((chunk, isLast) => owner.onBytes(Buffer.from(chunk), isLast));
  }

  remoteAddress(): string {
    return addressOf(this.#response);
  }

  pause(): void {
    this.#response.pause();
  }

  resume(): void {
    this.#response.resume();
  }

  answer(head: AnswerHead, body: string | Uint8Array, closes: boolean): void {
    const response = this.#response;
    let isWhole = closes;
    response.cork(() => {
      writeHead(response, head);
      if (closes) response.end(body, true);
      else [, isWhole] = response.tryEnd(body, Buffer.byteLength(body));
    });
    if (isWhole) this.#owner?.onEnd(true);
    else this.#sendRest(typeof body === 'string' ? Buffer.from(body) : body);
  }

  /** Goes on as the client takes it; the library ends a connection that takes nothing for ten seconds. */
  #sendRest(body: Uint8Array): void {
    const response = this.#response;
    response.onWritable((offset) => {
      const [hasRoom, isLast] = response.tryEnd(body.subarray(offset), body.length);
      if (isLast) this.#owner?.onEnd(true);
      return hasRoom;
    });
  }

  answerWithoutBody(head: AnswerHead, lengthBytes: number | null, closes: boolean): void {
    const response = this.#response;
    let isTaken = true;
    response.cork(() => {
      writeHead(response, head);
      // With a length of its own the library never ends the answer, and drops what is asked next over the connection.
      if (closes) response.endWithoutBody(lengthBytes ?? 0, true);
      else if (lengthBytes === null) response.endWithoutBody();
      else {
        // Only this says whether the client has taken what was sent before.
        const [hasRoom, isOver] = response.tryEnd(NOTHING, lengthBytes);
        isTaken = hasRoom || isOver;
        if (isTaken && !isOver) response.end();
      }
    });
    if (isTaken) {
      this.#owner?.onEnd(true);
      return;
    }
    response.onWritable(() => {
      const [hasRoom] = response.tryEnd(NOTHING, lengthBytes ?? 0);
      if (!hasRoom) return false;
      response.end();
      this.#owner?.onEnd(true);
      return true;
    });
  }

  answerButOneByte(head: AnswerHead, body: Uint8Array): void {
    const response = this.#response;
    this.#body = body;
    response.cork(() => {
      writeHead(response, head);
      response.tryEnd(body.subarray(0, -1), body.length);
    });
  }

  answerRest(): void {
    const response = this.#response;
    const body = this.#body;
    let isWhole = false;
    response.cork(() => {
      [, isWhole] = response.tryEnd(body.subarray(response.getWriteOffset()), body.length);
    });
    if (isWhole) this.#owner?.onEnd(true);
    else this.#sendRest(body);
  }

  beginPieces(head: AnswerHead, closes: boolean): void {
    const response = this.#response;
    this.#closes = closes;
    response.cork(() => writeHead(response, head));
    response.onWritable(() => {
      this.#owner?.onRoom();
      return true;
    });
  }

  writePiece(piece: string): boolean {
    let hasRoom = true;
    this.#response.cork(() => {
      hasRoom = this.#response.write(piece);
    });
    return hasRoom;
  }

  endPieces(): void {
    this.#response.cork(() => this.#response.end(undefined, this.#closes));
    this.#owner?.onEnd(true);
  }

  abort(): void {
    this.#response.close();
  }

  answerAndAbort(head: AnswerHead, body: string): void {
    const response = this.#response;
    // As the text of a status, whose line the library ends: an answer that it knows of would let it go on with what it has read. What its buffer has no room
    // for is sent at once.
    const text = wholeText(head, `${body.padEnd(CORK_BYTES)}\r\n`);
    response.writeStatus(text.slice(0, -2));
    response.close();
  }
}

/** Room for status and headers of nearly all answers. */
const HEAD = Buffer.alloc(4 * 1024);
/** Its beginnings, by their lengths: views that are made once. */
const HEADS = new Array<Buffer | undefined>(HEAD.length + 1);
const OK = 200;
const USUAL_OK = joined(['200 OK', ...USUAL_HEADERS]);
const CR = 13;
const LF = 10;
const COLON = 58;
const SPACE = 32;
const ASCII_MAX = 0x7f;

/**
 * Status and headers with one call, since each text that crosses to the library costs as much as all of them behind each other. They are put together in
 * place: joined as texts they would leave some KB behind.
 */
function writeHead(response: UwsResponse, { status, isUsual, headers }: AnswerHead): void {
  const isReady = isUsual && status === OK;
  const start = isReady ? USUAL_OK : `${status} ${STATUS_CODES[status] ?? 'Unknown'}`;
  const texts = isUsual && !isReady ? [...USUAL_HEADERS, ...headers] : headers;
  let at = HEAD.write(start, 'latin1');
  let codes = 0;
  for (let index = 0; index < texts.length; index += 1) {
    const text = texts[index] ?? '';
    const isName = index % 2 === 0;
    HEAD[at] = isName ? CR : COLON;
    HEAD[at + 1] = isName ? LF : SPACE;
    at += 2;
    for (let character = 0; character < text.length; character += 1) {
      const code = text.charCodeAt(character);
      codes |= code;
      HEAD[at] = code;
      at += 1;
    }
  }
  if (at > HEAD.length || codes > ASCII_MAX) {
    response.writeStatus(joined([start, ...texts]));
    return;
  }
  const head = HEADS[at] ?? HEAD.subarray(0, at);
  HEADS[at] = head;
  response.writeStatus(head);
}

/** Of the request that is read now. */
const HEADERS: string[] = [];
const addHeader = HEADERS.push.bind(HEADERS);

const addressOf = (response: UwsResponse): string => Buffer.from(response.getRemoteAddressAsText()).toString('latin1');

export function uwsLibrary({ library, title }: LoadedUws): HttpLibrary {
  return { name: 'uws', title, standsInFor: null, listen: (options) => listen(library, options) };
}

async function listen(library: UwsModule, { onRequest, ...options }: ListenOptions): Promise<Listening> {
  const app = library.App();
  /** Null: nobody can connect yet. */
  let accepting: Accepting | null = null;
  const onConnection = (response: UwsResponse, change: number): void => {
    if (change < 0) accepting?.closed();
    else if (accepting?.opened(() => addressOf(response)) === false) response.close();
  };
  app.filter(onConnection);
  app.any('/*', (response, request) => onRequest(new UwsWire(response, request)));
  const isUnguarded = canGuardSweeps() && !guardSweeps();
  accepting = await startAccepting({
    ...options,
    listen: async (host, port) => openSocket(library, app, { host, port }),
    adopt: (descriptor) => void app.adoptSocket(descriptor),
  });
  return {
    accepting,
    problem: isUnguarded ? UNGUARDED : null,
    close() {
      app.close();
    },
  };
}

/** Null: it could not listen. */
function openSocket(library: UwsModule, app: UwsApp, at: { host: string; port: number }): LibrarySocket | null {
  const opened: UwsListenSocket[] = [];
  app.listen(at.host, at.port, (socket) => {
    if (socket !== false) opened.push(socket);
  });
  const [socket] = opened;
  if (socket === undefined) return null;
  return {
    port: () => library.us_socket_local_port(socket),
    close: () => library.us_listen_socket_close(socket),
  };
}

export interface LoadedUws {
  readonly library: UwsModule;
  /** Its package, with the version. */
  readonly title: string;
}

interface Candidate {
  readonly directory: string;
  readonly specifier: string;
}

/** An operator's own build is installed by the name of the first one and wins; the second one is for Nodes that the first has none for. */
const candidates: readonly Candidate[] = [
  { directory: installedUwsDirectory, specifier: 'uWebSockets.js' },
  { directory: fetchedUwsDirectory, specifier: pathToFileURL(join(fetchedUwsDirectory, 'uws.js')).href },
];

const descriptionShape = z.object({ name: z.string(), version: z.string() });

/** Resolves with the first that loads, or with what is wrong with each. */
export async function loadUws(
  from: readonly Candidate[] = candidates,
): Promise<LoadedUws | { readonly problems: readonly string[] }> {
  // Read by the library when it is loaded.
  process.env['UWS_HTTP_MAX_HEADERS_SIZE'] = String(HTTP_HEADER_BLOCK_BYTES);
  const problems: string[] = [];
  for (const { directory, specifier } of from) {
    if (!existsSync(directory)) continue;
    const title = titleOf(directory);
    try {
      const imported: unknown = await import(specifier);
      return { library: readModule(imported), title: `uWebSockets.js (${title})` };
    } catch (error) {
      problems.push(`${title}: ${messageOf(error)}`);
    }
  }
  return { problems };
}

/** Builds come as modules of both kinds. Throws when it is something else. */
function readModule(imported: unknown): UwsModule {
  const inner = typeof imported === 'object' && imported !== null && 'default' in imported ? imported.default : null;
  const found = [imported, inner].find(isModule);
  if (found === undefined) throw new Error('it is not uWebSockets.js');
  const app = found.App();
  const canAdopt = 'adoptSocket' in app;
  app.close();
  if (!canAdopt) throw new Error('it has no adoptSocket: it is too old');
  return found;
}

function isModule(value: unknown): value is UwsModule {
  if (typeof value !== 'object' || value === null) return false;
  const names = ['App', 'us_listen_socket_close', 'us_socket_local_port'];
  return names.every((name) => name in value && typeof Reflect.get(value, name) === 'function');
}

function titleOf(directory: string): string {
  const { name, version } = descriptionShape.parse(JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')));
  return `${name} ${version}`;
}

/** The packages' own words, which end in the system's: only these differ. */
function messageOf(error: unknown): string {
  // Node says behind it which module wanted one that is missing.
  const [words = ''] = messageOfError(error).split('\nRequire stack:');
  const lines = words.split('\n');
  return lines.findLast((line) => line.trim() !== '') ?? '';
}

/** https://unetworking.github.io/uWebSockets.js/generated/interfaces/HttpResponse.html; nothing may be called on a dead one. */
export interface UwsResponse {
  /** Headers may follow the status. */
  writeStatus(status: string | Uint8Array): UwsResponse;
  writeHeader(name: string, value: string): UwsResponse;
  /** False: what was written waits in memory. */
  write(chunk: string): boolean;
  /** Sends as much as there is room for. */
  tryEnd(rest: string | Uint8Array, totalBytes: number): [sent: boolean, done: boolean];
  end(body?: string | Uint8Array, closes?: boolean): UwsResponse;
  /** With a length it doesn't end the answer unless it closes; with `undefined` for one it makes one up. */
  endWithoutBody(...reported: [] | [lengthBytes: number, closes: true]): UwsResponse;
  /** Of the body, in bytes. */
  getWriteOffset(): number;
  close(): UwsResponse;
  pause(): void;
  resume(): void;
  /** What is written inside goes out in one packet. */
  cork(write: () => void): UwsResponse;
  onWritable(listener: (offset: number) => boolean): UwsResponse;
  onAborted(listener: () => void): UwsResponse;
  /** The chunk's memory is gone when the listener returns. */
  onData(listener: (chunk: ArrayBuffer, isLast: boolean) => void): UwsResponse;
  getRemoteAddressAsText(): ArrayBuffer;
}

/** Gone when the handler returns. */
export interface UwsRequest {
  getCaseSensitiveMethod(): string;
  getUrl(): string;
  getQuery(): string | undefined;
  forEach(each: (name: string, value: string) => void): void;
}

/** Opaque. */
export type UwsListenSocket = object;

export interface UwsApp {
  any(pattern: string, handler: (response: UwsResponse, request: UwsRequest) => void): UwsApp;
  /** Called with 1 for each connection that opens, and with -1 for each that closes. */
  filter(handler: (response: UwsResponse, change: number) => void): UwsApp;
  /** Calls back before it returns. */
  listen(host: string, port: number, listening: (socket: UwsListenSocket | false) => void): UwsApp;
  /** Takes a connection that was accepted, by its descriptor. */
  adoptSocket(descriptor: number): UwsApp;
  close(): UwsApp;
}

export interface UwsModule {
  App(): UwsApp;
  us_listen_socket_close(socket: UwsListenSocket): void;
  us_socket_local_port(socket: UwsListenSocket): number;
}
