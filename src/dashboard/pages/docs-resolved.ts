// References of the OpenAPI document, which all lead into it, put in place where Swagger UI asks for a part. Its own resolver reads the whole document for that, which takes a second.

const BEGINNING = '#/';

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function at(document: unknown, path: readonly string[]): unknown {
  return path.reduce((found: unknown, name) => (isObject(found) ? found[name] : undefined), document);
}

/** `within`: the references that this is in. A shape that has itself as a part is shown once. */
function inPlace(value: unknown, document: unknown, within: readonly string[] = []): unknown {
  if (Array.isArray(value)) return value.map((one) => inPlace(one, document, within));
  if (!isObject(value)) return value;
  const { $ref: reference } = value;
  if (typeof reference !== 'string' || !reference.startsWith(BEGINNING)) {
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, inPlace(one, document, within)]));
  }
  const path = reference.slice(BEGINNING.length).split('/');
  const title = path.at(-1);
  if (within.includes(reference)) return { title };
  const found = inPlace(at(document, path), document, [...within, reference]);
  return isObject(found) && path[1] === 'schemas' ? { title, ...found } : found;
}

/** In the place of Swagger UI's own. */
export const resolver = {
  fn: {
    resolveSubtree: async (document: unknown, path: readonly string[]) => ({
      spec: inPlace(at(document, path), document),
      errors: [],
    }),
  },
};
