// Traces as OpenTelemetry has them: a tree of spans for each scan, made of the times of its stages when it has ended. The official SDK is loaded only where traces are asked for.
import type { Config } from '../config/config.js';
import { messageOfError } from '../error-text.js';
import { type EventLog, seldom } from '../log.js';
import type { EndedScan, ScanTraces, Stage, StageTimes } from '../scan/scan-facts.js';
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

/** Null: nobody has asked for any. Who gets them, which ones, and what they are called, is for the SDK's own variables (OTEL_...). */
export async function openTraces(
  config: Pick<Config, 'otlpEndpoint' | 'otlpTracesEndpoint' | 'isOtelDisabled'>,
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
  const detected = resources.detectResources({ detectors: [resources.envDetector] });
  const provider = new BasicTracerProvider({
    resource: resources
      .resourceFromAttributes({ 'service.name': 'sluice', 'service.version': version })
      .merge(detected),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  });
  const tracer = provider.getTracer('sluice', version);
  const propagator = new core.W3CTraceContextPropagator();

  function parentOf({ parent }: StageTimes): ReturnType<typeof propagator.extract> {
    if (parent === null) return api.ROOT_CONTEXT;
    return propagator.extract(api.ROOT_CONTEXT, { traceparent: parent }, api.defaultTextMapGetter);
  }

  // Sends what waits, within the SDK's time.
  add({ stop: () => provider.shutdown().catch(() => undefined) });
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
