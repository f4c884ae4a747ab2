// The OpenAPI document is valid, and true: each of its operations is asked, well and badly, and every answer is one that it describes.
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import t from 'tap';
import { z } from 'zod';
import { startServer } from '../fixtures/server.js';
import { bearer } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { REQUEST_ID, requestsTo, type Sent, send } from './openapi-requests.js';

const Content = z.record(z.string(), z.object({ schema: z.unknown() }).loose());
const Answered = z.object({
  description: z.string().min(1),
  headers: z.record(z.string(), z.unknown()).optional(),
  content: Content.optional(),
});
const Operation = z
  .object({
    summary: z.string().min(1),
    security: z.array(z.record(z.string(), z.unknown())),
    parameters: z.array(z.object({ name: z.string(), in: z.string() }).loose()).optional(),
    requestBody: z.object({ content: Content }).loose().optional(),
    responses: z
      .looseObject({ default: z.object({ $ref: z.literal('#/components/responses/Refused') }) })
      .transform(({ default: _, ...responses }) => z.record(z.string(), Answered).parse(responses)),
  })
  .loose();
const Document = z
  .object({
    info: z.looseObject({ description: z.string() }),
    paths: z.record(z.string(), z.record(z.string(), Operation)),
    components: z.looseObject({ responses: z.object({ Refused: Answered }) }),
  })
  .loose();
type Operation = z.infer<typeof Operation>;

/** Headers that answers of their status have only where they have something to say. */
const SOMETIMES = new Set(['X-Scan-Notice', 'X-Scan-Type', 'Accept-Encoding', 'Idempotent-Replayed', 'Allow']);

/** Headers that mean something to clients of this API; the others are HTTP's. */
const OURS =
  /^(?:x-(?!content-type-options$)|retry-after$|allow$|location$|preference-applied$|idempotent-replayed$|www-authenticate$|set-cookie$)/;

