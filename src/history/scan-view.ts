// A scan as it is shown: a row of the history and all that is known of a scan, on the dashboard and in the public API, with the name of its key.
// The OpenAPI document is made of the same.
import { z } from 'zod';
import { extensionOf } from '../filename.js';
import { parseUrl, WireTime, wireTime } from '../wire-text.js';
import { rowWithoutVerdict, type SeenPendingScan } from './pending-scans.js';
import { Digest, protocols, type ScanRow, timeOfId } from './scan-row.js';

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

type KeyNames = ReadonlyMap<string, string>;

export function wireRow(row: ScanRow, names: KeyNames): z.infer<typeof Row> {
  const { id, filename, virusName, protocol, env, status, error, keyId, url } = row;
  const name = keyId === null ? undefined : names.get(keyId);
  return {
    ...{ id, filename, scanDurationMillis: row.durationMs, infected: virusName !== null, virusName, protocol, env },
    ...{ status: String(status), error, notices: [...row.notices] },
    creationDate: wireTime(timeOfId(id)),
    lastUpdate: wireTime(row.lastUpdateMs),
    key: keyId === null || name === undefined ? null : { uuid: keyId, name },
    url,
  };
}

export const Detail = Row.extend({
  infected: z
    .boolean()
    .nullable()
    .describe('Whether a signature matched; null when there is no verdict, as status and error say.'),
  sizeInBytes: z.int().min(0).nullable().describe('Of the content; null when it never was there as a whole.'),
  sha256: Digest.nullable().describe('Of the content; null when it never was there as a whole.'),
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

export function wireDetail(row: ScanRow, names: KeyNames): z.infer<typeof Detail> {
  const { sizeBytes: sizeInBytes, sha256, detectedType, engine, signatures, metadata } = row;
  const infected = row.status === OK ? row.virusName !== null : null;
  return { ...wireRow(row, names), infected, sizeInBytes, sha256, detectedType, engine, signatures, metadata };
}

/** The status of a scan with a verdict. */
export const OK = 200;
/** Of one that was accepted and has not ended. */
const ACCEPTED = 202;

export type ScanView = z.infer<typeof ScanView>;
/** In the order of the contract; what it doesn't name comes last. */
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
    ...Detail.pick({ sizeInBytes: true, sha256: true, detectedType: true }).shape,
    ...Detail.pick({ scanDurationMillis: true, infected: true, virusName: true }).shape,
    ...Detail.pick({ status: true, error: true, notices: true }).shape,
    ...Detail.pick({ engine: true, key: true, url: true, metadata: true }).shape,
    ...Detail.pick({ creationDate: true, lastUpdate: true }).shape,
    ...Detail.pick({ protocol: true, signatures: true }).shape,
  })
  .meta({ id: 'Scan' });

/** A URL without a path is called by its host, which has no extension. */
const isHost = ({ filename, url }: ScanRow): boolean => url !== null && parseUrl(url)?.hostname === filename;

/** A scan of the history, or one that has not ended. */
export interface ShownScan extends ScanRow {
  readonly pending?: 'queued' | 'running';
}

export function pendingRow(scan: SeenPendingScan): ShownScan {
  return { ...rowWithoutVerdict(scan, ACCEPTED, null, timeOfId(scan.id)), pending: scan.state };
}

export function scanView(scan: ShownScan, names: KeyNames): ScanView {
  const { id, filename, sizeInBytes, sha256, detectedType, ...detail } = wireDetail(scan, names);
  const { scanDurationMillis, infected, virusName, status, error, notices, engine, key, url, metadata } = detail;
  return {
    id,
    state: scan.pending ?? (scan.status === OK ? 'completed' : 'failed'),
    filename,
    extension: isHost(scan) ? '' : extensionOf(filename),
    ...{ sizeInBytes, sha256, detectedType, scanDurationMillis, infected, virusName, status, error, notices },
    ...{ engine, key, url, metadata, creationDate: detail.creationDate, lastUpdate: detail.lastUpdate },
    ...{ protocol: detail.protocol, signatures: detail.signatures },
  };
}
