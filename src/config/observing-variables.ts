// The variables of the log, the access log and traces.
import { resolve } from 'node:path';
import { z } from 'zod';
import { initially, optional } from './values.js';

const collector = z.url({ protocol: /^https?$/, error: 'must be an http or https URL' });

export const observingTable = {
  logLevel: initially(
    'LOG_LEVEL',
    'info',
    'fatal, error, warn, info, debug, trace or silent',
    z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']),
  ),
  accessLog: initially(
    'ACCESS_LOG',
    'off',
    'a line for each HTTP request: json, or common as web servers have it; off',
    z.enum(['off', 'json', 'common']),
  ),
  accessLogPath: optional(
    'ACCESS_LOG_FILE',
    'file that these lines are appended to; unset: standard output, beside the log',
    z.string().transform((path) => resolve(path)),
  ),
  otlpEndpoint: optional(
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    'collector of OpenTelemetry that gets a trace of each scan (OTLP over HTTP, in JSON); unset: none are made. The other variables of OpenTelemetry count, too',
    collector,
  ),
  otlpTracesEndpoint: optional(
    'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    'the same with the path, for traces alone',
    collector,
  ),
  isOtelDisabled: initially(
    'OTEL_SDK_DISABLED',
    'false',
    'true: no traces, whatever is set',
    z.enum(['true', 'false']).transform((word) => word === 'true'),
  ),
};
