// A scan as the public API shows it: all that is known of it, with the name of its key.
import { z } from 'zod';
import { extensionOf } from '../filename.js';
import { parseUrl } from '../wire-text.js';
import type { SeenPendingScan } from './pending-scans.js';
import { timeOfId } from './scan-row.js';
import type { ScanDetail } from './stats.js';
import { Detail, type KeyNames, wireDetail } from './wire-row.js';

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
