// The wire shape of a scan result: six fields, in the order of the interface.
export interface ScanResult {
  readonly filename: string;
  readonly extension: string;
  readonly sizeInBytes: number;
  readonly scanDurationMillis: number;
  /** Null when clean. */
  readonly virusName: string | null;
}

export function resultJson({ filename, extension, sizeInBytes, scanDurationMillis, virusName }: ScanResult): string {
  return JSON.stringify({
    filename,
    extension,
    sizeInBytes,
    scanDurationMillis: Math.round(scanDurationMillis),
    infected: virusName !== null,
    virusName,
  });
}

export const resultSchema = {
  type: 'object',
  required: ['filename', 'extension', 'sizeInBytes', 'scanDurationMillis', 'infected', 'virusName'],
  additionalProperties: false,
  properties: {
    filename: {
      type: 'string',
      description: 'Base name of the uploaded file; of a URL the last path segment, decoded, or else its host.',
    },
    extension: {
      type: 'string',
      description: 'After the last dot of the filename; empty without one, and for a host.',
    },
    sizeInBytes: { type: 'integer' },
    scanDurationMillis: { type: 'integer' },
    infected: { type: 'boolean', description: 'Whether a signature matched.' },
    virusName: { type: ['string', 'null'], description: 'The name of the signature; null when clean.' },
  },
};
