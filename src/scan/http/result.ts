// The wire shape of a scan result: six fields, in the order of the interface.
import { z } from 'zod';
import { bareText, jsonText } from '../../json-text.js';

export const ScanResult = z
  .strictObject({
    filename: z
      .string()
      .describe('Base name of the uploaded file; of a URL the last path segment, decoded, or else its host.'),
    extension: z.string().describe('After the last dot of the filename; empty without one, and for a host.'),
    sizeInBytes: z.int(),
    scanDurationMillis: z.int(),
    infected: z.boolean().describe('Whether a signature matched.'),
    virusName: z.string().nullable().describe('The name of the signature; null when clean.'),
  })
  .meta({ id: 'ScanResult' });

type Fields = Omit<z.infer<typeof ScanResult>, 'infected'>;

/** `scanDurationMillis` may have a fraction. By hand, since `JSON.stringify` of an object takes several times as long. */
export function resultJson({ filename, extension, sizeInBytes, scanDurationMillis, virusName }: Fields): string {
  const found = virusName === null ? 'false,"virusName":null}' : `true,"virusName":${jsonText(virusName)}}`;
  return (
    `{"filename":"${bareText(filename)}","extension":"${bareText(extension)}","sizeInBytes":${sizeInBytes},` +
    `"scanDurationMillis":${Math.round(scanDurationMillis)},"infected":${found}`
  );
}
