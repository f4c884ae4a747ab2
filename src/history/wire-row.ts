// A row of the history on the wire, and what the OpenAPI document says of it.
import type { HistoryRow, ScanDetail } from './stats.js';

export function wireRow(row: HistoryRow): Record<string, unknown> {
  return {
    id: row.id,
    filename: row.filename,
    scanDurationMillis: row.duration_ms,
    infected: row.infected,
    virusName: row.virus_name,
    env: row.env,
    status: String(row.status),
    error: row.error,
    creationDate: localDateTime(row.creation_date),
    lastUpdate: localDateTime(row.last_update),
  };
}

/** UTC without saying so, as the interface has it. */
function localDateTime(date: Date): string {
  return date.toISOString().slice(0, 19);
}

const dateTime = { type: 'string', pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d$', description: 'UTC' };
export const rowSchema = {
  type: 'object',
  additionalProperties: false,
  required: [
    'id',
    'filename',
    'scanDurationMillis',
    'infected',
    'virusName',
    'env',
    'status',
    'error',
    'creationDate',
    'lastUpdate',
  ],
  properties: {
    id: { type: 'string', format: 'uuid', description: "The scan's X-Scan-Id." },
    filename: { type: 'string', description: 'Empty when the request was refused before a name was read.' },
    scanDurationMillis: { type: 'integer', description: '0 when the engine never looked.' },
    infected: { type: 'boolean', description: 'Whether a signature matched. False means clean only with status 200.' },
    virusName: { type: ['string', 'null'] },
    env: { type: 'string' },
    status: {
      type: 'string',
      description: 'The status of the answer; 499: the client went away before there was one.',
    },
    error: { type: ['string', 'null'], description: 'Null with status 200.' },
    creationDate: { ...dateTime, description: 'When the scan was admitted, in UTC.' },
    lastUpdate: { ...dateTime, description: 'When it was decided, in UTC.' },
  },
};

/** The row with what is known of its content and of what has looked at it. */
export function wireDetail(row: ScanDetail): Record<string, unknown> {
  return { ...wireRow(row), sizeInBytes: row.size_bytes, sha256: row.sha256, engine: row.engine };
}

export const detailSchema = {
  ...rowSchema,
  required: [...rowSchema.required, 'sizeInBytes', 'sha256', 'engine'],
  properties: {
    ...rowSchema.properties,
    sizeInBytes: {
      type: ['integer', 'null'],
      minimum: 0,
      description: 'Of the content; null when it never was there as a whole.',
    },
    sha256: {
      type: ['string', 'null'],
      pattern: '^[0-9a-f]{64}$',
      description: 'Of the content; null when it never was there as a whole.',
    },
    engine: {
      type: ['string', 'null'],
      description: 'What has looked, such as `clamav/1.4.6`; null when nothing has looked at all of it.',
    },
  },
};
