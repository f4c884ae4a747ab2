// The wire shape of a scan result: six fields, in the order of the interface.
import { extensionOf } from './filename.js';

export interface ScanResult {
  readonly filename: string;
  readonly sizeInBytes: number;
  readonly scanDurationMillis: number;
  /** Null when clean. */
  readonly virusName: string | null;
}

export function resultJson({ filename, sizeInBytes, scanDurationMillis, virusName }: ScanResult): string {
  return JSON.stringify({
    filename,
    extension: extensionOf(filename),
    sizeInBytes,
    scanDurationMillis: Math.round(scanDurationMillis),
    infected: virusName !== null,
    virusName,
  });
}
