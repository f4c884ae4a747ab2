// What the OpenAPI document says of the two scan routes.
import { callerErrors } from '../http/caller.js';
import type { Operation } from '../http/openapi.js';
import { MULTIPART_FIELD_BYTES } from '../limits.js';
import { resultSchema } from './result.js';

const integerHeader = (description: string): object => ({ description, schema: { type: 'integer' } });
const textHeader = (description: string): object => ({ description, schema: { type: 'string' } });

/** What the OpenAPI document says of the public route. */
export const scanOperation: Operation = {
  summary: 'Scan a file, uploaded or behind a URL',
  description:
    'An infection is not an error: it is a 200 with `infected` true. Whatever was not looked at completely is a 422. ' +
    'Takes one unit of the hourly quota, which comes back when the service fails or the request never arrives whole. ' +
    'Send either `file` or `url`. A URL is fetched without credentials, at most 5 redirects are followed, and every host on ' +
    'the way must have public addresses only.',
  tag: 'scans',
  who: 'key',
  requestBody: {
    required: true,
    content: {
      'multipart/form-data': {
        schema: {
          type: 'object',
          oneOf: [{ required: ['file'] }, { required: ['url'] }],
          properties: {
            file: { type: 'string', format: 'binary', description: 'At most 10,485,760 bytes, with a filename.' },
            url: {
              type: 'string',
              format: 'uri',
              maxLength: MULTIPART_FIELD_BYTES,
              description:
                'Public http or https URL without credentials; what it answers with is at most 10,485,760 bytes.',
            },
          },
        },
      },
    },
  },
  responses: {
    200: {
      description: 'The verdict about all of the content.',
      headers: {
        'X-Scan-Id': textHeader('UUID of this scan.'),
        'X-Scan-Sha256': textHeader('Of the content that was scanned.'),
        'X-Scan-Engine': textHeader('Engine and signatures that have looked at the content, with their versions.'),
        'X-Scan-Cache': textHeader(
          'MISS: the engine looked. HIT: it has looked at the same content before, with the same signatures.',
        ),
        'X-Scan-Notice': textHeader(
          '`encrypted`: there are members that nobody could look into. `raw-content`: YARA rules stand in for ClamAV.',
        ),
        'X-RateLimit-Limit': integerHeader('Scans per hour.'),
        'X-RateLimit-Remaining': integerHeader('Scans left in this hour.'),
        'X-RateLimit-Reset': integerHeader('End of the hour, in epoch seconds.'),
      },
      content: { 'application/json': { schema: resultSchema } },
    },
  },
  errors: [
    'fileTooLarge',
    'fileEmpty',
    'filenameMissing',
    'nothingToScan',
    'fileAndUrl',
    'severalFiles',
    'malformedMultipart',
    'urlRejected',
    'badFraming',
    'keyMissing',
    'keyInvalid',
    'uploadTooSlow',
    'unsupportedMediaType',
    'contentEncoded',
    'downloadFailed',
    'scanIncomplete',
    'quotaExhausted',
    'internal',
    'unavailable',
  ],
};

export const signedInOperation: Operation = {
  ...scanOperation,
  summary: 'Scan an uploaded file as the signed-in user',
  description: `${scanOperation.description} Uploads only: a \`url\` is refused.`,
  who: 'user',
  errors: [...scanOperation.errors.filter((code) => code !== 'keyMissing' && code !== 'keyInvalid'), ...callerErrors],
};
