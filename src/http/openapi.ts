// The OpenAPI 3.1 document, made from the table of routes and the table of errors: what is served is what is documented. What validates a request, and what an answer is made as, is its schema there.
import { z } from 'zod';
import { challengeOf, type ErrorCode, errorTable } from '../errors.js';

type DocumentObject = Readonly<Record<string, unknown>>;

/** What a route says of itself. Responses beyond these come from the error table. */
export interface Operation {
  /** What clients that are made from the document call it; default: made of method and path. */
  readonly id?: string;
  readonly summary: string;
  readonly description?: string;
  readonly tag: string;
  /** `key`: X-API-KEY; `user`: an access token. */
  readonly who: 'anybody' | 'key' | 'user';
  readonly parameters?: readonly DocumentObject[];
  readonly requestBody?: DocumentObject;
  /** By status. */
  readonly responses: Readonly<Record<string, DocumentObject>>;
  /** Rows of the error table that it can answer. */
  readonly errors: readonly ErrorCode[];
  /** By status, what their answers may have beside the headers of the row itself. */
  readonly errorHeaders?: (status: number) => Headers;
}

export type Headers = Readonly<Record<string, object>>;

const DESCRIPTION =
  'Malware scanning: a file in, an honest verdict out. HEAD is answered wherever GET is, and any other method that a path does not have is a 405 with ' +
  '`Allow`. Under `/api/` the key is asked for first: 401 goes before 404 and 405. Every answer has `Cache-Control: no-store` and ' +
  '`X-Content-Type-Options: nosniff` beside the headers that are named below.';

const TAGS = {
  scans: 'Scanning, and what came of it.',
  account: 'The account of a key.',
  webhooks: 'Where the account wants to hear what came of its scans.',
  keys: 'API keys of the signed-in user.',
  history: 'The history of the signed-in user, and its statistics.',
  users: 'The signed-in user, and the sessions.',
  auth: 'Signing in.',
  billing: 'Plans.',
  admin: 'Accounts, health, activity and the audit log, for operators.',
  operations: 'Health and versions.',
};

interface DocumentFacts {
  readonly version: string;
  /** Where clients reach the server; null: where they have the document from. */
  readonly baseUrl: string | null;
}

export function openApiDocument(
  routes: readonly { readonly name: string; readonly operation: Operation | null }[],
  { version, baseUrl }: DocumentFacts,
): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  const tags = new Map<string, string>(Object.entries(TAGS));
  for (const { name, operation } of routes) {
    const [method = '', path = ''] = name.split(' ');
    if (operation === null) continue;
    if (!tags.has(operation.tag)) tags.set(operation.tag, `What is under ${operation.tag}.`);
    const id = operation.id ?? idOf(method, path);
    paths[path] = {
      ...paths[path],
      [method.toLowerCase()]: describe(id, operation),
      // Programs ask with HEAD as well; the dashboard's own routes are long enough without.
      ...(method === 'GET' && operation.who !== 'user' ? { head: describeHead(id, operation) } : {}),
    };
  }
  const schemas: Record<string, unknown> = { ApiError: errorSchema };
  const hoisted = hoist(paths, schemas);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sluice',
      version,
      description: DESCRIPTION,
      contact: { name: 'The operator of this service' },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: baseUrl ?? '/', description: 'This service.' }],
    tags: [...tags].map(([name, description]) => ({ name, description })),
    paths: hoisted,
    components: {
      headers: { RequestId: requestIdHeader },
      responses: { Refused: refused },
      securitySchemes: {
        apiKey: { type: 'apiKey', in: 'header', name: 'X-API-KEY' },
        accessToken: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
        accessCookie: { type: 'apiKey', in: 'cookie', name: 'sluice_access' },
      },
      schemas,
    },
  };
}

const requestIdHeader = {
  description: 'Of the request: its own `X-Request-Id` where that is a token, otherwise a new one.',
  schema: { type: 'string' },
};

