// Schemas in the OpenAPI document: what a text of the query stands for, and what is left out because the format says it.
import t from 'tap';
import { z } from 'zod';
import { jsonAnswer, jsonBody, pathParameter, queryParameters, sentAs } from '../../src/http/openapi.js';

/** As it is in the document. */
const written = (part: object): unknown => JSON.parse(JSON.stringify(part));

t.test('a parameter of the query is documented as what its text stands for', async (t) => {
  const page = sentAs(z.string().transform(Number), { type: 'integer', default: 0 });
  const schema = z.strictObject({ page: page.default(0).describe('From 0.'), q: z.string().max(5).optional() });
  t.strictSame(written(queryParameters(schema)), [
    { name: 'page', in: 'query', description: 'From 0.', schema: { type: 'integer', default: 0 } },
    { name: 'q', in: 'query', schema: { type: 'string', maxLength: 5 } },
  ]);
  t.match(queryParameters(z.object({ id: z.string() })), [{ name: 'id', required: true }]);
});

t.test('an answer has its fields and no others, a body those that are taken', async (t) => {
  const schema = z.object({ id: z.uuid(), size: z.int().min(0) });
  const properties = { id: { type: 'string', format: 'uuid' }, size: { type: 'integer', minimum: 0 } };
  const object = { type: 'object', properties, required: ['id', 'size'] };
  t.strictSame(jsonAnswer('It.', schema), {
    description: 'It.',
    content: { 'application/json': { schema: { ...object, additionalProperties: false } } },
  });
  t.strictSame(jsonBody(schema, { isRequired: false }), {
    required: false,
    content: { 'application/json': { schema: object } },
  });
  t.strictSame(written(pathParameter('id', z.uuid())), {
    name: 'id',
    in: 'path',
    required: true,
    schema: { type: 'string', format: 'uuid' },
  });
});
