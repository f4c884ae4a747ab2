// The access log: a line for each HTTP request, when its answer is out or its client gone. In JSON, or in the common format of web servers.
import { constants, openSync } from 'node:fs';
import sonicBoom from 'sonic-boom';
import type { Config } from '../config/config.js';
import { messageOfError } from '../error-text.js';
import type { Exchange } from '../http/exchange.js';
import type { EndedRequest } from '../http/server.js';

interface Begun {
  readonly address: string;
  readonly atMs: number;
  /** As `performance.now()` has it: a clock that is set lengthens no request. */
  readonly startedMs: number;
  readonly agent: string | null;
}

/** nginx's status for a client that went away. */
const CLIENT_GONE = 499;
/** Bytes that wait for a reader that has stalled; what comes then is dropped. */
const BACKLOG_BYTES = 8 * 1024 * 1024;
const AGENT_CHARACTERS = 200;
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** Null: it is off. `addressOf`: where a request comes from. Throws where the file can't be written. */
export function openAccessLog(
  { accessLog: format, accessLogPath: path }: Pick<Config, 'accessLog' | 'accessLogPath'>,
  addressOf: (exchange: Exchange) => string,
) {
  if (format === 'off') return null;
  const fd = path === null ? process.stdout.fd : openToAppend(path);
  const stream = new sonicBoom.SonicBoom({ fd, sync: false, minLength: 1, maxLength: BACKLOG_BYTES });
  // A disk that is full or a reader that is gone keeps nobody from scanning.
  stream.on('error', () => undefined);
  const begun = new WeakMap<object, Begun>();
  return {
    /** To be called before anything of the request is waited for: its address goes with the connection. */
    begin(exchange: Exchange): void {
      const agent = exchange.headers.get('user-agent')?.slice(0, AGENT_CHARACTERS) ?? null;
      begun.set(exchange, { address: addressOf(exchange), atMs: Date.now(), startedMs: performance.now(), agent });
    },
    /** Status null: the client went away before its answer was out. */
    end(request: EndedRequest, status: number | null): void {
      const start = begun.get(request);
      if (start === undefined) return;
      stream.write(`${format === 'json' ? jsonLine(request, status, start) : commonLine(request, status, start)}\n`);
    },
    stop(): void {
      stream.end();
    },
  };
}

function openToAppend(path: string): number {
  try {
    // A pipe that nobody reads is refused, and not waited for.
    const { O_WRONLY, O_APPEND, O_CREAT, O_NONBLOCK } = constants;
    return openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK, 0o640);
  } catch (error) {
    throw new Error(`ACCESS_LOG_FILE can't be written: ${messageOfError(error)}`);
  }
}

/** A key may be deleted by its value, which then is in the path. */
const KEY_IN_PATH = /^(\/web\/keys\/)(?!me$).+/;

/** As logs may have it. */
export const pathWithoutKey = (path: string): string => path.replace(KEY_IN_PATH, '$1{uuid}');

function jsonLine(request: EndedRequest, status: number | null, { address, atMs, startedMs, agent }: Begun): string {
  const { method, path, route, requestId } = request;
  return JSON.stringify({
    time: new Date(atMs).toISOString(),
    address,
    method,
    path: pathWithoutKey(path),
    route,
    status: status ?? CLIENT_GONE,
    answerBytes: request.answerBytes(),
    millis: Math.round(performance.now() - startedMs),
    requestId,
    agent,
    msg: 'request',
  });
}

/** As of `%h %l %u %t "%r" %>s %b` of Apache. What could end a field is written as an escape. */
function commonLine(request: EndedRequest, status: number | null, { address, atMs }: Begun): string {
  const { method, path } = request;
  return `${address} - - [${commonTime(atMs)}] "${escaped(`${method} ${pathWithoutKey(path)}`)} HTTP/1.1" ${status ?? CLIENT_GONE} ${request.answerBytes() ?? '-'}`;
}

function escaped(text: string): string {
  return text.replace(/["\\]|[^\x20-\x7e]/g, (one) =>
    one === '"' || one === '\\' ? `\\${one}` : `\\x${one.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
}

/** `24/Nov/2026:09:30:00 +0000`. */
function commonTime(atMs: number): string {
  const [day = '', time = ''] = new Date(atMs).toISOString().split('T');
  const [year, month, date] = day.split('-');
  return `${date}/${MONTHS[Number(month) - 1]}/${year}:${time.slice(0, 8)} +0000`;
}