/** `getWebUsersMeSessionsBySessionId`. */
function idOf(method: string, path: string): string {
  const words = path.split(/[^A-Za-z0-9{}]+/).filter((word) => word !== '');
  const named = words.map((word) => (word.startsWith('{') ? `By${capital(word.slice(1, -1))}` : capital(word)));
  return method.toLowerCase() + named.join('');
}

const capital = (word: string): string => word.slice(0, 1).toUpperCase() + word.slice(1);

/** Schemas that have a name go to the components, whatever they are in. */
function hoist(value: unknown, schemas: Record<string, unknown>): unknown {
  if (Array.isArray(value)) return value.map((each) => hoist(each, schemas));
  if (typeof value !== 'object' || value === null) return value;
  const { $defs = {}, ...rest }: { $defs?: object } = value;
  for (const [name, schema] of Object.entries($defs)) {
    const { id: _, ...named }: { id?: unknown } = schema;
    schemas[name] = hoist(named, schemas);
  }
  return Object.fromEntries(
    Object.entries(rest).map(([name, each]) => [
      name,
      name === '$ref' && typeof each === 'string'
        ? each.replace('#/$defs/', '#/components/schemas/')
        : hoist(each, schemas),
    ]),
  );
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

/** What no operation says of itself, since it is about none. */
const refused = {
  description:
    'Whatever else is refused: a method that the path does not have is a 405, which says in `Allow` those that it has; a path that is not there is a 404.',
  headers: {
    'X-Request-Id': { $ref: '#/components/headers/RequestId' },
    Allow: { description: 'With a 405: the methods that there are.', schema: { type: 'string' } },
  },
  content: errorContent(['methodNotAllowed', 'notFound']),
};

/** As GET, without bodies. */
function describeHead(id: string, operation: Operation): object {
  const { responses, ...described } = describe(`head${capital(id)}`, operation);
  return {
    ...described,
    summary: `${operation.summary}: the headers alone`,
    description: 'As GET, without the body.',
    responses: Object.fromEntries(
      Object.entries(responses).map(([status, { content: _, ...answer }]) => [status, answer]),
    ),
  };
}

interface DescribedOperation extends DocumentObject {
  readonly responses: Readonly<Record<string, DocumentObject>>;
}

function describe(operationId: string, operation: Operation): DescribedOperation {
  const { summary, description, tag, who, parameters, requestBody, responses } = operation;
  const answers: Readonly<Record<string, DocumentObject>> = { ...responses, ...errorResponses(operation) };
  return {
    operationId,
    summary,
    description: description ?? `${summary}.`,
    tags: [tag],
    security: security[who],
    ...(parameters === undefined ? {} : { parameters }),
    ...(requestBody === undefined ? {} : { requestBody }),
    responses: {
      ...Object.fromEntries(Object.entries(answers).map(([status, answer]) => [status, withRequestId(answer)])),
      default: { $ref: '#/components/responses/Refused' },
    },
  };
}

function withRequestId(answer: DocumentObject): DocumentObject {
  const { headers = {} } = answer;
  return { ...answer, headers: { ...Object(headers), 'X-Request-Id': { $ref: '#/components/headers/RequestId' } } };
}

/** Every route answers these: to parameters that it doesn't know, and when something unforeseen happens. */
const ALWAYS: readonly ErrorCode[] = ['badRequest', 'internal'];

/** One response for each status, with every body that the table has for it as an example. */
function errorResponses({ errors, errorHeaders = () => ({}) }: Operation): Record<string, DocumentObject> {
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
        content: errorContent(rows),
      },
    ]),
  );
}

function errorContent(codes: readonly ErrorCode[]): object {
  const examples = Object.fromEntries(codes.map((code) => [code, { value: exampleOf(code) }]));
  return { 'application/json': { schema: { $ref: '#/components/schemas/ApiError' }, examples } };
}

/** Every 429 and 503 has it. */
export const retryAfter: Headers = {
  'Retry-After': { description: 'Seconds.', schema: { type: 'integer', minimum: 1 } },
};

