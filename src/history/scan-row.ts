// One scan as the history knows it, and its form in the journal: JSON, read back only with all of its fields.
import { z } from 'zod';
import { METADATA_BYTES, URL_KEPT_CHARACTERS } from '../limits.js';
import { bareText, jsonName, jsonText } from '../wire-text.js';

export const protocols = ['http', 'clamd', 'icap'] as const;
export type Protocol = (typeof protocols)[number];

/** Characters of a text that are kept: a filename may have 255, messages of ours stay far below. Index entries need a bound. */
const TEXT_CHARACTERS = 255;
/** About 24 days; the column is a 32-bit integer. */
const DURATION_MAX_MS = 2_147_483_647;

/** A word: it is an element of an array of the database as it is. */
const NOTICE = /^[a-z][a-z0-9-]{0,63}$/;
const NOTICES_MAX = 16;

/** SHA-256. */
export const Digest = z.string().regex(/^[0-9a-f]{64}$/);
const text = z.string().max(2 * TEXT_CHARACTERS);
// Fields that a later version adds are left out: while versions change, an older process may have to replay a newer one's rows. Those with a default
// are not in rows of versions before them.
const rowShape = z.object({
  /** Its time is the creation date. */
  id: z.uuid({ version: 'v7' }),
  userId: z.guid(),
  /** Null: the scan was asked for without a key. */
  keyId: z.guid().nullable(),
  /** Empty when it never became known. */
  filename: text,
  /** Of the engine; 0 when it never looked. */
  durationMs: z.int().min(0).max(DURATION_MAX_MS),
  /** Null: nothing was found, which only with status 200 means clean. */
  virusName: text.nullable(),
  status: z.int().min(100).max(999),
  /** Null with status 200. */
  error: text.nullable(),
  /** What has looked, without its signatures: `yara-x/1.7.1` where rules stood in; null: nothing has looked at everything. */
  engine: text.nullable(),
  /** Their version, as the engine says it; null: the same. */
  signatures: text.nullable().default(null),
  /** Of the content; null: it never was there as a whole. */
  sizeBytes: z.int().min(0).nullable(),
  /** Of the content; null: the same. */
  sha256: Digest.nullable(),
  /** What ClamAV says the content is; null: it hasn't looked, or another engine stood in. */
  detectedType: text.nullable().default(null),
  /** What was said beside the verdict, such as `encrypted`, in the order in which it was said. */
  notices: z.array(z.string().regex(NOTICE)).max(NOTICES_MAX).readonly().default([]),
  /** What the client has said of it; null: nothing. */
  metadata: z.string().max(METADATA_BYTES).nullable().default(null),
  /** That it was of; null: an upload. */
  url: z.string().max(URL_KEPT_CHARACTERS).nullable().default(null),
  protocol: z.enum(protocols).default('http'),
  env: text,
  /** Epoch milliseconds of the decision. */
  lastUpdateMs: z.int().min(0),
  /** It was accepted before it was scanned: its row among the pending ones goes. Others don't have it, and nothing is written of it. */
  wasPending: z.literal(true).exactOptional(),
});

type Draft = z.output<typeof rowShape>;
export type ScanRow = Readonly<Draft>;

/** The row with what the columns can hold, cut in place before anybody relies on it. */
export function storableRow(row: Draft): ScanRow {
  row.filename = storable(row.filename);
  row.durationMs = Math.min(DURATION_MAX_MS, Math.max(0, Math.round(row.durationMs)));
  if (row.virusName !== null) row.virusName = storable(row.virusName);
  if (row.error !== null) row.error = storable(row.error);
  // What is as it was with the last row was storable there. The environment has 64 characters, and the readers of requests have seen to metadata.
  if (row.engine !== null && row.engine !== last?.engine) row.engine = storable(row.engine);
  if (row.signatures !== null && row.signatures !== last?.signatures) row.signatures = storable(row.signatures);
  if (row.url !== null) row.url = row.url.slice(0, URL_KEPT_CHARACTERS);
  return row;
}

/** How a storable row begins. By hand, since a row that `JSON.stringify` writes takes three times as long. */
export function rowStart(row: ScanRow): string {
  return (
    `{"id":"${row.id}",${ownerText(row.userId, row.keyId)},"filename":"${bareText(row.filename)}","durationMs":${row.durationMs}` +
    `,"sizeBytes":${row.sizeBytes},"sha256":${jsonName(row.sha256)},"lastUpdateMs":${row.lastUpdateMs}`
  );
}

let lastUser = '';
let lastKey: string | null = null;
let ownerMembers = '';

/** Of the scan as in its row: whose it is, in the very same text for scan after scan of one key. */
export function ownerText(userId: string, keyId: string | null): string {
  if (userId !== lastUser || keyId !== lastKey) {
    lastUser = userId;
    lastKey = keyId;
    ownerMembers = `"userId":"${userId}","keyId":${jsonName(keyId)}`;
  }
  return ownerMembers;
}

/** Of the rows that `plainEnds` are of: nearly all scans are clean, nothing was said of them, and the rest is the same, the very same texts. */
let last: Pick<ScanRow, 'engine' | 'signatures' | 'env' | 'protocol'> | null = null;
/** By what ClamAV says contents are; it knows some hundred names. */
const plainEnds = new Map<string | null, Buffer>();

/** The rest of it, ready to be copied. */
export function rowEnd(row: ScanRow): Buffer {
  const { engine, signatures, env, protocol, notices, detectedType } = row;
  const isClean = row.status === 200 && row.virusName === null && row.error === null;
  const isPlain =
    isClean && row.metadata === null && row.url === null && notices.length === 0 && row.wasPending !== true;
  if (!isPlain) return Buffer.from(endText(row));
  const isSame = engine === last?.engine && signatures === last.signatures && env === last.env;
  if (!isSame || protocol !== last?.protocol) {
    last = { engine, signatures, env, protocol };
    plainEnds.clear();
  }
  const known = plainEnds.get(detectedType);
  if (known !== undefined) return known;
  const end = Buffer.from(endText(row));
  plainEnds.set(detectedType, end);
  return end;
}

function endText(row: ScanRow): string {
  return (
    `,"virusName":${jsonText(row.virusName)},"status":${row.status},"error":${jsonText(row.error)},"metadata":${jsonText(row.metadata)}` +
    `,"url":${jsonText(row.url)},"engine":${jsonText(row.engine)},"signatures":${jsonText(row.signatures)},"protocol":"${row.protocol}"` +
    `,"env":${jsonText(row.env)},"detectedType":${jsonName(row.detectedType)},"notices":${JSON.stringify(row.notices)}${row.wasPending === true ? ',"wasPending":true}' : '}'}`
  );
}

/** Null when it isn't a row of ours: of another version, or damaged where no checksum sees it. */
export function decodeRow(json: string): ScanRow | null {
  try {
    return rowShape.parse(JSON.parse(json));
  } catch {
    return null;
  }
}

/** Postgres has no text with NUL in it. */
function storable(value: string): string {
  if (value.length <= TEXT_CHARACTERS && !value.includes('\0')) return value;
  const whole = value.replaceAll('\0', '');
  return whole.length <= TEXT_CHARACTERS ? whole : [...whole].slice(0, TEXT_CHARACTERS).join('');
}

/** Epoch milliseconds of a UUID version 7 (RFC 9562, section 5.7). */
export const timeOfId = (id: string): number => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);

/** Below every id of that millisecond and above all earlier ones; no id is from before 1970. */
export function lowestIdAt(epochMs: number): string {
  const hex = Math.max(0, epochMs).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}