t.test('the OpenAPI document', async (t) => {
  const server = await startServer({
    t,
    env: { REGISTRATION: 'open', PLANS: 'FREE:3,BUSINESS:10000', BOOTSTRAP_PLAN: 'BUSINESS' },
  });
  const text = await (await fetch(`${server.url}/openapi.json`)).text();
  const document = Document.parse(JSON.parse(text));

  t.test('is valid', async (t) => {
    const result = await new Validator().validate(JSON.parse(text));
    t.ok(result.valid, JSON.stringify(result.errors));
  });

  /** Said once, of all answers. */
  const everywhere = { 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' };
  for (const [name, value] of Object.entries(everywhere)) t.match(document.info.description, `\`${name}: ${value}\``);

  const ajv = new Ajv2020({ strict: false, validateFormats: true });
  addFormats.default(ajv);
  ajv.addSchema({ $id: 'document', components: document.components });

  /** What the answer has that the document doesn't say of it. */
  async function untold(operation: Pick<Operation, 'responses'>, answer: Response): Promise<string | null> {
    const described = operation.responses[String(answer.status)];
    const body = await answer.text();
    if (described === undefined) return `status ${answer.status} is not described: ${body}`;
    for (const name of Object.keys(described.headers ?? {})) {
      // What is answered again has touched no quota.
      if (name.startsWith('X-RateLimit-') && answer.headers.has('idempotent-replayed')) continue;
      if (!SOMETIMES.has(name) && !answer.headers.has(name)) return `${answer.status} has no header ${name}`;
    }
    for (const [name, value] of Object.entries(everywhere)) {
      if (answer.headers.get(name) !== value) return `${answer.status} has another ${name}`;
    }
    if (answer.headers.get('x-request-id') !== REQUEST_ID) return 'the X-Request-Id is another one';
    const said = new Set(Object.keys(described.headers ?? {}).map((name) => name.toLowerCase()));
    for (const name of answer.headers.keys()) if (OURS.test(name) && !said.has(name)) return `${name} is not described`;
    const type = answer.headers.get('content-type')?.split(';')[0] ?? null;
    if (body === '' && described.content === undefined) return null;
    if (type === null) return described.content === undefined ? null : 'a body is described, none came';
    const content = described.content?.[type];
    if (content === undefined) return `${type} is not described`;
    return whyNot(content, type === 'application/json' ? JSON.parse(body) : body);
  }

  const compiled = new Map<string, ValidateFunction>();

  /** Null: the document allows it. */
  function whyNot({ schema }: z.infer<typeof Content>[string], value: unknown): string | null {
    const text = JSON.stringify(schema).replaceAll('"#/', '"document#/');
    const validate = compiled.get(text) ?? ajv.compile(JSON.parse(text));
    compiled.set(text, validate);
    return validate(value) ? null : `${JSON.stringify(value)}: ${ajv.errorsText(validate.errors)}`;
  }

  const { Refused: refused } = document.components.responses;
  const { asked, key, me } = await requestsTo(server);

  for (const [path, operations] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const name = `${method} ${path}`;
      t.test(name, async (t) => {
        const isForAnybody = operation.security.length === 0;
        // HEAD is what GET is, without a body.
        const likeGet = name.replace(/^head /, 'get ');
        const wanted = asked[likeGet] ?? [{ status: 200 }];
        if (!isForAnybody) t.ok(asked[likeGet], 'is asked as somebody');
        const refused: Sent[] = isForAnybody ? [] : [{ status: 401 }, { headers: bearer('not.a.token'), status: 401 }];
        for (const sent of [...wanted, ...refused]) {
          // What a key reads has a rate: on a fast machine all of these are more in a second than it may.
          const answer = await until(async () => {
            const one = await send(server, method, path.replaceAll(/\{\w+\}/g, 'x'), sent);
            return one.status === 429 && sent.status !== 429 ? null : one;
          });
          t.equal(answer.status, sent.status, name);
          t.equal(await untold(operation, answer), null);
          const taken = operation.requestBody?.content['application/json'];
          const isJson = sent.headers?.['Content-Type'] === 'application/json' && typeof sent.body === 'string';
          if (answer.ok && taken !== undefined && isJson) t.equal(whyNot(taken, JSON.parse(String(sent.body))), null);
        }
      });
    }
  }

  t.test('examples of bodies are what their schemas allow', async (t) => {
    const Examples = z.object({
      example: z.unknown(),
      examples: z.record(z.string(), z.object({ value: z.unknown() })),
    });
    for (const operations of Object.values(document.paths)) {
      for (const { requestBody, responses } of Object.values(operations)) {
        for (const one of [requestBody, ...Object.values(responses)]) {
          for (const content of Object.values(one?.content ?? {})) {
            const { example, examples = {} } = Examples.partial().parse(content);
            const shown = Object.values(examples).map(({ value }) => value);
            for (const value of example === undefined ? shown : [...shown, example])
              t.equal(whyNot(content, value), null);
          }
        }
      }
    }
  });

  t.test('other methods and paths are refused as the document says', async (t) => {
    for (const [path, operations] of Object.entries(document.paths)) {
      const method = ['PATCH', 'DELETE', 'PUT', 'POST'].find((one) => !(one.toLowerCase() in operations)) ?? '';
      const headers = path.startsWith('/api/') ? key : me;
      const answer = await until(async () => {
        const one = await send(server, method, path.replaceAll(/\{\w+\}/g, 'x'), { headers, status: 405 });
        return one.status === 429 ? null : one;
      });
      t.equal(answer.status, 405, path);
      const allowed = answer.headers.get('allow')?.toLowerCase().split(', ') ?? [];
      t.strictSame(
        new Set(allowed),
        new Set([...Object.keys(operations), ...('get' in operations ? ['head'] : [])]),
        path,
      );
      t.equal(await untold({ responses: { 405: refused } }, answer), null, path);
    }
    for (const [path, headers] of Object.entries({ '/api/v1/nothing': key, '/nothing': {}, '/web/nothing': me })) {
      const stray = await send(server, 'GET', path, { headers, status: 404 });
      t.equal(await untold({ responses: { 404: refused } }, stray), null, path);
    }
  });

  t.test('bodies of JSON and of forms have names, or are lists of what has one', async (t) => {
    const Named = z.union([
      z.object({ $ref: z.string().startsWith('#/components/schemas/') }),
      z.looseObject({ type: z.literal('array'), items: z.object({ $ref: z.string() }) }),
    ]);
    for (const [path, operations] of Object.entries(document.paths)) {
      for (const [method, { requestBody, responses }] of Object.entries(operations)) {
        const bodies = [requestBody, ...Object.values(responses)].flatMap((one) => Object.entries(one?.content ?? {}));
        for (const [type, { schema }] of bodies) {
          const isText = !['application/json', 'multipart/form-data'].includes(type);
          // A file or a URL, which has no name of its own: it is one of two.
          const isScan = path === '/api/v1/scans' && type === 'multipart/form-data';
          t.ok(isText || isScan || Named.safeParse(schema).success, `${method} ${path}: ${JSON.stringify(schema)}`);
        }
      }
    }
  });

  t.test('an operation that takes a body says that it may come too slowly', async (t) => {
    for (const [path, operations] of Object.entries(document.paths)) {
      for (const [method, { requestBody, responses }] of Object.entries(operations)) {
        if (requestBody !== undefined) t.ok('408' in responses, `${method} ${path}`);
      }
    }
  });

  t.test('each 429 and 503 says when to come again', async (t) => {
    for (const [path, operations] of Object.entries(document.paths)) {
      for (const [method, { responses }] of Object.entries(operations)) {
        for (const status of ['429', '503']) {
          const { headers } = responses[status] ?? { headers: { 'Retry-After': true } };
          t.ok(headers?.['Retry-After'], `${method} ${path} ${status}`);
        }
      }
    }
  });

  t.test('every request above is of an operation that there is', async (t) => {
    const known = Object.entries(document.paths).flatMap(([path, operations]) =>
      Object.keys(operations).map((method) => `${method} ${path}`),
    );
    for (const name of Object.keys(asked)) t.ok(known.includes(name), name);
  });
});