/** What the rows have by themselves: a 401 says how to come in, others when to come again. */
function rowHeaders(codes: readonly ErrorCode[], status: number): Headers {
  if (status === 429 || status === 503) return retryAfter;
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

export function jsonAnswer(description: string, schema: z.ZodType): DocumentObject {
  return { description, content: jsonContent(schema, 'output') };
}

export function csvAnswer(description: string): DocumentObject {
  const schema = { type: 'string' };
  return { description, headers: { 'Content-Disposition': { schema } }, content: { 'text/csv': { schema } } };
}

export function jsonBody(schema: z.ZodType, { isRequired } = { isRequired: true }): DocumentObject {
  return { required: isRequired, content: jsonContent(schema, 'input') };
}

/**
 * A query has texts only. `sentAs` is what the text stands for: a schema of the document in the place of the one that reads the text.
 */
export function sentAs<Schema extends z.ZodType>(schema: Schema, documented: DocumentObject): Schema {
  return schema.meta({ ...schema.meta(), sentAs: documented });
}

/** A parameter of a query that is a whole number. */
export function queryInteger(minimum: number, maximum: number, initial: number) {
  const message = `must be a whole number from ${minimum} to ${maximum}`;
  const number = z
    .string()
    .regex(/^\d{1,9}$/, message)
    .transform(Number)
    .pipe(z.number().min(minimum, message).max(maximum, message));
  return sentAs(number, { type: 'integer', minimum, maximum, default: initial }).default(initial);
}

/** One that is true or false; where it is left out, `documented` has what that means. */
export function queryBoolean(documented: DocumentObject = {}) {
  const said = z.enum(['true', 'false'], 'must be true or false').transform((text) => text === 'true');
  return sentAs(said, { type: 'boolean', ...documented });
}

/** One parameter for each field of the schema that reads the query. */
export function queryParameters(schema: z.ZodObject): DocumentObject[] {
  return Object.entries(schema.shape).map(([name, field]) => parameter(name, 'query', z.object({ [name]: field })));
}

export function pathParameter(name: string, schema: z.ZodType): DocumentObject {
  return parameter(name, 'path', z.object({ [name]: schema }));
}

/** Described when the document is made, as `jsonContent`. `holder` has it as its only field. */
function parameter(name: string, place: 'query' | 'path', holder: z.ZodObject): DocumentObject {
  return {
    name,
    in: place,
    get required() {
      return documented(holder, 'input').required === undefined ? undefined : true;
    },
    get description() {
      return described(holder).description;
    },
    get schema() {
      const { description: _, sentAs: sent, ...read } = described(holder);
      return sent ?? read;
    },
  };
}

function described(holder: z.ZodObject): z.core.JSONSchema.BaseSchema {
  const { properties = {}, $defs } = documented(holder, 'input');
  const [property = {}] = Object.values(properties);
  return typeof property === 'boolean' ? {} : { ...property, ...($defs === undefined ? {} : { $defs }) };
}

/** Described when the document is made: most servers are never asked for it, and it takes longer than all else of a route. */
function jsonContent(schema: z.ZodType, io: 'input' | 'output'): DocumentObject {
  return {
    'application/json': {
      get schema() {
        return documented(schema, io);
      },
    },
  };
}

/** A schema that has a name (`meta({ id })`) is a reference to it, with the definition beside it. */
export function documented(schema: z.ZodType, io: 'input' | 'output'): z.core.JSONSchema.BaseSchema {
  if (schema.meta()?.id === undefined) return describedAs(schema, io);
  const { $defs = {}, properties = {} } = describedAs(z.object({ named: schema }), io);
  const { named } = properties;
  return typeof named === 'object' ? { ...named, $defs } : {};
}

function describedAs(schema: z.ZodType, io: 'input' | 'output'): z.core.JSONSchema.BaseSchema {
  const { $schema: _, ...described } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override({ jsonSchema }) {
      // What the format says already, and what JavaScript can count to.
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
    },
  });
  return described;
}
