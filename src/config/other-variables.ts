// The rows of the table of variables for what is spoken beside HTTP, clamd's protocol and ICAP, and for the log, the access log and traces.
import { z } from 'zod';
import { bare, initially, integer, list, megabytes, network, optional, otherwise, path } from './values.js';

export const protocolTable = {
  clamdSocket: optional(
    'CLAMD_SOCKET',
    "path of a UNIX socket where clamd's protocol is spoken; needs CLAMD_ACCOUNT",
    bare.regex(/^\/[^\0]{1,106}$/, 'must be an absolute path of at most 107 characters'),
  ),
  clamdSocketMode: initially(
    'CLAMD_SOCKET_MODE',
    '660',
    'who may use that socket, as three octal digits',
    z
      .string()
      .regex(/^[0-7]{3}$/, 'must be three octal digits')
      .transform((text) => Number.parseInt(text, 8)),
  ),
  clamdSocketGroup: optional(
    'CLAMD_SOCKET_GROUP',
    'group that the socket is of, by its number or its name; the user of the service must be a member of it',
    z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/, 'must be a group'),
  ),
  clamdPort: optional(
    'CLAMD_PORT',
    "port where clamd's protocol is spoken, of 127.0.0.1 for every program of the machine; needs CLAMD_ACCOUNT",
    integer(1, 65_535),
  ),
  clamdAllowNetworks: otherwise(
    'CLAMD_ALLOW_NETWORKS',
    [],
    'networks whose machines may use CLAMD_PORT too, which is then of every address: 10.1.0.0/16,fd00::/8',
    list(network, 'must list networks like 10.0.0.0/8,fd00::/8'),
  ),
  clamdAccount: optional(
    'CLAMD_ACCOUNT',
    "e-mail address of the account that scans by clamd's protocol are counted and recorded for",
    z.email('must be an e-mail address'),
  ),
  clamdPaths: otherwise(
    'CLAMD_PATHS',
    [],
    "folders whose files clamd's SCAN, CONTSCAN, MULTISCAN and ALLMATCHSCAN may look at: /mnt/share,/srv/mail",
    list((entry) => (entry.startsWith('/') ? entry : undefined), 'must list absolute paths'),
  ),
  icapPort: optional(
    'ICAP_PORT',
    'port where ICAP is spoken, of 127.0.0.1 unless ICAP_ALLOW_NETWORKS is set; needs ICAP_ACCOUNT',
    integer(1, 65_535),
  ),
  icapAllowNetworks: otherwise(
    'ICAP_ALLOW_NETWORKS',
    [],
    'networks whose machines may connect to ICAP_PORT as well: 10.1.0.0/16,fd00::/8',
    list(network, 'must list networks like 10.0.0.0/8,fd00::/8'),
  ),
  icapAccount: optional(
    'ICAP_ACCOUNT',
    'e-mail address of the account that scans by ICAP are counted and recorded for',
    z.email('must be an e-mail address'),
  ),
  icapIncomplete: initially(
    'ICAP_INCOMPLETE',
    'block',
    'what becomes of a content that could not be looked at as a whole: block, or pass',
    z.enum(['block', 'pass']),
  ),
  icapBlockPage: optional(
    'ICAP_BLOCK_PAGE',
    'path of an HTML file that is shown in the place of what is blocked; {{title}}, {{reason}}, {{filename}} and {{requestId}} are filled in',
    bare.regex(/^\/[^\0]*$/, 'must be an absolute path'),
  ),
  streamMaxBytes: optional(
    'STREAM_MAX_MB',
    "MB that a content by clamd's protocol or ICAP may have, 10 to 1000, at most half of UPLOAD_MEMORY_MB and below SCAN_MAX_SIZE_MB; unset: 100, or a quarter of that memory",
    megabytes(10, 1_000),
  ),
};

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
    path,
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
  // Without room for one span the SDK sends requests with nothing in them, without an end.
  traceQueueSpans: initially(
    'OTEL_BSP_MAX_QUEUE_SIZE',
    '2048',
    'spans that may wait for the collector, 1 to 1000000; beyond they are dropped',
    integer(1, 1_000_000),
  ),
  traceBatchSpans: initially(
    'OTEL_BSP_MAX_EXPORT_BATCH_SIZE',
    '512',
    'spans of one request to the collector, 1 to 1000000',
    integer(1, 1_000_000),
  ),
};
