// What is written down of requests and scans for others: traces as OpenTelemetry has them, a tree of spans for each scan, made of the times of its stages when it has ended
// (the official SDK is loaded only where traces are asked for); and the access log, a line for each HTTP request, when its answer is out or its client gone.

import { constants, openSync } from 'node:fs';
import sonicBoom from 'sonic-boom';
import type { Config } from '../config/config.js';
import { messageOfError } from '../error-text.js';
import type { Exchange } from '../http/exchange.js';
import type { EndedRequest } from '../http/server.js';
import { type EventLog, seldom } from '../log.js';
import type { EndedScan, ScanTraces, Stage, StageTimes } from '../scan/scan-facts.js';
import { endsWithin } from '../waiting/within.js';
import type { Add } from './parts.js';

/** A stage that isn't named is no span: the admission goes on beside others. */
const spanNames: Readonly<Partial<Record<Stage, string>>> = {
  receiving: 'receive',
  waitingForMemory: 'wait for memory',
  scanning: 'scan',
  recording: 'record',
  answered: 'answer',
};
const SERVER_ERROR = 500;
/** At a stop, for the collector to take what waits. */
const LAST_SPANS_MS = 2_000;

/** Null: nobody has asked for any. Who gets them, which ones, and what they are called, is for the SDK's own variables (OTEL_...). */
export async function openTraces(
  config: Pick<
    Config,
    'otlpEndpoint' | 'otlpTracesEndpoint' | 'isOtelDisabled' | 'traceQueueSpans' | 'traceBatchSpans'
  >,
  log: EventLog,
  version: string,
  add: Add,
): Promise<ScanTraces | null> {
  if (config.isOtelDisabled || (config.otlpEndpoint === null && config.otlpTracesEndpoint === null)) return null;
  const [api, { BasicTracerProvider, BatchSpanProcessor }, { OTLPTraceExporter }, resources, core] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace-base'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/resources'),
    import('@opentelemetry/core'),
  ]);
  const onProblem = seldom((reason) => log.warn({ reason }, 'traces are not sent'));
  core.setGlobalErrorHandler((error) => onProblem(messageOfError(error)));
  const sizes = { maxQueueSize: config.traceQueueSpans, maxExportBatchSize: config.traceBatchSpans };
  const detected = resources.detectResources({ detectors: [resources.envDetector] });
  const provider = new BasicTracerProvider({
    resource: resources
      .resourceFromAttributes({ 'service.name': 'sluice', 'service.version': version })
      .merge(detected),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter(), sizes)],
  });
  const tracer = provider.getTracer('sluice', version);
  const propagator = new core.W3CTraceContextPropagator();

  function parentOf({ parent }: StageTimes): ReturnType<typeof propagator.extract> {
    if (parent === null) return api.ROOT_CONTEXT;
    return propagator.extract(api.ROOT_CONTEXT, { traceparent: parent }, api.defaultTextMapGetter);
  }

  add({ stop: () => sendLast(provider, log) });
  return {
    ended(scan, times) {
      const endedMs = performance.now();
      const options = { kind: api.SpanKind.SERVER, startTime: wall(times.beganMs), attributes: attributesOf(scan) };
      const root = tracer.startSpan('scan', options, parentOf(times));
      const context = api.trace.setSpan(api.ROOT_CONTEXT, root);
      const span = (name: string, beganMs: number, untilMs: number): void =>
        tracer.startSpan(name, { startTime: wall(beganMs) }, context).end(wall(untilMs));
      if (times.admittedMs !== null) span('admit', times.beganMs, times.admittedMs);
      for (const [at, { stage, beganMs }] of times.stages.entries()) {
        const name = spanNames[stage];
        if (name === undefined) continue;
        const untilMs = times.stages[at + 1]?.beganMs ?? endedMs;
        if (stage !== 'scanning') {
          span(name, beganMs, untilMs);
          continue;
        }
        span('wait', beganMs, scan.turn === null ? untilMs : scan.begunMs);
        if (scan.turn === null) continue;
        span(name, scan.begunMs, untilMs);
        if (scan.secondLook === null) continue;
        // What the thread says counts from its own beginning.
        const within = (ms: number): number =>
          Math.min(Math.max(untilMs - scan.durationMs + ms, scan.begunMs), untilMs);
        span('second look', within(scan.secondLook.beganMs), within(scan.secondLook.endedMs));
      }
      if (scan.status >= SERVER_ERROR) root.setStatus({ code: api.SpanStatusCode.ERROR, message: scan.failure ?? '' });
      root.end(wall(endedMs));
    },
  };
}

/** The SDK by itself goes on for 10 seconds where the collector doesn't answer. */
async function sendLast(provider: { shutdown(): Promise<void> }, log: EventLog): Promise<void> {
  const isOver = await endsWithin(provider.shutdown(), LAST_SPANS_MS).catch(() => true);
  if (!isOver)
    log.warn({ afterMs: LAST_SPANS_MS }, 'the collector of traces has not answered: the last ones are not sent');
}

/** Milliseconds since 1970. */
const wall = (performanceMs: number): number => performance.timeOrigin + performanceMs;

/** Nothing of keys, names or contents. */
function attributesOf(scan: EndedScan): Record<string, string | number | boolean> {
  const { scanId, requestId, protocol, wholeBytes, virusName, failure, lookedBy, looked, status } = scan;
  const found = virusName === null ? {} : { 'sluice.virus_name': virusName };
  return {
    'sluice.scan_id': scanId ?? '',
    'sluice.request_id': requestId,
    'sluice.protocol': protocol,
    'sluice.bytes': wholeBytes ?? 0,
    'sluice.status': status,
    'sluice.outcome': failure ?? (virusName === null ? 'clean' : 'infected'),
    'sluice.cached': looked !== 'now',
    'sluice.engine': lookedBy?.label ?? '',
    ...found,
  };
}

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
