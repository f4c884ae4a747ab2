// The OpenAPI 3.1 document, made from the table of routes and the table of errors: what is served is what is documented.
import { challengeOf, type ErrorCode, errorTable } from '../errors.js';

/** What a route says of itself. Responses beyond these come from the error table. */
export interface Operation {
  readonly summary: string;
  readonly description?: string;
  readonly tag: string;
  /** `key`: X-API-KEY; `user`: an access token. */
  readonly who: 'anybody' | 'key' | 'user';
  readonly parameters?: readonly Readonly<Record<string, unknown>>[];
  readonly requestBody?: Readonly<Record<string, unknown>>;
  /** By status. */
  readonly responses: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** Rows of the error table that it can answer. */
  readonly errors: readonly ErrorCode[];
  /** By status, what their answers may have beside the headers of the row itself. */
  readonly errorHeaders?: (status: number) => Headers;
}

/** Header objects by name. */
export type Headers = Readonly<Record<string, object>>;

export interface DocumentedRoute {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation | null;
}

export function openApiDocument(routes: readonly DocumentedRoute[], version: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const { method, path, operation } of routes) {
    if (operation === null) continue;
    paths[path] = { ...paths[path], [method.toLowerCase()]: describe(operation) };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Sluice', version, description: 'Malware scanning: a file in, an honest verdict out.' },
    paths,
    components: {
      securitySchemes: {
        apiKey: { type: 'apiKey', in: 'header', name: 'X-API-KEY' },
        accessToken: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
        accessCookie: { type: 'apiKey', in: 'cookie', name: 'sluice_access' },
      },
      schemas: { Error: errorSchema },
    },
  };
}

const security = { anybody: [], key: [{ apiKey: [] }], user: [{ accessToken: [] }, { accessCookie: [] }] };

const errorSchema = {
  type: 'object',
  required: ['error'],
  properties: {
    error: { type: 'string' },
    message: { type: 'string' },
    limit: { type: 'integer', description: 'Scans per hour; with 429 only.' },
    resetTime: { type: 'integer', description: 'Epoch seconds; with 429 only.' },
    retryAfter: { type: 'integer', minimum: 1, description: 'Seconds; with 429 only.' },
  },
};

function describe(operation: Operation): object {
  const { summary, description, tag, who, parameters, requestBody, responses } = operation;
  return {
    summary,
    ...(description === undefined ? {} : { description }),
    tags: [tag],
    security: security[who],
    ...(parameters === undefined ? {} : { parameters }),
    ...(requestBody === undefined ? {} : { requestBody }),
    responses: { ...responses, ...errorResponses(operation) },
  };
}

/** Every route answers these: to parameters that it doesn't know, and when something unforeseen happens. */
const ALWAYS: readonly ErrorCode[] = ['badRequest', 'internal'];

/** One response for each status, with every body that the table has for it as an example. */
function errorResponses({ errors, errorHeaders = () => ({}) }: Operation): Record<string, unknown> {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of new Set([...errors, ...ALWAYS])) {
    const { status } = errorTable[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, rows]) => [
      status,
      {
        description: rows.map((code) => errorTable[code].when).join('; '),
        headers: { ...errorHeaders(status), ...rowHeaders(rows, status) },
        content: {
          'application/json': {
            schema: { $ref: '#/components/schemas/Error' },
            examples: Object.fromEntries(rows.map((code) => [code, { value: exampleOf(code) }])),
          },
        },
      },
    ]),
  );
}

/** What the rows have by themselves: a 401 says how to come in, others when to come again. */
function rowHeaders(codes: readonly ErrorCode[], status: number): Headers {
  if (status === 429 || status === 503) {
    return { 'Retry-After': { description: 'Seconds.', schema: { type: 'integer', minimum: 1 } } };
  }
  if (codes.includes('contentEncoded')) {
    const description = 'With a request that has a Content-Encoding: what may be sent.';
    return { 'Accept-Encoding': { description, schema: { type: 'string', const: 'identity' } } };
  }
  if (status !== 401) return {};
  const examples = Object.fromEntries(codes.map((code) => [code, { value: challengeOf(code) }]));
  const description = 'How to authenticate (RFC 9110, section 11.6.1).';
  return { 'WWW-Authenticate': { description, schema: { type: 'string' }, examples } };
}

function exampleOf(code: ErrorCode): Record<string, string> {
  const { error, message } = errorTable[code];
  return message === null ? { error } : { error, message };
}
