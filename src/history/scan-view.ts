// A scan as it is shown: a row of the history and all that is known of a scan, on the dashboard and in the public API, with the name of its key.
// The OpenAPI document is made of the same.
import { z } from 'zod';
import { extensionOf } from '../filename.js';
import { parseUrl, WireTime, wireTime } from '../wire-text.js';
import type { SeenPendingScan } from './pending-scans.js';
import { protocols, type ScanRow, timeOfId } from './scan-row.js';
import type { HistoryRow, ScanDetail } from './stats.js';

export const Row = z
  .object({
    id: z.uuid().describe("The scan's X-Scan-Id."),
    filename: z.string().describe('Empty when the request was refused before a name was read.'),
    scanDurationMillis: z.int().describe('0 when the engine never looked.'),
    infected: z.boolean().describe('Whether a signature matched. False means clean only with status 200.'),
    virusName: z.string().nullable(),
    protocol: z.enum(protocols).describe('By what it has come. The status is that of HTTP, whatever the protocol.'),
    env: z.string(),
    status: z.string().describe('The status of the answer; 499: the client went away before there was one.'),
    error: z.string().nullable().describe('Null with status 200.'),
    notices: z.array(z.string()).describe('What was said beside the verdict: the words of `X-Scan-Notice`.'),
    creationDate: WireTime.describe('When the scan was admitted, in UTC.'),
    lastUpdate: WireTime.describe('When it was decided, in UTC.'),
    key: z
      .object({ uuid: z.guid(), name: z.string() })
      .nullable()
      .describe('That it was asked for with, also when it has ended; null: none, but a signed-in user.'),
    url: z
      .string()
      .nullable()
      .describe('That it was of, without credentials, cut after 2,048 characters; null for an upload.'),
  })
  .meta({ id: 'HistoryRow' });

/** Names of keys by their ids. */
type KeyNames = ReadonlyMap<string, string>;

export function wireRow(row: HistoryRow, names: KeyNames): z.infer<typeof Row> {
  const name = row.key_id === null ? undefined : names.get(row.key_id);
  return {
    id: row.id,
    filename: row.filename,
    scanDurationMillis: row.duration_ms,
    infected: row.infected,
    virusName: row.virus_name,
    protocol: row.protocol,
    env: row.env,
    status: String(row.status),
    error: row.error,
    notices: [...row.notices],
    creationDate: wireTime(row.creation_date),
    lastUpdate: wireTime(row.last_update),
    key: row.key_id === null || name === undefined ? null : { uuid: row.key_id, name },
    url: row.url,
  };
}

/** A row on its way to the database, as it will be there. */
export function detailOf(row: ScanRow): ScanDetail {
  return {
    id: row.id,
    filename: row.filename,
    duration_ms: row.durationMs,
    infected: row.virusName !== null,
    virus_name: row.virusName,
    protocol: row.protocol,
    env: row.env,
    status: row.status,
    error: row.error,
    notices: row.notices,
    creation_date: new Date(timeOfId(row.id)),
    last_update: new Date(row.lastUpdateMs),
    engine: row.engine,
    size_bytes: row.sizeBytes,
    sha256: row.sha256,
    detected_type: row.detectedType,
    key_id: row.keyId,
    metadata: row.metadata,
    url: row.url,
    signatures: row.signatures,
  };
}

/** The row with what is known of its content and of what has looked at it. */
export const Detail = Row.extend({
  infected: z
    .boolean()
    .nullable()
    .describe('Whether a signature matched; null when there is no verdict, as status and error say.'),
  sizeInBytes: z.int().min(0).nullable().describe('Of the content; null when it never was there as a whole.'),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .nullable()
    .describe('Of the content; null when it never was there as a whole.'),
  detectedType: z
    .string()
    .nullable()
    .describe(
      "What ClamAV says the content is, by its own name such as `CL_TYPE_PDF`; null when ClamAV hasn't looked, can't say, or the scan is older than this field.",
    ),
  engine: z
    .string()
    .nullable()
    .describe('What has looked, such as `clamav/1.4.6`; null when nothing has looked at all of it.'),
  signatures: z
    .string()
    .nullable()
    .describe(
      'Their version, such as `daily:27000`; null when nothing has looked at all of it, or the scan is older than this field.',
    ),
  metadata: z.string().nullable().describe('What the client has said of the scan.'),
}).meta({ id: 'HistoryScan' });

export function wireDetail(row: ScanDetail, names: KeyNames): z.infer<typeof Detail> {
  const { size_bytes: sizeInBytes, sha256, detected_type: detectedType, engine, signatures, metadata } = row;
  const infected = row.status === 200 ? row.infected : null;
  return { ...wireRow(row, names), infected, sizeInBytes, sha256, detectedType, engine, signatures, metadata };
}

/** The status of a scan with a verdict. */
export const OK = 200;
/** Of one that was accepted and has not ended. */
const ACCEPTED = 202;

export type ScanView = z.infer<typeof ScanView>;
export const ScanView = z
  .object({
    id: Detail.shape.id,
    state: z
      .enum(['queued', 'running', 'completed', 'failed'])
      .describe(
        '`queued`: accepted, and on its way to a scan thread. `running`: on one. `completed`: there is a verdict. `failed`: there is none, as status and error say.',
      ),
    filename: Detail.shape.filename,
    extension: z.string().describe('After the last dot of the filename.'),
    sizeInBytes: Detail.shape.sizeInBytes,
    sha256: Detail.shape.sha256,
    detectedType: Detail.shape.detectedType,
    scanDurationMillis: Detail.shape.scanDurationMillis,
    infected: Detail.shape.infected,
    virusName: Detail.shape.virusName,
    status: Detail.shape.status,
    error: Detail.shape.error,
    notices: Detail.shape.notices,
    engine: Detail.shape.engine,
    signatures: Detail.shape.signatures,
    key: Detail.shape.key,
    url: Detail.shape.url,
    metadata: Detail.shape.metadata,
    protocol: Detail.shape.protocol,
    creationDate: Detail.shape.creationDate,
    lastUpdate: Detail.shape.lastUpdate,
  })
  .meta({ id: 'Scan' });

/** A URL without a path is called by its host, which has no extension. */
function isHost({ filename, url }: ScanDetail): boolean {
  return url !== null && parseUrl(url)?.hostname === filename;
}

function stateOf({ status, pending }: ShownScan): ScanView['state'] {
  return pending ?? (status === OK ? 'completed' : 'failed');
}

/** A scan of the history, or one that has not ended. */
export interface ShownScan extends ScanDetail {
  readonly pending?: 'queued' | 'running';
}

/** Of a scan that was accepted and has not ended. */
export function pendingDetail(scan: SeenPendingScan): ShownScan {
  const { id, filename, env, state, sizeBytes, sha256, keyId, metadata, url } = scan;
  const accepted = new Date(timeOfId(id));
  return {
    ...{ id, filename, env, sha256, metadata, url },
    duration_ms: 0,
    infected: false,
    virus_name: null,
    protocol: 'http',
    status: ACCEPTED,
    error: null,
    notices: [],
    creation_date: accepted,
    last_update: accepted,
    engine: null,
    size_bytes: sizeBytes,
    detected_type: null,
    key_id: keyId,
    signatures: null,
    pending: state,
  };
}

export function scanView(scan: ShownScan, names: KeyNames): ScanView {
  const { env: _, ...detail } = wireDetail(scan, names);
  return {
    ...detail,
    state: stateOf(scan),
    extension: isHost(scan) ? '' : extensionOf(scan.filename),
  };
}
