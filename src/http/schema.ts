// Schemas in the OpenAPI document: what validates a request, and what an answer is made as, is also what documents it.
import { z } from 'zod';

type Described = Readonly<Record<string, unknown>>;

/** A response with this body. */
export function jsonAnswer(description: string, schema: z.ZodType): Described {
  return { description, content: jsonContent(schema, 'output') };
}

export function jsonBody(schema: z.ZodType, { isRequired } = { isRequired: true }): Described {
  return { required: isRequired, content: jsonContent(schema, 'input') };
}

/**
 * A query has texts only. `sentAs` is what the text stands for: a schema of the document in the place of the one that reads the text.
 */
export function sentAs<Schema extends z.ZodType>(schema: Schema, documented: Described): Schema {
  return schema.meta({ ...schema.meta(), sentAs: documented });
}

/** One parameter for each field of the schema that reads the query. */
export function queryParameters(schema: z.ZodObject): Described[] {
  const { properties = {}, required = [] } = documented(schema, 'input');
  return Object.entries(properties).map(([name, property]) => {
    const { description, sentAs: sent, ...read } = typeof property === 'boolean' ? {} : property;
    return {
      name,
      in: 'query',
      ...(required.includes(name) ? { required: true } : {}),
      ...(description === undefined ? {} : { description }),
      schema: sent ?? read,
    };
  });
}

export function pathParameter(name: string, schema: z.ZodType): Described {
  const { description, ...read } = documented(schema, 'input');
  return { name, in: 'path', required: true, ...(description === undefined ? {} : { description }), schema: read };
}

/** Described when the document is made: most servers are never asked for it, and it takes longer than all else of a route. */
function jsonContent(schema: z.ZodType, io: 'input' | 'output'): Described {
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
